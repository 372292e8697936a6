package relockweb_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
	"github.com/relock-go/relock/relockweb"
)

// filled is a queue with a task in each state.
func filled(t *testing.T, l *lab) *queue.Queue {
	t.Helper()
	q, err := queue.New("orders", l.other(), queue.WithLabel("checkout"))
	require.NoError(t, err)
	put := func(tasks ...queue.Task) {
		_, err := q.Enqueue(t.Context(), tasks...)
		require.NoError(t, err)
	}
	next := func() *queue.Delivery {
		all, err := q.Receive(t.Context(), 1)
		require.NoError(t, err)
		return all[0]
	}
	put(queue.Task{ID: "dead"})
	require.NoError(t, next().DeadLetter(t.Context(), errors.New("no <such> customer")))
	put(queue.Task{ID: "late", Key: "customer 8"})
	require.NoError(t, next().Nack(t.Context(), time.Hour, errors.New("smtp 421")))
	put(queue.Task{ID: "41", Key: "customer 7"}, queue.Task{ID: "42", Key: "customer 7"})
	flies := next()
	t.Cleanup(func() { require.NoError(t, flies.Ack(context.Background())) })
	put(queue.Task{ID: "soon", Payload: []byte("secret")})
	return q
}

// The tasks of each state are listed: when, in which process, behind what, and
// why the last attempt failed.
func TestTasksOfAQueue(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	q := filled(t, l)
	require.Contains(t, l.get(""), `<a href="?queue=orders&amp;state=in-flight">1</a>`, "it is found without WithQueues")
	for state, want := range map[string]string{
		"in-flight": `41</a></td><td>for [\d.a-zµ]+</td><td>1</td><td>checkout @ `,
		"ready":     `soon</a></td><td>due for [\d.a-zµ]+</td><td>0</td><td></td><td></td><td>6 bytes`,
		"behind":    `42</a></td><td></td><td>0</td><td>task 41</td>`,
		"delayed":   `late</a></td><td>due in (1h0m0s|59m[\ds]+)</td><td>1</td><td>smtp 421</td><td>customer 8</td>`,
		"dead":      `dead</a></td><td>died [\d.a-zµ]+ ago</td><td>1</td><td>no &lt;such&gt; customer</td>`,
		"unknown":   `dead</a></td><td>died`,
	} {
		text := l.get("queue=orders&state=" + state)
		require.Regexp(t, want, text, state)
		require.NotContains(t, text, "secret")
		require.NotContains(t, text, `method="post" action="?"><button`)
		require.NotContains(t, text, "checkbox")
	}
	require.Contains(t, l.get("queue=orders&state=ready&page=7"), "There are none on this page.")
	require.Contains(t, l.get("queue=never-used"), "There are none.")
	require.Contains(t, l.get("queue="+strings.Repeat("x", 2000)), "queue: ")
	require.Contains(t, fresh(l, q).get("queue=never-used"), "has no queue")
}

// The view of a task answers why it is not processed.
func TestTaskView(t *testing.T) {
	t.Parallel()
	l := newLab(t, true)
	q := filled(t, l)
	view := func(id string) string { t.Helper(); return fresh(l, q).get("queue=orders&task=" + id) }
	require.Regexp(t,
		`behind</strong>[^§]*waits for the task before it of its key: <a href="\?queue=orders&amp;task=41">41</a>`,
		view("42"))
	require.Regexp(t, `in flight</strong> for [\d.a-zµ]+, in checkout @ `, view("41"))
	require.Contains(t, view("soon"), "No worker waits for a task")
	require.Contains(t, view("late"), "smtp 421")
	require.Contains(t, view("gone"), "it is done, or was removed, or was never enqueued")
	require.NoError(t, q.PauseKey(t.Context(), "customer 7"))
	require.Contains(t, view("42"), "Its key is paused.")
	require.NoError(t, q.Pause(t.Context()))
	require.Contains(t, view("soon"), "The queue is paused.")
	require.NotContains(t, view("42"), "<button", "no actions")

	answer := l.post(url.Values{"verb": {"requeue"}, "queue": {"orders"}, "task": {"dead"}, "id": {"dead"}}, "same-origin")
	require.Equal(t, "?queue=orders&task=dead", answer.Header.Get("Location"))
	answer = l.post(url.Values{"verb": {"remove"}, "queue": {"orders"}, "task": {"dead"}, "id": {"dead"}}, "same-origin")
	require.Equal(t, "?queue=orders", answer.Header.Get("Location"))
	answer = l.post(url.Values{"verb": {"remove"}, "queue": {"orders"}, "id": {"soon", "41"}}, "same-origin")
	require.Equal(t, http.StatusConflict, answer.StatusCode)
	require.Contains(t, read(t, answer), "1 of 2 were removed: ")
}

// The tasks come in pages of 100.
func TestPages(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	q := newQueue(t, l.other())
	var ids []string
	for n := range 250 {
		ids = append(ids, fmt.Sprintf("task-%03d", n))
		_, err := q.Enqueue(t.Context(), queue.Task{ID: ids[n]})
		require.NoError(t, err)
	}
	var seen []string
	page := "queue=mails&state=ready"
	for page != "" {
		var object struct {
			Page  int
			More  bool
			Tasks []struct{ ID string }
		}
		require.NoError(t, json.Unmarshal([]byte(l.get(page+"&format=json")), &object))
		for _, task := range object.Tasks {
			seen = append(seen, task.ID)
		}
		text := l.get(page)
		require.Equal(t, object.Page > 1, strings.Contains(text, "Previous page"))
		require.Equal(t, object.More, strings.Contains(text, "Next page"))
		if page = ""; object.More {
			page = fmt.Sprint("queue=mails&state=ready&page=", object.Page+1)
		}
	}
	require.ElementsMatch(t, ids, seen)
}

// A queue and a key are paused and resumed, after audit was asked. Without a
// key the form of a key changes nothing.
func TestPauses(t *testing.T) {
	t.Parallel()
	l := newLab(t, true)
	q := newQueue(t, l.other())
	send := func(verb, key string) *http.Response {
		t.Helper()
		return l.post(url.Values{"verb": {verb}, "queue": {"mails"}, "key": {key}}, "same-origin")
	}
	for _, one := range [][2]string{{"pause", ""}, {"pause key", "a"}, {"pause key", "<b>"}} {
		answer := send(one[0], one[1])
		require.Equal(t, http.StatusSeeOther, answer.StatusCode)
		require.Equal(t, "?queue=mails", answer.Header.Get("Location"))
	}
	require.Equal(t, []relockweb.Action{
		{Verb: "pause", Key: "mails"},
		{Verb: "pause key", Key: "mails", TaskKey: "a"},
		{Verb: "pause key", Key: "mails", TaskKey: "<b>"},
	}, l.actions)
	text := l.get("queue=mails")
	require.Contains(t, text, "The queue is paused: nothing is delivered.")
	require.Regexp(t, `(?s)<td>a</td>.*<td>&lt;b&gt;</td>`, text)
	require.Contains(t, l.get(""), `<strong class="bad">all</strong>`)
	l.actions = nil
	for _, one := range [][2]string{
		{"pause", "a"}, {"resume", "a"}, {"pause key", ""}, {"resume key", ""}, {"pause all", ""},
	} {
		require.Equal(t, http.StatusBadRequest, send(one[0], one[1]).StatusCode, one)
	}
	require.Empty(t, l.actions)
	require.Equal(t, http.StatusBadRequest, send("pause key", strings.Repeat("k", 513)).StatusCode)
	require.Equal(t, http.StatusForbidden,
		l.post(url.Values{"verb": {"resume"}, "queue": {"mails"}}, "cross-site").StatusCode)
	l.refuses = true
	require.Equal(t, http.StatusForbidden, send("resume", "").StatusCode)
	l.refuses = false
	s, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, queue.Stats{Paused: true, PausedKeys: 2}, s)
	for _, one := range [][2]string{{"resume", ""}, {"resume key", "a"}, {"resume key", "<b>"}} {
		require.Equal(t, http.StatusSeeOther, send(one[0], one[1]).StatusCode)
	}
	s, err = q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, queue.Stats{}, s)
	require.NotContains(t, l.get("queue=mails"), "is paused")

	l.page = relockweb.Handler(l.client)
	require.NotContains(t, l.get("queue=mails"), "<button")
	require.Equal(t, http.StatusMethodNotAllowed, send("pause", "").StatusCode)
}

// Queues are found at most once a minute, and what cannot be found is said.
func TestFoundQueues(t *testing.T) {
	t.Parallel()
	l := newLab(t, true)
	_, err := newQueue(t, l.other()).Enqueue(t.Context(), queue.Task{})
	require.NoError(t, err)
	require.Contains(t, l.get(""), `href="?queue=mails"`)
	searches := l.proxy.Count(faults.Command("SCAN"))
	l.post(url.Values{"verb": {"pause"}, "queue": {"mails"}}, "same-origin") // the next look is a new reading
	require.Contains(t, l.get(""), `href="?queue=mails"`)
	require.Equal(t, searches+1, l.proxy.Count(faults.Command("SCAN")), "that of the locks")
	l.server.Do(t, "ACL", "SETUSER", "default", "-scan")
	l.page = relockweb.Handler(l.client)
	require.Contains(t, l.get(""), `list queues`)
}

// A view that is refused has a notice, and JSON none of the others.
func TestFormats(t *testing.T) {
	t.Parallel()
	l := newLab(t, false)
	answer := l.serve(httptest.NewRequest(http.MethodGet, "/?format=json", nil))
	require.Equal(t, "application/json", answer.Header.Get("Content-Type"))
	require.Equal(t, "nosniff", answer.Header.Get("X-Content-Type-Options"))
	require.Equal(t, "no-store", answer.Header.Get("Cache-Control"))
	require.NotContains(t, read(t, answer), "null")
	answer = l.serve(httptest.NewRequest(http.MethodGet, "/?format=xml", nil))
	require.Equal(t, http.StatusBadRequest, answer.StatusCode)
	l.proxy.Refuse()
	for _, view := range []string{"", "lock=a", "queue=b", "queue=b&task=c"} {
		var object struct {
			Problems []string
			Queue    struct{ Error string }
		}
		l.page = relockweb.Handler(l.client)
		testkit.Eventually(t, testkit.Patience, func() bool {
			require.NoError(t, json.Unmarshal([]byte(l.get(view+"&format=json")), &object))
			return len(object.Problems) > 0 || object.Queue.Error != ""
		}, "the outage is not said: "+view)
	}
}
