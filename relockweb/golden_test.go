package relockweb

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/doctor"
	"github.com/relock-go/relock/queue"
)

// update writes the files of testdata anew.
var update = flag.Bool("update", false, "write the golden files")

var goldenTime = time.Date(2026, 11, 28, 3, 0, 0, 0, time.UTC)

// before returns a time before the reading.
func before(d time.Duration) time.Time { return goldenTime.Add(-d) }

// odd has what other programs may have written.
var odd = "<script>alert(1)</script>\u202e\x1b[2J\xff" + strings.Repeat("x", 980)

// lockWith returns a lock of a kind.
func lockWith(key string, kind relock.Kind, state relock.State) relock.Info {
	return relock.Info{
		Key: key, Kind: kind, State: state, Remaining: 21 * time.Second, Fence: 7,
		Holder: &relock.Holder{
			Client: "c1", Host: "web-7", PID: 4711, Label: "payout", Since: before(192 * time.Second), Count: 1,
		},
	}
}

// locks are one of each kind and state.
func locks() []relock.Info {
	fair := lockWith("fair", relock.KindPlain, relock.StateHeld)
	fair.Fair, fair.Waiting = true, 10_000
	for n := range 128 {
		fair.Waiters = append(fair.Waiters, relock.Waiter{
			Client: fmt.Sprint("w", n), Age: time.Duration(200-n) * time.Second, Kind: relock.KindPlain, Fair: true,
		})
	}
	nested := lockWith("nested", relock.KindReentrant, relock.StateHeld)
	nested.Holder.Owner, nested.Holder.Count = "goroutine 12", 2
	kept := lockWith("kept", relock.KindPlain, relock.StateKept)
	reserved := relock.Info{
		Key: "reserved", Kind: relock.KindPlain, State: relock.StateReserved, Remaining: time.Second, Waiting: 1,
	}
	readers := relock.Info{Key: "prices", Kind: relock.KindReadWrite, State: relock.StateHeld, Remaining: relock.NoExpiry}
	readers.Readers = []relock.Holder{*fair.Holder, {Client: "c2", Count: 1}}
	readers.Readers[1].Forced = true
	permits := readers
	permits.Key, permits.Kind, permits.Permits, permits.Remaining = "transcode", relock.KindSemaphore, 3, time.Minute
	strange := lockWith(odd, "plain", relock.StateHeld)
	strange.Holder.Label = odd[:60]
	return []relock.Info{fair, nested, kept, reserved, readers, permits, strange}
}

func tasks() []taskRow {
	base := queue.TaskInfo{Task: queue.Task{ID: "42", Key: "customer 7"}, EnqueuedAt: before(time.Hour), Attempts: 2}
	with := func(change func(*queue.TaskInfo)) taskRow {
		one := base
		change(&one)
		return taskRow{one, "12 bytes"}
	}
	return []taskRow{
		with(func(t *queue.TaskInfo) {
			t.State, t.LeaseEnd = queue.StateInFlight, goldenTime.Add(30*time.Second)
			t.Holder = &relock.Holder{Client: "c1", Host: "web-7", PID: 4711, Label: "mailer", Since: before(3 * time.Minute)}
		}),
		with(func(t *queue.TaskInfo) { t.State, t.Due = queue.StateReady, before(2*time.Minute) }),
		with(func(t *queue.TaskInfo) { t.State, t.Before = queue.StateBehind, "41" }),
		with(func(t *queue.TaskInfo) { t.State, t.Lock = queue.StateBehind, "stock/9" }),
		with(func(t *queue.TaskInfo) { t.State, t.Paused = queue.StateBehind, true }),
		with(func(t *queue.TaskInfo) {
			t.State, t.Due, t.LastError = queue.StateDelayed, goldenTime.Add(time.Hour), "smtp <421>"
		}),
		with(func(t *queue.TaskInfo) {
			t.ID, t.State, t.DiedAt, t.LastError, t.Interruptions = odd[:40], queue.StateDead, before(3*time.Hour), odd[:50], 5
		}),
	}
}

var row = &queueRow{Name: "mails", Stats: queue.Stats{
	Ready: 1, Delayed: 1, InFlight: 1, Behind: 3, Dead: 1, Oldest: 2 * time.Minute, Overdue: 1, PausedKeys: 2,
}}

// goldens are views by the names of their files.
func goldens() map[string]struct {
	asked query
	view  view
} {
	type one = struct {
		asked query
		view  view
	}
	all := map[string]one{
		"empty": {query{}, view{}},
		"overview": {query{}, view{
			Match: "<*>", Trip: 400 * time.Microsecond, Locks: locks(), Stats: relock.Stats{Held: 2, Waiting: 1, Losses: 1},
			Checks:  []doctor.Finding{{Check: "eviction", Level: doctor.Fail, Found: "allkeys-lru", Remedy: "set noeviction"}},
			Circles: []string{"a waits for orders/42; b waits for stock/9"},
			Notes:   []string{"Not all: the list stopped after 2s."},
			Queues:  []queueRow{*row, {Name: odd[:30], Err: "away"}, {Name: "off", Stats: queue.Stats{Paused: true, Idle: 3}}},
		}},
		"down":       {query{}, view{Problems: []string{"relock: ping: connection refused"}}},
		"lock-away":  {query{lock: "x"}, view{Problems: []string{"away"}}},
		"queue-away": {query{queue: "mails"}, view{Queue: &queueRow{Name: "mails", Err: "away"}}},
		"no-queue":   {query{queue: "mails"}, view{Problems: []string{"the page has no queue"}}},
		"paused": {query{queue: "mails"}, view{
			Queue: &queueRow{Name: "mails", Stats: queue.Stats{Paused: true}}, State: queue.StateDead, Page: 1, Actions: true,
			Paused: []queue.PausedKey{
				{Key: "customer 7", Since: before(time.Hour)}, {Key: odd[:40], Since: before(time.Minute)},
			},
			Notes: []string{"Not all paused keys: the list stopped at 100."},
		}},
		"no-task": {query{queue: "mails", task: "x"}, view{Queue: row, Problems: []string{"there is no task"}}},
		"refused": {query{lock: "kept"}, view{Lock: &locks()[2], Actions: true, Notice: "refused: not you"}},
	}
	for n, i := range locks() {
		all[fmt.Sprint("lock-", n)] = one{query{lock: i.Key}, view{Lock: &i, Actions: n == 0}}
	}
	for n, t := range tasks() {
		asked := query{queue: "mails", task: t.ID}
		all[fmt.Sprint("task-", n)] = one{asked, view{Queue: row, Task: &t, Actions: true}}
		all[fmt.Sprint("tasks-", n)] = one{query{queue: "mails"}, view{
			Queue: row, Tasks: []taskRow{t}, State: t.State, Page: 2, More: true, Actions: true,
		}}
	}
	return all
}

// cutOut removes the style and the script, which are tested elsewhere.
var cutOut = regexp.MustCompile(`(?s)<(style|script)>.*?</(style|script)>`)

// Each view is what the files of testdata are, as HTML and as JSON: of no lock,
// of each kind and state, of 10,000 waiters, of names that try to drive the
// page, of tasks in each state, and of what cannot be read.
func TestGolden(t *testing.T) {
	t.Parallel()
	at := pageAt(func() time.Time { return goldenTime })
	for name, one := range goldens() {
		one.view.At = goldenTime
		var text bytes.Buffer
		require.NoError(t, at.Execute(&text, one.view))
		markup := cutOut.ReplaceAllString(text.String(), "")
		require.NotContains(t, markup, "<script", name)
		same(t, name+".html", []byte(strings.TrimSpace(regexp.MustCompile(`\n\s*\n+`).ReplaceAllString(markup, "\n"))+"\n"))
		object, err := json.MarshalIndent(objectOf(one.asked, one.view), "", "  ")
		require.NoError(t, err)
		same(t, name+".json", append(object, '\n'))
	}
}

// same requires that a file has this content.
func same(t *testing.T, name string, content []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
	want, err := os.ReadFile(path)
	require.False(t, errors.Is(err, os.ErrNotExist), "%s: write it by -update, and read it", path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(content), "%s: write it by -update, and read what has changed", path)
}
