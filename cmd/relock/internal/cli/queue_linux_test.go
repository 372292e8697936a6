package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/display"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/queue"
)

// queue returns the queue of a worker.
func (b *bench) queue() *queue.Queue {
	b.Helper()
	q, err := queue.New("mails", b.client())
	require.NoError(b, err)
	return q
}

func (b *bench) enqueue(q *queue.Queue, tasks ...queue.Task) {
	b.Helper()
	_, err := q.Enqueue(b.Context(), tasks...)
	require.NoError(b, err)
}

// receive returns the delivery of the only task that is due.
func (b *bench) receive(q *queue.Queue) *queue.Delivery {
	b.Helper()
	got, err := q.TryReceive(b.Context(), 1)
	require.NoError(b, err)
	require.Len(b, got, 1)
	return got[0]
}

// letters makes dead letters of these IDs.
func (b *bench) letters(q *queue.Queue, ids ...string) {
	b.Helper()
	for _, id := range ids {
		b.enqueue(q, queue.Task{ID: id, Key: "customer 7", Payload: []byte("secret")})
		require.NoError(b, b.receive(q).DeadLetter(b.Context(), errors.New("smtp 550")))
	}
}

// Tasks are counted. A queue that nobody has used is empty.
func TestQueueStats(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const heads = "QUEUE  READY  DELAYED  IN-FLIGHT  BEHIND  DEAD  IDLE  OLDEST  PAUSED\n"
	require.Equal(t, heads+"mails  0  0  0  0  0  0  -  -\n", figures(b.succeeds("queue", "stats", "mails")))
	q := b.queue()
	b.letters(q, "dead")
	b.enqueue(q, queue.Task{ID: "a", Key: "k"}, queue.Task{ID: "b", Key: "k"}, queue.Task{ID: "c", Delay: time.Hour},
		queue.Task{ID: "d", Delay: time.Hour})
	d := b.receive(q)
	b.enqueue(q, queue.Task{ID: "e"}, queue.Task{ID: "f"}, queue.Task{ID: "g"})
	require.Equal(t, heads+"mails  3  2  1  1  1  0  T  -\n", figures(b.succeeds("queue", "stats", "mails")))
	require.Regexp(t, `^\{"name":"mails","ready":3,"delayed":2,"in_flight":1,"behind":1,"dead":1,"idle":0,`+
		`"oldest":[\d.e-]+,"paused":false,"paused_keys":0\}\n$`,
		b.succeeds("queue", "stats", "-o", "json", "mails"))
	require.Contains(t, b.succeeds("--prefix", "other:", "queue", "stats", "mails"), "mails  0 ")
	require.NoError(t, d.Ack(t.Context()))
}

// Dead letters are listed, the oldest first, also those over the limit of the
// workers. No payload is.
func TestQueueDead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	q := b.queue()
	require.Equal(t, "ID  KEY  DIED  ATTEMPTS  INTERRUPTED  BYTES  REASON\n",
		figures(b.succeeds("queue", "dead", "mails")))
	require.Empty(t, b.succeeds("queue", "dead", "-o", "json", "mails"))
	b.letters(q, "b", "a", "c")
	// 30 days are kept
	b.server.Do(t, "ZADD", "relock:queue:{mails}:z", "XX", time.Now().Add(-40*24*time.Hour).UnixMicro(), "b")
	require.Equal(t, strings.TrimPrefix(`
ID  KEY  DIED  ATTEMPTS  INTERRUPTED  BYTES  REASON
b  "customer 7"  T  1  0  6  "smtp 550"
a  "customer 7"  T  1  0  6  "smtp 550"
c  "customer 7"  T  1  0  6  "smtp 550"
`, "\n"), figures(b.succeeds("queue", "dead", "--limit", "3", "mails")))
	const row = `{"id":"b","key":"customer 7","enqueued_at":"DATE","died_at":"DATE",` +
		`"attempts":1,"interruptions":0,"bytes":6,"reason":"smtp 550"}`
	out := b.succeeds("queue", "dead", "-o", "json", "mails")
	require.Equal(t, row, strings.Split(figures(out), "\n")[0])
	require.NotContains(t, out, "secret")

	a := b.ask("queue", "dead", "--limit", "2", "mails")
	require.Zero(t, a.code)
	require.Equal(t, "relock: stopped at 2 dead letters, see --limit\n", a.err)
	require.Equal(t, 1+2, strings.Count(a.out, "\n"))

	b.server.Do(t, "HSET", "relock:queue:{mails}:p", "a", "damaged")
	require.Contains(t, b.succeeds("queue", "dead", "-o", "json", "mails"), `{"id":"a","key":"","enqueued_at":null,`)
}

// What was read before an error is printed.
func TestQueueDeadBeforeAnError(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	q := b.queue()
	ids := make([]string, 65)
	for n := range ids {
		ids[n] = fmt.Sprint("id", n)
	}
	b.letters(q, ids...)
	require.Equal(t, 1+65, strings.Count(b.succeeds("queue", "dead", "mails"), "\n")) // its script is known now
	b.proxy.On(faults.Command("EVALSHA"), 2, faults.ErrorLine("NOPERM this user has no permissions"))
	a := b.ask("queue", "dead", "mails")
	require.Equal(t, codeFailed, a.code)
	require.Contains(t, a.err, "permission")
	require.Equal(t, 1, strings.Count(a.err, "\n"), a.err)
	require.Equal(t, 1+64, strings.Count(a.out, "\n"))
}

// Dead letters are queued once more, with a line for each ID.
func TestQueueRequeue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	q := b.queue()
	b.letters(q, "a", "b", "c", "d e")
	require.Equal(t, "ID  RESULT\na  requeued\n\"d e\"  requeued\n",
		figures(b.succeeds("queue", "requeue", "mails", "a", "d e")))
	for _, id := range []string{"a", "d e"} {
		d := b.receive(q)
		require.Equal(t, id, d.ID)
		require.Equal(t, 1, d.Attempt)
		require.NoError(t, d.Ack(t.Context()))
	}
	a := b.ask("queue", "requeue", "-o", "json", "mails", "x", "b", "a")
	require.Equal(t, codeFailed, a.code)
	require.Equal(t, "relock: queue: 2 of 3 not requeued: 2 not found, 0 in flight\n", a.err)
	require.Equal(t, `{"id":"x","result":"not-found"}`+"\n"+
		`{"id":"b","result":"requeued"}`+"\n"+`{"id":"a","result":"not-found"}`+"\n", a.out)
}

// Tasks that wait are removed, and dead letters. One that is in flight stays.
func TestQueueRemove(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	q := b.queue()
	b.letters(q, "dead")
	b.enqueue(q, queue.Task{ID: "flies"})
	d := b.receive(q)
	b.enqueue(q, queue.Task{ID: "waits"}, queue.Task{ID: "-late", Delay: time.Hour})
	require.Equal(t, "ID  RESULT\ndead  removed\nwaits  removed\n-late  removed\n",
		figures(b.succeeds("queue", "remove", "mails", "--", "dead", "waits", "-late")))
	a := b.ask("queue", "remove", "mails", "flies")
	require.Equal(t, codeBusy, a.code)
	require.Equal(t, "ID  RESULT\nflies  in-flight\n", figures(a.out))
	require.Equal(t, "relock: queue: 1 of 1 not removed: 0 not found, 1 in flight\n", a.err)
	require.Equal(t, codeFailed, b.ask("queue", "remove", "mails", "flies", "waits").code)
	require.NoError(t, d.Err())
	require.NoError(t, d.Ack(t.Context()), "it was removed")
}

// An error of the server ends the changes. What was done before is printed.
func TestQueueChangesWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	q := b.queue()
	for _, tt := range []struct{ verb, done string }{{"requeue", "requeued"}, {"remove", "removed"}} {
		b.letters(q, tt.verb, "a", "b", "c")
		b.succeeds("queue", tt.verb, "mails", tt.verb) // its script is known now
		open := make(chan struct{})
		b.proxy.On(faults.Command("EVALSHA"), 2, faults.DelayUntil(open))
		a := b.ask("--timeout", "0.5", "queue", tt.verb, "mails", "a", "b", "c")
		close(open)
		require.Equal(t, codeFailed, a.code)
		require.Equal(t, "ID  RESULT\na  "+tt.done+"\nb  unconfirmed\n", figures(a.out))
		require.Contains(t, a.err, "not confirmed")
		require.Contains(t, a.err, "; 1 not tried\n")
		require.Equal(t, 1, strings.Count(a.err, "\n"), a.err)
		require.Contains(t, b.succeeds("queue", "dead", "mails"), "\nc ")
		for _, id := range []string{tt.verb, "a", "b", "c"} {
			_ = q.Remove(t.Context(), id) // it may be gone
		}
	}
	b.letters(q, "a", "b")
	b.server.Do(t, "ACL", "SETUSER", "default", "-zscore")
	a := b.ask("queue", "remove", "mails", "a", "b")
	require.Equal(t, codeFailed, a.code)
	require.Equal(t, "ID  RESULT\na  failed\n", figures(a.out))
	require.Contains(t, a.err, "permission")
}

// An ID, key or reason of somebody else cannot drive the terminal.
func TestControlCharactersOfTasks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	q := b.queue()
	odd := "a\x1b[2J\n\u202e\xff b"
	b.enqueue(q, queue.Task{ID: odd, Key: "k\x1b"})
	require.NoError(t, b.receive(q).DeadLetter(t.Context(), errors.New("\x1b]0;title\x07\u202e")))
	for _, args := range [][]string{
		{"dead", "mails"},
		{"dead", "-o", "json", "mails"},
		{"requeue", "mails", odd},
		{"remove", "-o", "json", "mails", odd},
		{"stats", "m\x1b\u202e"},
		{"tasks", "mails"},
		{"ls"},
	} {
		out := b.succeeds(append([]string{"queue"}, args...)...)
		require.NotRegexp(t, "[\x1b\x07]", out)
		require.True(t, slices.Contains(args, "-o") || !strings.Contains(out, "\u202e"), out)
	}
	a := b.ask("queue", "stats", strings.Repeat("\x1b", 1025))
	require.Equal(t, codeFailed, a.code)
	require.NotContains(t, a.err, "\x1b")
}

// Completion names the dead letters of the queue, and is silent without a
// server.
func TestCompletionOfLetters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.letters(b.queue(), "mail-1", "mail-2", "mail-3", "other", "mail 4")
	out := b.ask("__complete", "queue", "requeue", "mails", "mail-2", "mail").out
	require.Equal(t, []string{"mail-1", "mail-3", ":4"}, strings.Fields(out))
	require.Contains(t, b.ask("__complete", "queue", "remove", "mails", "o").out, "other\n")
	for _, verb := range []string{"remove", "stats", "tasks", "pause"} {
		require.Equal(t, "mails\n:4\n", b.ask("__complete", "queue", verb, "ma").out)
		require.Equal(t, ":4\n", b.ask("__complete", "queue", verb, "x").out)
	}
	require.Equal(t, ":4\n", b.ask("__complete", "queue", "tasks", "mails", "m").out)
	b.proxy.Refuse()
	require.Equal(t, ":4\n", b.ask("__complete", "queue", "remove", "mails", "o").out)
	require.Equal(t, ":4\n", b.ask("__complete", "queue", "stats", "m").out)
}

// The IDs of JSON are those that requeue takes.
func TestQueueJSONIsReadable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.letters(b.queue(), `a"b\c`, "<d>")
	args := []string{"queue", "requeue", "mails"}
	for lines := json.NewDecoder(strings.NewReader(b.succeeds("queue", "dead", "-o", "json", "mails"))); lines.More(); {
		var row display.LetterRow
		require.NoError(t, lines.Decode(&row))
		args = append(args, row.ID)
	}
	require.Len(t, args, 3+2)
	b.succeeds(args...)
}
