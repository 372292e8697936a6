package relockweb

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/relock-go/relock/internal/display"
	"github.com/relock-go/relock/queue"
)

// states are those of tasks, in the order in which an operator asks for them.
var states = []queue.State{
	queue.StateInFlight, queue.StateReady, queue.StateBehind, queue.StateDelayed, queue.StateDead,
}

// query names a view. It is a key of the cells.
type query struct {
	match             string // of the overview: which locks
	lock, queue, task string
	state             queue.State
	page              int
}

// toQuery reads what a URL or a form asks for. Dead letters are the tasks that
// are shown if it names no state.
func toQuery(values url.Values) query {
	asked := query{lock: values.Get("lock"), queue: values.Get("queue")}
	if asked.lock != "" {
		return query{lock: asked.lock}
	}
	if asked.queue == "" {
		return query{match: values.Get("match")}
	}
	if asked.task = values.Get("task"); asked.task != "" {
		return asked
	}
	page, _ := strconv.Atoi(values.Get("page")) // 0 if there is none
	asked.page = min(max(1, page), maxPage)
	asked.state = queue.StateDead
	name := strings.ReplaceAll(values.Get("state"), "-", " ")
	if slices.Contains(states, queue.State(name)) {
		asked.state = queue.State(name)
	}
	return asked
}

// after returns the view that follows a change of this one: a task that was
// removed has none.
func (q query) after(verb string) query {
	if verb == "remove" && q.task != "" {
		return query{queue: q.queue, state: queue.StateDead, page: 1}
	}
	return q
}

// link returns the link to this view.
func (q query) link() string {
	values := url.Values{}
	set := func(name, value string) {
		if value != "" {
			values.Set(name, value)
		}
	}
	set("match", q.match)
	set("lock", q.lock)
	set("queue", q.queue)
	set("task", q.task)
	if q.state != queue.StateDead {
		set("state", display.StateOf(q.state))
	}
	if q.page > 1 {
		set("page", strconv.Itoa(q.page))
	}
	return "?" + values.Encode()
}
