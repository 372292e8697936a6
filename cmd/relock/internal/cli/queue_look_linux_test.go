package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// Queues are listed by their names, with what is paused in them.
func TestQueueList(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const heads = "QUEUE  READY  DELAYED  IN-FLIGHT  BEHIND  DEAD  IDLE  OLDEST  PAUSED\n"
	require.Equal(t, heads, figures(b.succeeds("queue", "ls")))
	require.Empty(t, b.succeeds("queue", "ls", "-o", "json"))
	for _, name := range []string{"orders", "mails", "of two words"} {
		q, err := queue.New(name, b.client())
		require.NoError(t, err)
		b.enqueue(q, queue.Task{Key: "k"})
	}
	b.succeeds("queue", "pause", "orders")
	b.succeeds("queue", "pause", "mails", "k")
	require.Equal(t,
		heads+"mails  1  0  0  0  0  0  T  1\n\"of two words\"  1  0  0  0  0  0  T  -\norders  1  0  0  0  0  0  T  all\n",
		figures(b.succeeds("queue", "ls")))
	out := b.succeeds("queue", "ls", "-o", "json")
	require.Equal(t, 3, strings.Count(out, "\n"))
	require.Contains(t, out, `"paused":true,"paused_keys":0}`)
	require.Contains(t, out, `"paused":false,"paused_keys":1}`)
	require.Equal(t, heads, figures(b.succeeds("--prefix", "other:", "queue", "ls")))
	b.proxy.On(faults.Command("EVALSHA"), 2, faults.ErrorLine("NOPERM this user has no permissions"))
	a := b.ask("queue", "ls")
	require.Equal(t, codeFailed, a.code)
	require.Contains(t, a.err, "permission")
	require.Equal(t, 1+1, strings.Count(a.out, "\n"), "what was read before")
}

// Tasks are listed by their states, with what they wait for.
func TestQueueTasks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	q := b.queue()
	const heads = "ID  KEY  STATE  AGE  DUE-IN  ATTEMPTS  HOLDER  BEHIND  LAST-ERROR\n"
	require.Equal(t, heads, figures(b.succeeds("queue", "tasks", "mails")))
	b.letters(q, "dead")
	b.enqueue(q, queue.Task{ID: "fails"})
	require.NoError(t, b.receive(q).Nack(t.Context(), time.Hour, errors.New("smtp 421")))
	b.enqueue(q, queue.Task{ID: "flies", Key: "k", Payload: []byte("secret")}, queue.Task{ID: "behind", Key: "k"})
	d := b.receive(q)
	b.enqueue(q, queue.Task{ID: "waits"})
	const rows = `flies  k  in-flight  T  -  1  HOST:PID  -  -
waits  -  ready  T  -  0  -  -  -
behind  k  behind  -  -  0  -  task:flies  -
fails  -  delayed  -  T  1  -  -  "smtp 421"
dead  "customer 7"  dead  T  -  1  -  -  "smtp 550"
`
	require.Equal(t, heads+rows, figures(b.succeeds("queue", "tasks", "mails")))
	require.Equal(t, heads+strings.SplitAfter(rows, "\n")[3],
		figures(b.succeeds("queue", "tasks", "--state", "delayed", "mails")))

	a := b.ask("queue", "tasks", "--limit", "2", "mails")
	require.Zero(t, a.code)
	require.Equal(t, "relock: stopped at 2 tasks, see --limit\n", a.err)
	require.Equal(t, 1+2, strings.Count(a.out, "\n"))
	a = b.ask("queue", "tasks", "mails", "waits", "gone", "dead")
	require.Equal(t, codeFailed, a.code)
	require.Equal(t, "relock: queue: 1 of 3 tasks not found\n", a.err)
	require.Equal(t, 1+2, strings.Count(a.out, "\n"))

	out := b.succeeds("queue", "tasks", "-o", "json", "mails", "flies", "behind")
	require.NotContains(t, out, "secret")
	require.Contains(t, out, `"state":"in-flight"`)
	require.Contains(t, out, `"before":"flies"`)
	require.Contains(t, out, `"due":null`)
	for what, args := range map[string][]string{
		"--limit: 0 is below 1":       {"--limit", "0", "mails"},
		`--state: "x" is not`:         {"--state", "x", "mails"},
		"--state: is for tasks with":  {"--state", "dead", "mails", "a"},
		"queue tasks: an ID is empty": {"mails", ""},
	} {
		a := b.ask(append([]string{"queue", "tasks"}, args...)...)
		require.Equal(t, codeFailed, a.code)
		require.Contains(t, a.err, what)
	}
	require.NoError(t, d.Ack(t.Context()))
}

// The lock that a task is behind is named, and a pause.
func TestQueueTasksBehind(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.client()
	locker, err := relock.NewLocker(c)
	require.NoError(t, err)
	h := b.hold("warehouse")
	q, err := queue.New("mails", c)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := testkit.Async(t, func() error {
		return q.Process(ctx, func(context.Context, *queue.Delivery) error { return nil },
			queue.WithLocker(locker, func(queue.Task) string { return "warehouse" }))
	})
	b.succeeds("queue", "pause", "mails", "k")
	b.enqueue(q, queue.Task{ID: "locked"}, queue.Task{ID: "paused", Key: "k"})
	testkit.Eventually(t, testkit.Patience, func() bool {
		out := figures(b.succeeds("queue", "tasks", "--state", "behind", "mails"))
		return strings.Contains(out, "  lock:warehouse  ") && strings.Contains(out, "  pause  ")
	}, "both are behind something")
	b.succeeds("queue", "resume", "mails", "k")
	require.NoError(t, h.Unlock(t.Context()))
	testkit.Eventually(t, testkit.Patience, func() bool {
		return strings.Count(b.succeeds("queue", "tasks", "mails"), "\n") == 1
	}, "all are done")
	cancel()
	require.NoError(t, testkit.ResultWithin(t, ended, testkit.Patience))
}

// The keys that are paused are listed, those for the longest time first.
func TestQueuePaused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.Equal(t, "KEY  AGE\n", figures(b.succeeds("queue", "paused", "mails")))
	require.Empty(t, b.succeeds("queue", "paused", "mails", "-o", "json"))
	for _, key := range []string{"z", "a b", "\x1b[2J"} {
		b.succeeds("queue", "pause", "mails", key)
	}
	b.succeeds("queue", "pause", "mails")
	require.Equal(t, "KEY  AGE\nz  T\n\"a b\"  T\n\"\\x1b[2J\"  T\n", figures(b.succeeds("queue", "paused", "mails")))
	require.Regexp(t, `^\{"key":"z","since":"[^"]+"\}\n`, b.succeeds("queue", "paused", "-o", "json", "mails"))
	a := b.ask("queue", "paused", "--limit", "1", "mails")
	require.Zero(t, a.code)
	require.Equal(t, "relock: stopped at 1 paused keys, see --limit\n", a.err)
	require.Equal(t, 1+1, strings.Count(a.out, "\n"))
	out := b.ask("__complete", "queue", "resume", "mails", "").out
	require.Contains(t, out, "z\n")
	require.NotContains(t, out, "a b", "a shell would read it as two words")
	require.Contains(t, b.ask("__complete", "queue", "resume", "").out, "mails\n")
	require.NotContains(t, b.ask("__complete", "queue", "resume", "mails", "z", "").out, "z\n")
	b.succeeds("queue", "resume", "mails", "z")
	require.NotContains(t, b.succeeds("queue", "paused", "mails"), "\nz ")
	require.Equal(t, codeFailed, b.ask("queue", "paused", "--limit", "0", "mails").code)
	b.proxy.Refuse()
	require.Equal(t, codeFailed, b.ask("--timeout", "0.2", "queue", "paused", "mails").code)
}

// A paused queue delivers nothing until it is resumed.
func TestQueuePause(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	q := b.queue()
	require.Empty(t, b.succeeds("queue", "pause", "mails"))
	b.enqueue(q, queue.Task{ID: "a"})
	none, err := q.TryReceive(t.Context(), 1)
	require.NoError(t, err)
	require.Empty(t, none)
	require.Empty(t, b.succeeds("queue", "resume", "mails"))
	require.NoError(t, b.receive(q).Ack(t.Context()))
	for _, verb := range []string{"pause", "resume"} {
		require.Equal(t, codeFailed, b.ask("queue", verb, "mails", "").code)
		require.Equal(t, codeFailed, b.ask("queue", verb).code)
	}
}
