package lua_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
)

// aMoment is a lease that is shorter than the server runs: what ends counts.
const aMoment = 10 * time.Millisecond

// runsLonger waits until the server has run for longer than a moment.
func runsLonger(t *testing.T) { server.AwaitUp(t, 1) }

// interrupt ends the leases of tasks, and has a receive find that.
func interrupt(b *Tasks, r Receive, ids ...string) Received {
	b.Helper()
	for _, id := range ids {
		b.EndLease(id)
	}
	r.Receiver, r.Lease = "c7:1", aMoment
	return b.Receive(r)
}

// The end of a lease is an interruption. It counts apart from attempts, also
// through a settle and an undo. The task is due apart from others, at its old
// place.
func TestTaskReceiveScriptInterruptions(t *testing.T) {
	b := NewTasks(t, server)
	runsLonger(t)
	b.Enqueue("k", "a", "behind")
	b.Receive(Receive{Receiver: worker, N: 1, Want: 2})
	interrupt(b, Receive{N: 1}, "a")
	require.Equal(t, []string{"a"}, b.Members("s"))
	require.Empty(t, b.Members("d"))
	take := func(n int, undo bool) Delivery {
		got := b.Receive(Receive{Receiver: worker, N: n, Want: 2, Undo: undo}).All
		require.Len(t, got, 1)
		require.Empty(t, b.Members("s"))
		return got[0]
	}
	require.Equal(t, "1~1", take(2, false).Attempt)
	require.Equal(t, "1~1", b.Receive(Receive{Receiver: worker, N: 2, Want: 2}).All[0].Attempt, "again")
	b.RequireSettled("n", "0", take(3, true))
	require.Equal(t, []string{"a"}, b.Members("s"), "a failed attempt changes nothing")
	d := take(4, false)
	require.Equal(t, "2~1", d.Attempt)
	require.Equal(t, []int64{1}, b.Ints(script.TaskRenew, "a", d.Name(), 60_000))
	interrupt(b, Receive{N: 2}, "a")
	d = take(5, false)
	require.Equal(t, "2~2", d.Attempt)
	b.RequireSettled("r", "0", d)
	require.Equal(t, []string{"a"}, b.Members("s"))
	require.Equal(t, "2~2", take(6, false).Attempt)
	got := interrupt(b, Receive{N: 3}, "a")
	require.Equal(t, []Delivery{{ID: "a", Attempt: "1~3", Record: "k"}}, got.Dead)
	require.Equal(t, []string{"a"}, b.Members("z"))
	require.Equal(t, []string{"behind"}, b.Members("d"))
	stored, _ := b.Do("HGET", b.Key("m"), "a").([]byte)
	require.Regexp(t, `^1~3 0 \d{16} k\x00interrupted 3 times: its worker was gone$`, string(stored))
	require.Equal(t, []int64{1, 1}, b.Ints(script.TaskRequeue, "a"))
	require.Equal(t, "1", take(7, false).Attempt, "as a new one: of behind")
	b.RequireSettled("d", "why", b.Receive(Receive{Receiver: worker, N: 7, Want: 2}).All...)
	require.Equal(t, "1", take(8, false).Attempt, "of a")
}

// A receive takes one task at most that was interrupted, and none if its
// client runs one.
func TestTaskReceiveScriptTakesOneSuspect(t *testing.T) {
	b := NewTasks(t, server)
	runsLonger(t)
	b.Enqueue("", "a", "b", "c")
	b.Receive(Receive{Receiver: worker, N: 1, Want: 2})
	interrupt(b, Receive{N: 1}, "a", "b")
	require.Equal(t, []int64{3, 0, 0, 0, 0, 0}, b.Ints(script.TaskStats, 10, 1000)[:6])
	got := b.Receive(Receive{Receiver: other, N: 1, Want: 3, Busy: 1})
	require.Equal(t, []string{"c"}, got.IDs())
	require.Greater(t, got.Next, int64(50_000_000), "only the end of a lease")
	got = b.Receive(Receive{Receiver: other, N: 2, Want: 3})
	require.Equal(t, []string{"a"}, got.IDs())
	require.Zero(t, got.Next, "another one is due")
	require.Equal(t, []int64{1}, b.Ints(script.TaskRemove, "b"))
	require.Empty(t, b.Members("s"))

	b.Enqueue("", "d")
	b.Enqueue("", "e")
	b.Receive(Receive{Receiver: other, N: 3, Want: 1})
	interrupt(b, Receive{N: 2}, "d")
	got = b.Receive(Receive{Receiver: other, N: 4, Want: 1})
	require.Equal(t, []string{"d"}, got.IDs(), "it is the older one")
	b.Do("ZADD", b.Key("s"), b.Now(), "d")
	b.Do("ZREM", b.Key("l"), "d")
	got = b.Receive(Receive{Receiver: other, N: 5, Want: 1})
	require.Equal(t, []string{"e"}, got.IDs(), "it is the younger one")
}

// The end of a lease counts nothing within a lease of the server's start, or of
// a time in which no receiver was answered.
func TestTaskReceiveScriptGap(t *testing.T) {
	b := NewTasks(t, server)
	runsLonger(t)
	n := 0
	ends := func(name string, r Receive, attempt string) {
		b.Enqueue("", name)
		n++
		b.Receive(Receive{Receiver: worker, N: n, Want: 1})
		b.EndLease(name)
		r.Receiver, r.N = other, n
		b.Receive(r)
		n++
		got := b.Receive(Receive{Receiver: worker, N: n, Want: 1})
		require.Equal(t, attempt, got.All[0].Attempt, name)
		b.RequireSettled("a", "", got.All[0])
	}
	ends("server's start", Receive{Lease: 10 * time.Hour}, "1")
	ends("long after", Receive{Lease: aMoment}, "1~1")
	heard := func(ago, lenient time.Duration) {
		b.Do("SET", b.Key("h"), fmt.Sprint(b.Now()-ago.Microseconds(), " ", b.Now()+lenient.Microseconds()))
	}
	waited := func(ago time.Duration) { b.Do("ZADD", b.Key("i"), b.Now()-ago.Microseconds(), other) }
	moment := Receive{Lease: aMoment, Heartbeat: 1}
	ends("no heartbeat before", moment, "1~1")
	waited(5 * time.Second)
	heard(time.Second, 0)
	ends("others are heard", moment, "1~1")
	heard(5*time.Second, 0)
	ends("it has not waited", moment, "1~1")
	waited(time.Second)
	heard(5*time.Second, 0)
	ends("it has just asked", moment, "1~1")
	waited(5 * time.Second)
	heard(5*time.Second, 0)
	ends("nobody was heard, and it waited", moment, "1")
	heard(time.Second, time.Minute)
	ends("within a lease of that", moment, "1")
	heard(time.Second, -time.Second)
	ends("later", moment, "1~1")

	b.Enqueue("", "lives")
	n++
	b.Receive(Receive{Receiver: worker, N: n, Want: 1})
	interrupt(b, Receive{N: 1}, "lives")
	n++
	b.Receive(Receive{Receiver: worker, N: n, Want: 1})
	b.EndLease("lives")
	b.Receive(Receive{Receiver: other, N: n, Lease: 10 * time.Hour, Fatal: 1})
	require.Equal(t, []string{"lives"}, b.Members("s"), "what counts nothing is not fatal")
}

// A user without INFO does not see the server's start.
func TestTaskReceiveScriptWithoutInfo(t *testing.T) {
	b := NewTasks(t, redistest.Start(t))
	b.Enqueue("", "a")
	b.Receive(Receive{Receiver: worker, N: 1, Want: 1})
	b.EndLease("a")
	b.Deny("-info")
	require.Equal(t, "1~1", b.Receive(Receive{Receiver: worker, N: 2, Want: 1}).All[0].Attempt)
}

// Several tasks die of one receive, each with a separate number, and of each
// key the next one follows.
func TestTaskReceiveScriptSeveralDie(t *testing.T) {
	b := NewTasks(t, server)
	runsLonger(t)
	b.Enqueue("", "a", "b")
	b.Enqueue("k", "c", "d")
	b.Receive(Receive{Receiver: worker, N: 1, Want: 3})
	got := interrupt(b, Receive{N: 1, Fatal: 1}, "a", "b", "c")
	require.Len(t, got.Dead, 3)
	require.Equal(t, []string{"a", "b", "c"}, b.Members("z"))
	require.Less(t, b.Score("z", "a"), b.Score("z", "b"))
	require.Equal(t, []string{"d"}, b.Members("d"))
}
