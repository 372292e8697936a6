package lua_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
)

// putBehind enqueues tasks, takes them, and puts them behind a lock for which
// somebody waits for a minute.
func putBehind(b *Tasks, n int, lock, key string, ids ...string) {
	b.Helper()
	if len(ids) > 0 {
		b.Enqueue(key, ids...)
	}
	got := b.Receive(Receive{Receiver: worker, N: n, Want: 64}).All
	b.RequireSettled("b", "60000 "+lock, got...)
}

// Tasks behind a lock are taken by that only, in their order.
func TestTaskScriptsBehindLock(t *testing.T) {
	b := NewTasks(t, server)
	putBehind(b, 1, "a", "", "1", "2")
	putBehind(b, 2, "ab\n:", "k", "3", "behind")
	require.Equal(t, []int64{0, 0, 0, 4, 0}, b.Ints(script.TaskStats, 10, 1000)[:5])
	require.Empty(t, b.Receive(Receive{Receiver: worker, N: 3, Want: 9}).All)
	got := b.Receive(Receive{Receiver: other, N: 1, Want: 1, Lock: "a"})
	require.Equal(t, []string{"1"}, got.IDs())
	require.Equal(t, int64(1), got.Code)
	require.Equal(t, "1", got.All[0].Attempt, "that before does not count")
	require.Equal(t, got.All, b.Receive(Receive{Receiver: other, N: 1, Want: 1, Lock: "a"}).All, "again")
	got = b.Receive(Receive{Receiver: other, N: 2, Want: 1, Lock: "a", Undo: true})
	require.Equal(t, []string{"2"}, got.IDs())
	require.Equal(t, []string{"1"}, b.Members("d"), "undone")
	got = b.Receive(Receive{Receiver: other, N: 3, Want: 1, Lock: "a"})
	require.Empty(t, got.All)
	require.Equal(t, int64(1), got.Code)
	require.Equal(t, []string{"ab\n:"}, b.Members("g"))
	got = b.Receive(Receive{Receiver: other, N: 4, Want: 1, Lock: "ab\n:"})
	require.Equal(t, []string{"3"}, got.IDs())
	b.RequireSettled("a", "", got.All[0])
	require.Equal(t, []string{"1", "behind"}, b.Members("d"))
}

// A task that was removed is dropped, and so is its place if its id is another
// one's by now.
func TestTaskScriptsRemovedBehindLock(t *testing.T) {
	b := NewTasks(t, server)
	b.Damaged = true // until the old places are found
	putBehind(b, 1, "a", "k", "1", "next")
	require.Equal(t, []int64{1}, b.Ints(script.TaskRemove, "1"))
	require.Equal(t, []string{"next"}, b.Members("d"))
	putBehind(b, 2, "a", "", "2")
	require.Equal(t, []int64{1}, b.Ints(script.TaskRemove, "2"))
	b.Enqueue("", "2")
	all := b.Receive(Receive{Receiver: worker, N: 3, Want: 1}).All
	b.RequireSettled("n", "0", all...) // it was received, too
	got := b.Receive(Receive{Receiver: other, N: 1, Want: 1, Lock: "a"})
	require.Equal(t, []string{"next"}, got.IDs(), "it passes over the place of 1")
	got = b.Receive(Receive{Receiver: other, N: 2, Want: 1, Lock: "a"})
	require.Empty(t, got.All)
	require.Equal(t, int64(1), got.Code)
	require.Empty(t, b.Members("b"), "it has dropped the place of 2")
	require.Empty(t, b.Members("g"))
	require.Equal(t, []string{"2"}, b.Members("d"))

	for i := range 65 {
		b.Do("ZADD", b.Key("b"), 0, fmt.Sprintf("0001a17000000000000%02d%d", i, i))
	}
	b.Do("HSET", b.Key("m"), "64", "1 0 1700000000000064 ") // without a record
	got = b.Receive(Receive{Receiver: other, N: 3, Want: 1, Lock: "a"})
	require.Equal(t, int64(4), got.Code, "there may be more")
	require.Len(t, b.Members("b"), 1)
	got = b.Receive(Receive{Receiver: other, N: 4, Want: 1, Lock: "a"})
	require.Equal(t, int64(1), got.Code)
	require.Empty(t, b.Members("b"))
}

// A task behind a lock whose attempts others have damaged is taken, or due, as
// if it was never received.
func TestTaskScriptsDamagedBehindLock(t *testing.T) {
	b := NewTasks(t, server)
	putBehind(b, 1, "a", "", "1", "2")
	b.Do("HSET", b.Key("m"), "1", "x", "2", "x")
	got := b.Receive(Receive{Receiver: other, N: 1, Want: 1, Lock: "a"})
	require.Equal(t, []string{"1"}, got.IDs())
	require.Equal(t, "1", got.All[0].Attempt)
	b.Ints(script.TaskGate, 0, "a")
	require.Equal(t, []string{"2"}, b.Receive(Receive{Receiver: worker, N: 2, Want: 2}).IDs())
}

// What makes large tasks due does not read them.
func TestTaskScriptsLargeBehindLock(t *testing.T) {
	t.Parallel()
	const tasks = 32
	b := NewTasks(t, redistest.Start(t))
	b.Damaged = true // to check it would be to read it
	for i := range tasks {
		b.Ints(script.TaskEnqueue, Nonce(0), 0, fmt.Sprint(i), 0, "000000"+strings.Repeat("x", 1<<20))
	}
	for n := 1; len(b.Members("b")) < tasks; n++ {
		b.RequireSettled("b", "60000 a", b.Receive(Receive{Receiver: worker, N: n, Want: tasks}).All...)
	}
	b.Ints(script.TaskGate, 0, "a")
	b.Do("CONFIG", "RESETSTAT")
	require.Len(t, b.Receive(Receive{Receiver: other, N: 1, Want: 1, Bytes: 1}).All, 1)
	require.Len(t, b.Members("d"), tasks-1)
	info, err := redis.String(b.Do("INFO", "commandstats"), nil)
	require.NoError(t, err)
	require.Equal(t, tasks, redistest.CallsIn(t, info, "hget"), "one for the attempts of each")
}

// When nobody waits for a lock any more, the tasks behind it are due.
func TestTaskScriptsPromises(t *testing.T) {
	b := NewTasks(t, server)
	ids := numbered(40)
	putBehind(b, 1, "a", "", ids...)
	putBehind(b, 2, "b", "", "last")
	ends := b.Score("g", "a")
	require.Equal(t, []int64{1}, b.Ints(script.TaskGate, 1000, "a", "c"))
	require.Equal(t, ends, b.Score("g", "a"), "a promise is never shortened")
	require.Equal(t, []int64{2}, b.Ints(script.TaskGate, 120_000, "a", "b"))
	require.Greater(t, b.Score("g", "a"), ends)
	l := b.Listen("c9")
	b.Do("ZADD", b.Key("i"), b.Now(), "c9:1")
	require.Equal(t, []int64{1}, b.Ints(script.TaskGate, 0, "a"))
	require.Len(t, l.Heard(), 1)
	got := b.Receive(Receive{Receiver: worker, N: 3, Want: 2})
	require.Equal(t, ids[:2], got.IDs())
	require.Equal(t, int64(4), got.Code)
	require.Len(t, b.Members("d"), 30)
	got = b.Receive(Receive{Receiver: worker, N: 4, Want: 64})
	require.Equal(t, ids[2:], got.IDs())
	require.Equal(t, int64(1), got.Code)
	require.Equal(t, []string{"b"}, b.Members("g"))
	require.Greater(t, got.Next, int64(50_000_000), "the end of a lease, or of a promise")
	require.Equal(t, []int64{0}, b.Ints(script.TaskGate, 1000, "a"))
	require.Equal(t, []string{"b"}, b.Members("g"))
	b.Do("ZADD", b.Key("g"), b.Now(), "gone") // without a task behind it
	b.Receive(Receive{Receiver: worker, N: 5, Want: 1})
	require.Equal(t, []string{"b"}, b.Members("g"))
	b.Flush()
	b.Do("ZADD", b.Key("g"), b.Now(), "gone", b.Now(), "removed")
	b.Do("ZADD", b.Key("b"), 0, "0007removed1234567890123456id")
	b.Damaged = true
	require.Empty(t, b.Receive(Receive{Receiver: worker, N: 6, Want: 1}).All)
	require.Empty(t, b.Members("b"))
	b.Do("ZADD", b.Key("g"), b.Now()+200_000, "soon")
	require.Less(t, b.Receive(Receive{Receiver: worker, N: 7, Want: 1}).Next, int64(200_001))
}

// A suspect task stays suspect behind a lock.
func TestTaskScriptsSuspectBehindLock(t *testing.T) {
	b := NewTasks(t, server)
	runsLonger(t)
	b.Enqueue("", "a")
	b.Receive(Receive{Receiver: worker, N: 1, Want: 1})
	interrupt(b, Receive{N: 1}, "a")
	putBehind(b, 2, "a", "")
	b.Ints(script.TaskGate, 0, "a")
	b.Receive(Receive{Receiver: worker, N: 3, Want: 1, Busy: 1})
	require.Equal(t, []string{"a"}, b.Members("s"))
}

// A receive by lock that finds no room has others leave it some.
func TestTaskReceiveScriptRoomForLock(t *testing.T) {
	b := NewTasks(t, server)
	putBehind(b, 1, "a", "", "locked")
	b.Enqueue("", "1", "2", "3")
	all := b.Receive(Receive{Receiver: worker, N: 2, Want: 2, InFlight: 2}).All
	require.Len(t, all, 2)
	got := b.Receive(Receive{Receiver: other, N: 1, Want: 1, InFlight: 2, Lock: "a"})
	require.Empty(t, got.All)
	require.Equal(t, int64(5), got.Code)
	b.RequireSettled("a", "", all[0])
	require.Empty(t, b.Receive(Receive{Receiver: worker, N: 3, Want: 2, InFlight: 2}).All)
	got = b.Receive(Receive{Receiver: other, N: 2, Want: 1, InFlight: 2, Lock: "a"})
	require.Equal(t, []string{"locked"}, got.IDs())
	b.RequireSettled("a", "", all[1])
	b.Do("ZADD", b.Key("g"), b.Now(), "")
	got = b.Receive(Receive{Receiver: worker, N: 4, Want: 2, InFlight: 2})
	require.Equal(t, []string{"3"}, got.IDs(), "the mark has ended")
	b.Flush()
	b.Enqueue("", "4", "5")
	b.Do("ZADD", b.Key("g"), b.Now()+3_600_000_000, "") // the clock was set back
	require.Equal(t, []string{"4", "5"}, b.Receive(Receive{Receiver: worker, N: 1, Want: 2, InFlight: 2}).IDs())
}

// Arguments that make no sense are refused.
func TestTaskScriptsBehindLockArguments(t *testing.T) {
	b := NewTasks(t, server)
	long := strings.Repeat("x", 10_000)
	for _, args := range [][]any{{1}, {-1, "a"}, {"x", "a"}, {1, ""}, {1, long}, append([]any{1}, make([]any, 65)...)} {
		for i := range args {
			if args[i] == nil {
				args[i] = "a"
			}
		}
		_, err := b.Try(script.TaskGate, "", args...)
		require.ErrorContains(t, err, "task_gate: bad arguments")
	}
	for _, argument := range []string{"", "a", "60000", "60000 ", "9 a", "x a", "60000 " + long} {
		args := SettleOf(0, Delivery{ID: "a", Fence: 1}, "b", argument)
		_, err := b.Try(script.TaskSettle, "", args...)
		require.ErrorContains(t, err, "task_settle: bad arguments", argument)
	}
	args := Receive{Receiver: worker, N: 1, Want: 1, Lock: long}.Args()
	_, err := b.Try(script.TaskReceive, worker, args...)
	require.ErrorContains(t, err, "task_receive: bad arguments")
}
