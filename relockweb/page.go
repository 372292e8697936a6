package relockweb

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/url"
	"time"

	"github.com/relock-go/relock/internal/display"
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

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"style":       func() template.CSS { return template.CSS(style) },
	"script":      func() template.JS { return template.JS(script) },
	"lockLink":    func(key string) string { return "?" + url.Values{"lock": {key}}.Encode() },
	"queueLink":   func(name string) string { return "?" + url.Values{"queue": {name}}.Encode() },
	"clock":       func(t time.Time) string { return t.Format("15:04:05") },
	"holders":     display.Holders,
	"name":        nameOf,
	"longestWait": display.LongestWait,
	"late":        func(d time.Duration) bool { return d > time.Minute },
	"brief":       brief,
	"ago":         ago,
	"plain":       display.Plain,
	"seen":        seen,
}).Parse(markup))
