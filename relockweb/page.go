package relockweb

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"time"

	"github.com/relock-go/relock/internal/display"
	"github.com/relock-go/relock/queue"
)

//go:embed page.html
var markup string

//go:embed page.css
var style string

//go:embed page.js
var script string

// policy permits this style and this script only.
var policy = "default-src 'none'; style-src " + hashOf(style) + "; script-src " + hashOf(script) +
	"; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

var page = pageAt(time.Now)

// pageAt returns the page, whose ages are those at now.
func pageAt(now func() time.Time) *template.Template {
	ago := func(t time.Time) string { return ageAt(t, now()) }
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"style":       func() template.CSS { return template.CSS(style) },
		"script":      func() template.JS { return template.JS(script) },
		"lockLink":    func(key string) string { return query{lock: key}.link() },
		"taskLink":    func(name, id string) string { return query{queue: name, task: id}.link() },
		"queueLink":   func(name string) string { return query{queue: name}.link() },
		"stateLink":   func(name string, s queue.State, n int) string { return query{queue: name, state: s, page: n}.link() },
		"states":      func() []queue.State { return states },
		"stateName":   display.StateOf,
		"add":         func(a, b int) int { return a + b },
		"count":       countOf,
		"when":        func(t queue.TaskInfo) string { return whenOf(t, now()) },
		"clock":       func(t time.Time) string { return t.Format("15:04:05") },
		"holders":     display.Holders,
		"name":        nameOf,
		"longestWait": display.LongestWait,
		"late":        isLate,
		"summary":     summary,
		"brief":       brief,
		"ago":         ago,
		"plain":       display.Plain,
		"seen":        seen,
	}).Parse(markup))
}

// countOf returns how many tasks are in a state.
func countOf(s queue.Stats, state queue.State) int {
	switch state {
	case queue.StateInFlight:
		return s.InFlight
	case queue.StateReady:
		return s.Ready
	case queue.StateBehind:
		return s.Behind
	case queue.StateDelayed:
		return s.Delayed
	}
	return s.Dead
}

// whenOf says since when a task is in its state, or when it is due.
func whenOf(t queue.TaskInfo, now time.Time) string {
	switch {
	case t.State == queue.StateDelayed:
		return "due in " + brief(max(0, t.Due.Sub(now)))
	case t.State == queue.StateReady:
		return "due for " + ageAt(t.Due, now)
	case t.State == queue.StateDead:
		return "died " + ageAt(t.DiedAt, now) + " ago"
	case t.Holder != nil:
		return "for " + ageAt(t.Holder.Since, now)
	}
	return ""
}
