package lua_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
)

func sorted(all []string) []string {
	slices.Sort(all)
	return all
}

// taken queues tasks with one key and receives n of them.
func taken(b *Tasks, key string, n int, ids ...string) []Delivery {
	b.Helper()
	b.Enqueue(key, ids...)
	got := b.Receive(Receive{Receiver: worker, N: int(b.Now() % 1e15), Want: n})
	require.Len(b, got.All, n)
	return got.All
}

// A task that is done is forgotten, and the next of its key is due.
func TestTaskSettleScriptAck(t *testing.T) {
	b := NewTasks(t, server)
	d := taken(b, "k", 1, "a", "b")
	b.RequireSettled("a", "", d[0])
	require.Equal(t, []string{"b"}, b.Members("d"))
	require.Equal(t, int64(0), b.Settle(d[0], "a", ""), "a copy")
	require.Equal(t, int64(0), b.Settle(d[0], "n", 0), "a copy")
	require.Equal(t, int64(0), b.Do("EXISTS", b.Key("u")))
	d = taken(b, "", 2, "c")
	b.RequireSettled("a", "", d[0], d[1])
	left, _ := b.Do("KEYS", b.Q+"*").([]any)
	require.Len(t, left, 2, "the number and the record of the receiver: %s", left)
}

// Deliveries of one script end independently. Of two copies in it, one counts.
func TestTaskSettleScriptBatch(t *testing.T) {
	b := NewTasks(t, server)
	d := taken(b, "", 3, "a", "b", "c")
	k := taken(b, "k", 1, "k1", "k2", "k3")
	args := []any{0, 10, 3600_000, 0}
	for _, one := range []Delivery{d[0], k[0], k[0], {ID: "b", Fence: 5}, d[2], {ID: "none", Fence: 5}} {
		args = append(args, one.ID, one.Name(), "a", "")
	}
	require.Equal(t, []int64{1, 1, 0, 0, 1, 0}, b.Ints(script.TaskSettle, args...))
	require.Equal(t, []string{"b"}, b.Members("l"))
	require.Equal(t, []string{"k2"}, b.Members("d"))
}

// The fence names a delivery, and its lease must not have ended.
func TestTaskSettleScriptFence(t *testing.T) {
	b := NewTasks(t, server)
	first := taken(b, "", 1, "a")[0]
	b.EndLease("a")
	require.Equal(t, int64(0), b.Settle(first, "a", ""), "too late")
	second := b.Receive(Receive{Receiver: other, N: 1, Want: 1, Lease: time.Hour}).All[0]
	require.Equal(t, "1", second.Attempt)
	for _, verb := range []string{"a", "d"} {
		require.Equal(t, int64(0), b.Settle(first, verb, ""))
	}
	require.Equal(t, []int64{0}, b.Ints(script.TaskRenew, "a", first.Name(), 1000))
	b.RequireSettled("a", "", second)
}

// A task that failed is due later, and blocks its key. A released one is at its
// old place, and was not counted.
func TestTaskSettleScriptAgain(t *testing.T) {
	b := NewTasks(t, server)
	l := b.Listen("c2")
	d := taken(b, "k", 1, "a", "b")[0]
	b.Do("ZADD", b.Key("i"), b.Now(), other)
	b.RequireSettled("n", 60_000, d)
	require.InDelta(t, b.Now()+60_000_000, b.Score("d", "a"), slack)
	require.Equal(t, []string{"a"}, b.Members("d"), "the key is blocked")
	require.Empty(t, l.Heard(), "nothing is due soon")

	receive := func(n int) Delivery {
		b.Do("ZADD", b.Key("d"), "XX", 1, "a")
		got := b.Receive(Receive{Receiver: "c3:1", N: n, Want: 1})
		require.Equal(t, []string{"a"}, got.IDs())
		return got.All[0]
	}
	d = receive(1)
	require.Equal(t, "2", d.Attempt)
	b.RequireSettled("n", 500, d)
	require.Len(t, l.Heard(), 1, "due soon")
	d = receive(2)
	require.Equal(t, "3", d.Attempt)
	b.Do("ZADD", b.Key("i"), b.Now(), other)
	before := b.Now()
	b.RequireSettled("r", 0, d)
	require.Len(t, l.Heard(), 1)
	requireDue(t, b, before, 0, "a")
	d = receive(3)
	require.Equal(t, "3", d.Attempt, "uncounted")
	before = b.Now()
	b.RequireSettled("r", 5_000, d)
	requireDue(t, b, before, 5_000_000, "a")
	d = receive(4)
	before = b.Now()
	b.RequireSettled("n", 0, d)
	requireDue(t, b, before, 0, "a")
}

// A dead letter keeps its record, and frees its key. The oldest ones go, if
// there are too many, or if they are too old.
func TestTaskSettleScriptDeadLetter(t *testing.T) {
	b := NewTasks(t, server)
	d := taken(b, "k", 1, "a", "b")[0]
	b.RequireSettled("d", "why\x00not", d)
	require.Equal(t, []string{"b"}, b.Members("d"))
	require.Equal(t, []string{"a"}, b.Members("z"))
	stored, _ := b.Do("HGET", b.Key("m"), "a").([]byte)
	require.Regexp(t, `^1 0 \d{16} k\x00why\x00not$`, string(stored))

	bury := func(letters int, age time.Duration, ids ...string) {
		for _, one := range taken(b, "", len(ids), ids...) {
			args := append([]any{0, letters, age.Milliseconds(), 0}, one.ID, one.Name(), "d", "")
			require.Equal(t, []int64{1}, b.Ints(script.TaskSettle, args...))
		}
	}
	next := b.Receive(Receive{Receiver: other, N: 1, Want: 1}).All[0]
	require.Equal(t, "b", next.ID)
	b.RequireSettled("a", "", next)
	bury(2, time.Hour, "c", "d", "e")
	require.Equal(t, []string{"d", "e"}, b.Members("z"))
	b.Do("ZADD", b.Key("z"), b.Now()-3601*1_000_000, "d")
	bury(10, time.Hour, "f")
	require.Equal(t, []string{"e", "f"}, b.Members("z"))
	bury(0, time.Hour, "g")
	bury(0, time.Hour, "h")
	require.Empty(t, b.Members("z"))
	require.Nil(t, b.Do("HGET", b.Key("m"), "h"))
}

// With a limit, each lease that ends wakes a receiver, if a task is due.
func TestTaskSettleScriptLimit(t *testing.T) {
	b := NewTasks(t, server)
	l := b.Listen("c2")
	settle := func(limited int, d Delivery) int {
		t.Helper()
		b.Do("ZADD", b.Key("i"), b.Now(), other)
		args := SettleOf(0, d, "a", "")
		args[3] = limited
		require.Equal(t, []int64{1}, b.Ints(script.TaskSettle, args...))
		return len(l.Heard())
	}
	d := taken(b, "", 4, "a", "b", "c", "d", "due")
	require.Equal(t, 0, settle(0, d[0]), "there is no limit")
	require.Equal(t, 1, settle(1, d[1]))
	b.Do("ZADD", b.Key("i"), b.Now(), "c2:2")
	require.Equal(t, 1, settle(1, d[2]), "room for one")
	require.Equal(t, int64(1), b.Ints(script.TaskRemove, "due")[0])
	b.Do("DEL", b.Key("i"))
	require.Equal(t, 0, settle(1, d[3]), "nothing is due")
	b.Do("DEL", b.Key("i"))
	last := taken(b, "", 1, "last")[0]
	b.EnqueueIn(1500*time.Millisecond, "k", "delayed")
	b.Do("ZADD", b.Key("w"), "XX", b.Now(), "delayed")
	require.Equal(t, 1, settle(1, last), "one that has not joined its key")
}

// Ids that are done are forgotten when their time is over.
func TestTaskSettleScriptForgetsDoneIDs(t *testing.T) {
	b := NewTasks(t, server)
	for _, id := range []string{"a", "b"} {
		d := taken(b, "", 1, id)[0]
		require.Equal(t, []int64{1}, b.Ints(script.TaskSettle, SettleOf(time.Minute, d, "a", "")...))
	}
	require.Equal(t, []string{"a", "b"}, b.Members("u"))
	require.InDelta(t, b.Now()+60_000_000, b.Score("u", "a"), slack)
	b.Do("ZADD", b.Key("u"), b.Now()-1, "a")
	d := taken(b, "", 1, "c")[0]
	require.Equal(t, []int64{1}, b.Ints(script.TaskSettle, SettleOf(time.Minute, d, "a", "")...))
	require.Equal(t, []string{"b", "c"}, b.Members("u"))
}

// A part of the queue was deleted by others: nothing is found, and nothing
// fails.
func TestTaskScriptsAfterADeletion(t *testing.T) {
	b := NewTasks(t, server)
	b.Enqueue("", "a")
	request := Receive{Receiver: worker, N: 1, Want: 1}
	d := b.Receive(request).All[0]
	b.Do("DEL", b.Key("l"), b.Key("p"))
	require.Equal(t, int64(0), b.Settle(d, "a", ""))
	require.Empty(t, b.Receive(request).All, "a copy")
	require.Equal(t, []int64{0}, b.Ints(script.TaskRemove, "a"))
}

// A replica refuses a settle and a renewal, whether it finds the lease or not.
func TestTaskScriptsOnReplica(t *testing.T) {
	s := redistest.Start(t)
	b := NewTasks(t, s)
	d := taken(b, "", 1, "a")[0]
	b.Do("REPLICAOF", "127.0.0.1", "1")
	b.Do("CONFIG", "SET", "replica-serve-stale-data", "yes")
	for _, one := range []Delivery{d, {ID: "a", Fence: 5}, {ID: "none", Fence: 5}} {
		_, err := b.Try(script.TaskSettle, "", SettleOf(0, one, "a", "")...)
		require.ErrorContains(t, err, "READONLY")
		_, err = b.Try(script.TaskRenew, "", one.ID, one.Name(), 1000)
		require.ErrorContains(t, err, "READONLY")
	}
	for _, id := range []string{"a", "none"} {
		_, err := b.Try(script.TaskRemove, "", id)
		require.ErrorContains(t, err, "READONLY")
	}
}

// When the memory is used up nothing is queued. Tasks are still received,
// renewed and settled.
func TestTaskScriptsOutOfMemory(t *testing.T) {
	s := redistest.Start(t)
	b := NewTasks(t, s)
	d := taken(b, "", 4, "a", "b", "c", "d")
	b.Enqueue("k", "due")
	before := b.Do("KEYS", b.Q+"*")
	fillMemory(t, s)
	_, err := b.Try(script.TaskEnqueue, "", EnqueueOf(0, "k", "e", "f")...)
	require.ErrorContains(t, err, "OOM")
	require.ElementsMatch(t, before, b.Do("KEYS", b.Q+"*"))
	require.Equal(t, []string{"due"}, b.Members("d"))
	require.Len(t, b.Members("l"), 4)
	for i, verb := range []string{"a", "n", "r", "d"} {
		require.Equal(t, int64(1), b.Settle(d[i], verb, 0), verb)
	}
	require.ElementsMatch(t, []string{"due", "b", "c"}, b.Members("d"))
	require.Equal(t, []string{"d"}, b.Members("z"))
	got := b.Receive(Receive{Receiver: other, N: 1, Want: 3})
	require.ElementsMatch(t, []string{"due", "b", "c"}, got.IDs())
	require.Equal(t, []int64{1}, b.Ints(script.TaskRenew, got.All[0].ID, got.All[0].Name(), time.Hour.Milliseconds()))
}

// After the server's clock was set back, numbers that were drawn before are
// ahead of it. What becomes due then is due now, and keys stay in order.
func TestTaskScriptsAfterTheClockWasSetBack(t *testing.T) {
	b := NewTasks(t, redistest.Shared(t))
	b.Do("SET", b.Key("n"), b.Now()+3600_000_000)
	b.Enqueue("k", "1", "2", "3")
	next := func(n int, id string) Delivery {
		t.Helper()
		got := b.Receive(Receive{Receiver: worker, N: n, Want: 5})
		require.Equal(t, []string{id}, got.IDs())
		return got.All[0]
	}
	require.Equal(t, int64(1), b.Settle(next(1, "1"), "r", 0))
	require.Equal(t, int64(1), b.Settle(next(2, "1"), "n", 0))
	next(3, "1")
	b.EndLease("1")
	next(4, "1")
	undone := b.Receive(Receive{Receiver: worker, N: 5, Undo: true, Want: 5})
	require.Equal(t, []string{"1"}, undone.IDs())
	require.Equal(t, int64(1), b.Settle(undone.All[0], "a", ""))
	require.Equal(t, int64(1), b.Settle(next(6, "2"), "d", ""))
	require.Equal(t, []int64{1}, b.Ints(script.TaskRemove, "3"))
	require.Equal(t, []int64{1, 1}, b.Ints(script.TaskRequeue, "2"))
	next(7, "2")
}
