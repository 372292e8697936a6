package lua_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
)

// A receiver that waits removes entries of those that no longer ask.
func TestTaskReceiveScriptForgetsReceivers(t *testing.T) {
	b := NewTasks(t, server)
	for i := range 20 {
		b.Do("ZADD", b.Key("i"), b.Now()-3_000_000, fmt.Sprint("killed:", i))
	}
	b.Do("ZADD", b.Key("i"), b.Now()-1_000_000, other)
	for n, left := range []int{6, 2, 2} {
		b.Receive(Receive{Receiver: worker, N: n + 1, Want: 1})
		require.Len(t, b.Members("i"), left)
	}
	require.Equal(t, []string{other, worker}, b.Members("i"))
}

// A receive takes what is due, in order, and leases it. Each delivery has a
// fence above all before it.
func TestTaskReceiveScriptTakes(t *testing.T) {
	b := NewTasks(t, server)
	b.Enqueue("", "a", "b")
	b.EnqueueIn(time.Minute, "", "later")
	b.Enqueue("k", "c", "behind")
	got := b.Receive(Receive{Receiver: worker, N: 1, Want: 2})
	require.Equal(t, []string{"a", "b"}, got.IDs())
	require.Equal(t, int64(1), got.Code)
	require.Equal(t, int64(-1), got.Next, "there may be more")
	require.Empty(t, b.Members("i"))
	require.Equal(t, Nonce(0), got.All[0].Record[:8])
	require.True(t, strings.HasSuffix(got.All[0].Record, Body("")))
	require.Equal(t, "1", got.All[0].Attempt)
	require.Equal(t, got.All[0].Fence+1, got.All[1].Fence)
	require.InDelta(t, b.Now()+60_000_000, b.Score("l", "a"), slack)

	next := b.Receive(Receive{Receiver: worker, N: 2, Want: 5})
	require.Equal(t, []string{"c"}, next.IDs())
	require.Greater(t, next.All[0].Fence, got.All[1].Fence)
	require.InDelta(t, time.Minute.Microseconds(), next.Next, slack, "the end of a lease, or what is delayed")
	require.Equal(t, []string{worker}, b.Members("i"), "it wants more")

	b.Do("DEL", b.Key("n"))
	require.Empty(t, b.Receive(Receive{Receiver: other, N: 1, Want: 5}).All)
	require.Equal(t, []string{worker, other}, b.Members("i"))
	stopped := b.Receive(Receive{Receiver: other, N: 2})
	require.Empty(t, stopped.All)
	require.Equal(t, []string{worker}, b.Members("i"), "a receiver that stops is not idle")
}

func TestTaskReceiveScriptOfAnEmptyQueue(t *testing.T) {
	b := NewTasks(t, server)
	got := b.Receive(Receive{Receiver: worker, N: 1, Want: 1})
	require.Equal(t, Received{Code: 1, Next: -1, Heard: -1}, got)
	b.EnqueueIn(time.Minute, "", "later")
	require.InDelta(t, time.Minute.Microseconds(), b.Receive(Receive{Receiver: worker, N: 2, Want: 1}).Next, slack)
	b.EnqueueIn(30*time.Second, "k", "sooner")
	require.InDelta(t, 30_000_000, b.Receive(Receive{Receiver: worker, N: 3, Want: 1}).Next, slack)
}

// A second copy answers the same deliveries, with whole leases. It leaves out
// those that have ended.
func TestTaskReceiveScriptCopies(t *testing.T) {
	b := NewTasks(t, server)
	b.Enqueue("", "a", "10:b", "c", "d", "e", "f", "g")
	request := Receive{Receiver: worker, N: 1, Want: 5}
	got := b.Receive(request)
	require.Equal(t, []string{"a", "10:b", "c", "d", "e"}, got.IDs())
	require.Equal(t, got.All, b.Receive(request).All)
	b.RequireSettled("a", "", got.All[0])
	b.EndLease("c")
	b.RequireSettled("n", 0, got.All[3])
	b.Do("ZADD", b.Key("l"), b.Now()+1_000_000, "10:b", b.Now()+120_000_000, "e")
	again := b.Receive(request)
	require.Equal(t, []string{"10:b", "e"}, again.IDs())
	require.Equal(t, got.All[1], again.All[0])
	require.InDelta(t, b.Now()+60_000_000, b.Score("l", "10:b"), slack, "a whole lease")
	require.InDelta(t, b.Now()+120_000_000, b.Score("l", "e"), slack, "never shortened")
	require.Equal(t, []string{"f", "g", "d"}, b.Members("d"), "a copy takes nothing")

	require.Len(t, b.Receive(Receive{Receiver: worker, N: 2, Want: 1}).All, 1)
	late := b.Receive(request)
	require.Equal(t, Received{Code: 0, Next: -1, Heard: -1}, late, "a copy of an earlier one")
	require.Len(t, b.Receive(Receive{Receiver: other, N: 1, Want: 5}).All, 3, "numbers are those of a receiver")
}

// What an unanswered receive took is returned by the next one, as if it was
// never received. What has ended since is left alone.
func TestTaskReceiveScriptUndo(t *testing.T) {
	b := NewTasks(t, server)
	b.Enqueue("", "a", "b", "c")
	b.Enqueue("k", "k1", "k2")
	lost := b.Receive(Receive{Receiver: worker, N: 1, Want: 4})
	require.Len(t, lost.All, 4)
	b.EndLease("b")
	theirs := b.Receive(Receive{Receiver: other, N: 1, Want: 1})
	require.Equal(t, []string{"b"}, theirs.IDs())
	b.RequireSettled("a", "", lost.All[2])

	next := b.Receive(Receive{Receiver: worker, N: 2, Want: 5, Undo: true})
	require.Equal(t, []string{"a", "k1"}, next.IDs())
	require.Equal(t, "1", next.All[0].Attempt, "uncounted")
	require.Greater(t, next.All[0].Fence, theirs.All[0].Fence)
	require.Equal(t, int64(0), b.Settle(lost.All[0], "a", ""), "the fence of the lost one")
	require.Equal(t, []string{"a", "b", "k1"}, sorted(b.Members("l")))
	require.Empty(t, b.Receive(Receive{Receiver: worker, N: 3, Undo: false}).All)
	require.Len(t, b.Members("l"), 3, "answered: nothing is undone")
	b.Receive(Receive{Receiver: worker, N: 4, Undo: true})
	require.Len(t, b.Members("l"), 3, "the last one took nothing")
}

// The next receive does not know whether the one before was executed. If it was
// not, the deliveries of the last answered one go on.
func TestTaskReceiveScriptUndoesNothingAnswered(t *testing.T) {
	b := NewTasks(t, server)
	b.Enqueue("", "a", "b")
	d := b.Receive(Receive{Receiver: worker, N: 1, Want: 1}).All[0]
	require.Len(t, b.Receive(Receive{Receiver: worker, N: 3, Heard: 1, Want: 1}).All, 1, "2 was never executed")
	b.RequireSettled("a", "", d)
	b.Receive(Receive{Receiver: worker, N: 4, Heard: 1})
	require.Equal(t, []string{"b"}, b.Members("d"), "3 was not answered")
}

// A receiver is idle as long as it waits.
func TestTaskReceiveScriptIdle(t *testing.T) {
	b := NewTasks(t, server)
	n := 0
	for _, tt := range []struct {
		once, tasks int
		idle        bool
	}{{0, 0, true}, {0, 1, true}, {0, 2, false}, {1, 0, true}, {1, 1, false}, {2, 0, false}, {2, 1, false}} {
		for range tt.tasks {
			n++
			b.Enqueue("", fmt.Sprint(n))
		}
		n++
		require.Len(t, b.Receive(Receive{Receiver: worker, N: n, Want: 2, Once: tt.once}).All, tt.tasks)
		require.Equal(t, tt.idle, len(b.Members("i")) == 1, "%+v", tt)
	}
}

// With a limit, a receive takes what it leaves room for. A receiver that it
// stops is idle until a lease ends.
func TestTaskReceiveScriptLimit(t *testing.T) {
	b := NewTasks(t, server)
	b.Enqueue("", "a", "b", "c", "d")
	got := b.Receive(Receive{Receiver: worker, N: 1, Want: 1, InFlight: 3})
	require.Equal(t, []string{"a"}, got.IDs(), "it wants less")
	got = b.Receive(Receive{Receiver: worker, N: 2, Want: 5, InFlight: 3, Lease: 30 * time.Second})
	require.Equal(t, []string{"b", "c"}, got.IDs())
	require.Equal(t, int64(1), got.Code)
	require.InDelta(t, 30_000_000, got.Next, slack)
	require.Equal(t, []string{worker}, b.Members("i"))
	require.Empty(t, b.Receive(Receive{Receiver: other, N: 1, Want: 5, InFlight: 2}).All, "its own limit counts")
	b.EndLease("b")
	again := b.Receive(Receive{Receiver: other, N: 2, Want: 5, InFlight: 3})
	require.Equal(t, []string{"b"}, again.IDs(), "the order is kept")
	require.Equal(t, []string{"d"}, b.Receive(Receive{Receiver: other, N: 3, Want: 5}).IDs(), "without a limit")
}

// A receiver that stops passes on what it leaves, and a wake-up.
func TestTaskReceiveScriptStops(t *testing.T) {
	b := NewTasks(t, server)
	l := b.Listen("c2")
	message := "tasks:" + other + " " + b.Q
	idle := func() { b.Do("ZADD", b.Key("i"), b.Now(), other) }
	b.Enqueue("", "a", "b", "c")
	b.Receive(Receive{Receiver: worker, N: 1, Want: 3})
	idle()
	b.Receive(Receive{Receiver: worker, N: 2, Undo: true})
	require.Equal(t, []string{message}, l.Heard(), "of what it returns")
	idle()
	b.Receive(Receive{Receiver: worker, N: 3})
	require.Equal(t, []string{message}, l.Heard(), "of what is due")
	require.Len(t, b.Receive(Receive{Receiver: worker, N: 4, Want: 3}).All, 3)
	idle()
	b.Receive(Receive{Receiver: worker, N: 5})
	require.Empty(t, l.Heard(), "nothing is due")

	b.Receive(Receive{Receiver: worker, N: 6, Want: 1, Undo: true})
	require.Empty(t, l.Heard(), "the one before took nothing")
	for _, id := range []string{"a", "b", "c"} {
		b.EndLease(id)
	}
	idle()
	require.Len(t, b.Receive(Receive{Receiver: worker, N: 7, Want: 1}).All, 1)
	require.Equal(t, []string{message}, l.Heard(), "more leases have ended than it takes")

	b.Flush()
	idle()
	b.EnqueueIn(2*time.Second, "k", "soon")
	require.Empty(t, l.Heard())
	b.Do("ZADD", b.Key("w"), "XX", b.Now()+500_000, "soon")
	b.Receive(Receive{Receiver: worker, N: 8})
	require.Equal(t, []string{message}, l.Heard(), "of what is delayed, and due soon")
}

// A task whose lease has ended is due again, at its old place.
func TestTaskReceiveScriptEndedLeases(t *testing.T) {
	b := NewTasks(t, server)
	b.Enqueue("k", "a", "behind")
	b.Enqueue("", "b", "c")
	b.Receive(Receive{Receiver: worker, N: 1, Want: 2})
	b.EndLease("a")
	got := b.Receive(Receive{Receiver: other, N: 1, Want: 1, Lease: time.Hour})
	require.Equal(t, []string{"a"}, got.IDs(), "before those that came later")
	require.Equal(t, "1", got.All[0].Attempt, "no attempt, and no interruption as the server has just started")
	b.EndLease("a")
	b.EndLease("b")
	got = b.Receive(Receive{Receiver: other, N: 2, Want: 5, Lease: time.Hour})
	require.Equal(t, []string{"a", "b", "c"}, got.IDs())
	b.Do("ZADD", b.Key("l"), b.Now()-1, "nobody") // without anything else
	require.Empty(t, b.Receive(Receive{Receiver: other, N: 3, Want: 5}).All)
	require.Equal(t, []string{"a", "b", "c"}, b.Members("l"))
}

// No script returns more than 32 leases. It reports that there are more.
func TestTaskReceiveScriptManyEndedLeases(t *testing.T) {
	b := NewTasks(t, server)
	ids := numbered(33)
	b.Enqueue("", ids...)
	require.Len(t, b.Receive(Receive{Receiver: worker, N: 1, Want: 64}).All, 33)
	for _, id := range ids {
		b.EndLease(id)
	}
	got := b.Receive(Receive{Receiver: worker, N: 2, Want: 1, Lease: time.Hour})
	require.Equal(t, int64(4), got.Code)
	require.Len(t, got.All, 1)
	require.Equal(t, int64(1), b.Receive(Receive{Receiver: worker, N: 3, Want: 64, Lease: time.Hour}).Code)
	require.Len(t, b.Members("l"), 33)
}

// A task whose record was deleted is dropped.
func TestTaskReceiveScriptWithoutRecord(t *testing.T) {
	b := NewTasks(t, server)
	b.Enqueue("", "a")
	b.Do("ZADD", b.Key("d"), 1, "nobody")
	b.Do("HSET", b.Key("m"), "nobody", "1 0 2 ")
	got := b.Receive(Receive{Receiver: worker, N: 1, Want: 2})
	require.Equal(t, []string{"a"}, got.IDs())
	require.Equal(t, int64(4), got.Code)
	require.Nil(t, b.Do("HGET", b.Key("m"), "nobody"))
}

// An answer has no more bytes than requested, but at least one task.
func TestTaskReceiveScriptLargeTasks(t *testing.T) {
	b := NewTasks(t, server)
	put := func(id string, size int) {
		b.Ints(script.TaskEnqueue, Nonce(0), 0, id, 0, "000000"+strings.Repeat("x", size))
	}
	for i := range 12 {
		put(fmt.Sprint(i), 1<<20)
	}
	put("small", 10)
	got := b.Receive(Receive{Receiver: worker, N: 1, Want: 64})
	require.Equal(t, []string{"0", "1", "2"}, got.IDs())
	require.Equal(t, int64(4), got.Code)
	require.Empty(t, b.Members("i"))
	got = b.Receive(Receive{Receiver: worker, N: 2, Want: 64, Bytes: 3 << 20})
	require.Equal(t, []string{"3", "4"}, got.IDs(), "less")
	require.Equal(t, int64(4), got.Code)
	require.Equal(t, []string{"5"}, b.Receive(Receive{Receiver: worker, N: 3, Want: 64, Bytes: 1}).IDs())
	b.Flush()
	put("huge", 5<<20)
	require.Equal(t, []string{"huge"}, b.Receive(Receive{Receiver: worker, N: 1, Want: 64}).IDs())
}

// A heartbeat says how many heard it.
func TestTaskReceiveScriptHeartbeat(t *testing.T) {
	s := redistest.Start(t)
	b := NewTasks(t, s)
	require.Equal(t, int64(0), b.Receive(Receive{Receiver: worker, N: 1, Want: 1, Heartbeat: 1}).Heard)
	l := b.Listen("c1")
	require.Equal(t, int64(1), b.Receive(Receive{Receiver: worker, N: 2, Want: 1, Heartbeat: 1}).Heard)
	require.Equal(t, []string{""}, l.Heard())
	b.Deny("-publish")
	require.Equal(t, int64(-1), b.Receive(Receive{Receiver: worker, N: 3, Want: 1, Heartbeat: 1}).Heard)
	b.Enqueue("", "a") // is not published either
	require.Equal(t, []string{"a"}, b.Members("d"))
}

// The record of a receive lasts ten leases, and a minute at least.
func TestTaskReceiveScriptRecordEnds(t *testing.T) {
	b := NewTasks(t, server)
	left := func() int64 { return b.Do("PTTL", b.Key("c:"+worker)).(int64) }
	b.Receive(Receive{Receiver: worker, N: 1, Want: 1, Lease: time.Second})
	require.InDelta(t, 60_000, left(), slack/1000)
	b.Receive(Receive{Receiver: worker, N: 2, Want: 1, Lease: time.Minute})
	require.InDelta(t, 600_000, left(), slack/1000)
}

// A record that cannot be read is of no key. It stops no other task.
func TestTaskReceiveScriptDamaged(t *testing.T) {
	b := NewTasks(t, server)
	b.Enqueue("", "short", "length", "ticket", "good", "key", "apart")
	b.Do("HSET", b.Key("p"), "short", "x", "length", "noncenon1700000000000000k", "ticket",
		"noncenon17000000000000xx000001k",
		"key", "noncenon1700000000000000001bkkk", "apart", "noncenon1700000000000000---000")
	b.Damaged = true
	got := b.Receive(Receive{Receiver: worker, N: 1, Want: 6})
	require.Equal(t, []string{"short", "length", "ticket", "good", "key", "apart"}, got.IDs())
	require.Empty(t, b.Do("HKEYS", b.Key("k")))
	b.RequireSettled("d", "why", got.All[:2]...)
	require.Equal(t, int64(1), b.Ints(script.TaskRemove, "short")[0])
	require.Equal(t, int64(1), b.Ints(script.TaskRequeue, "length")[0])
	b.RequireSettled("r", "0", got.All[2])
	require.Equal(t, []string{"length", "ticket"}, b.Members("d"))
}
