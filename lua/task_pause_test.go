package lua_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
)

func pause(b *Tasks, key string) {
	b.Helper()
	require.Equal(b, []int64{1}, b.Ints(script.TaskPause, 1, key))
}

func resume(b *Tasks, key string) {
	b.Helper()
	require.Equal(b, []int64{1}, b.Ints(script.TaskPause, 0, key))
}

// pausedIn returns what the counts of the queue say of pauses: whether it is
// paused, how many keys are, and how many tasks are behind something.
func pausedIn(b *Tasks) []int64 {
	b.Helper()
	all := b.Ints(script.TaskStats, 10, 1000)
	return []int64{all[7], all[8], all[3]}
}

// A paused queue delivers nothing. What is in flight goes on, and leases that
// have ended are returned.
func TestTaskScriptsPausedQueue(t *testing.T) {
	b := NewTasks(t, server)
	b.Enqueue("", "flies", "ends")
	d := b.Receive(Receive{Receiver: worker, N: 1, Want: 2}).All
	pause(b, "")
	since := b.Do("HGET", b.Key("v"), "\x00")
	pause(b, "")
	require.Equal(t, since, b.Do("HGET", b.Key("v"), "\x00"), "paused since the first time")
	require.Equal(t, []int64{1, 0, 0}, pausedIn(b))
	b.Enqueue("", "new")
	got := b.Receive(Receive{Receiver: worker, N: 2, Want: 5})
	require.Empty(t, got.All)
	require.Equal(t, int64(1), got.Code)
	require.Greater(t, got.Next, int64(50_000_000), "the end of a lease")
	require.Equal(t, []string{worker}, b.Members("i"))
	require.Equal(t, []int64{1}, b.Ints(script.TaskRenew, "flies", d[0].Name(), 90_000))
	b.RequireSettled("a", "", d[0])
	b.EndLease("ends")
	l := b.Listen("c9")
	b.Do("DEL", b.Key("i"))
	b.Do("ZADD", b.Key("i"), b.Now(), "c9:1")
	// as long as no server of tests is up
	require.Empty(t, b.Receive(Receive{Receiver: worker, N: 3, Want: 5, Lease: time.Hour}).All)
	require.Equal(t, []string{"ends", "new"}, b.Members("d"))
	require.Empty(t, b.Receive(Receive{Receiver: worker, N: 4}).All)
	require.Empty(t, l.Heard(), "nobody need ask")
	resume(b, "")
	require.Len(t, l.Heard(), 1)
	resume(b, "")
	require.Equal(t, []int64{0, 0, 0}, pausedIn(b))
	require.Equal(t, []string{"ends", "new"}, b.Receive(Receive{Receiver: worker, N: 5, Want: 5}).IDs())
}

// A receive by lock of a paused queue gets nothing, and nobody need wait for
// the lock: its tasks are due.
func TestTaskScriptsPausedQueueBehindLock(t *testing.T) {
	b := NewTasks(t, server)
	putBehind(b, 1, "a", "", "1")
	pause(b, "")
	got := b.Receive(Receive{Receiver: other, N: 1, Want: 1, Lock: "a", InFlight: 1})
	require.Empty(t, got.All)
	require.Equal(t, int64(1), got.Code)
	require.Empty(t, b.Receive(Receive{Receiver: worker, N: 2, Want: 1}).All)
	require.Equal(t, []string{"1"}, b.Members("d"))
	require.Empty(t, b.Members("g"))
}

// The head of a paused key is set aside when it is due, wherever it comes from,
// until the key is resumed. Other keys go on.
func TestTaskScriptsPausedKey(t *testing.T) {
	b := NewTasks(t, server)
	runsLonger(t)
	pause(b, "new")
	pause(b, "tried")
	pause(b, "cut")
	pause(b, "cut")
	require.Equal(t, []int64{0, 3, 0}, pausedIn(b))
	resume(b, "tried")
	resume(b, "cut")
	b.Enqueue("new", "n1", "n2")
	b.Enqueue("tried", "t1", "t2")
	b.Enqueue("cut", "c1")
	b.Enqueue("", "free")
	got := b.Receive(Receive{Receiver: worker, N: 1, Want: 9})
	require.Equal(t, []string{"t1", "c1", "free"}, got.IDs())
	require.Equal(t, int64(4), got.Code, "there may be more")
	require.Equal(t, []int64{0, 1, 3}, pausedIn(b))
	pause(b, "tried")
	pause(b, "cut")
	b.RequireSettled("n", "0", got.All[0])
	b.RequireSettled("a", "", got.All[2])
	b.EndLease("c1")
	require.Empty(t, b.Receive(Receive{Receiver: worker, N: 2, Want: 9, Lease: aMoment}).All)
	got = b.Receive(Receive{Receiver: worker, N: 3, Want: 9})
	require.Empty(t, got.All)
	require.Equal(t, int64(1), got.Code)
	require.Equal(t, int64(-1), got.Next, "nothing is due")
	require.Equal(t, []int64{0, 3, 5}, pausedIn(b))
	require.Empty(t, b.Members("d"))
	require.Empty(t, b.Members("s"))

	l := b.Listen("c9")
	b.Do("ZADD", b.Key("i"), b.Now(), "c9:1")
	resume(b, "none")
	require.Empty(t, l.Heard())
	for _, key := range []string{"cut", "tried", "new"} {
		resume(b, key)
		resume(b, key)
	}
	require.Len(t, l.Heard(), 1)
	require.Equal(t, []string{"n1", "t1"}, b.Members("d"))
	require.Equal(t, []string{"c1"}, b.Members("s"))
	require.Equal(t, []int64{0, 0, 2}, pausedIn(b))
	got = b.Receive(Receive{Receiver: worker, N: 4, Want: 9})
	require.Equal(t, []string{"n1", "t1", "c1"}, got.IDs())
	for i, attempt := range []string{"1", "2", "1~1"} {
		require.Equal(t, attempt, got.All[i].Attempt)
	}
}

// A receive that wants one task parks 64 heads of paused keys or more, if it
// finds no other task.
func TestTaskReceiveScriptParksMany(t *testing.T) {
	b := NewTasks(t, server)
	for i := range 130 {
		key := fmt.Sprint("k", i)
		b.Enqueue(key, "t"+key)
		b.Do("HSET", b.Key("v"), key, 1)
	}
	b.Enqueue("", "free")
	for n := 1; ; n++ {
		require.Less(t, n, 4)
		got := b.Receive(Receive{Receiver: worker, N: n, Want: 1})
		if len(got.All) > 0 {
			require.Equal(t, []string{"free"}, got.IDs())
			return
		}
		require.Equal(t, int64(4), got.Code)
	}
}

// What it reads beyond the size of an answer is bounded.
func TestTaskReceiveScriptParksLarge(t *testing.T) {
	b := NewTasks(t, server)
	for i := range 17 {
		key := fmt.Sprintf("k%03d", i)
		b.Enqueue(key, "t"+key)
		b.Do("HSET", b.Key("v"), key, 1)
		record, err := redis.String(b.Do("HGET", b.Key("p"), "t"+key), nil)
		require.NoError(t, err)
		if i > 0 {
			b.Do("HSET", b.Key("p"), "t"+key, record+strings.Repeat("x", 200))
		}
	}
	got := b.Receive(Receive{Receiver: worker, N: 1, Want: 1, Bytes: 1000})
	require.Empty(t, got.All)
	require.Len(t, b.Members("b"), 9, "one, and a part of 8")
}

// What is set aside can be removed. The next one of its key follows it.
func TestTaskScriptsRemovedOfPausedKey(t *testing.T) {
	b := NewTasks(t, server)
	pause(b, "k")
	b.Enqueue("k", "1", "2", "3")
	receive := func(n int) { require.Empty(t, b.Receive(Receive{Receiver: worker, N: n, Want: 1}).All) }
	receive(1)
	require.Equal(t, []int64{1}, b.Ints(script.TaskRemove, "1"))
	require.Empty(t, b.Members("b"))
	require.Equal(t, []string{"2"}, b.Members("d"))
	receive(2)
	b.Enqueue("", "1")
	require.Equal(t, []int64{1}, b.Ints(script.TaskRemove, "3"))
	resume(b, "k")
	require.Equal(t, []string{"2", "1"}, b.Receive(Receive{Receiver: worker, N: 3, Want: 9}).IDs())
	require.Empty(t, b.Members("b"))
}

// A task of a paused key does not run under its lock either. No lock has the
// place of a key.
func TestTaskScriptsPausedKeyBehindLock(t *testing.T) {
	b := NewTasks(t, server)
	putBehind(b, 1, "a", "k", "1")
	putBehind(b, 2, "a", "free", "2")
	pause(b, "k")
	got := b.Receive(Receive{Receiver: other, N: 1, Want: 1, Lock: "a"})
	require.Equal(t, []string{"2"}, got.IDs())
	require.Len(t, b.Members("b"), 1)
	for i, lock := range []string{"k", "k001k", "\x00k"} {
		require.Empty(t, b.Receive(Receive{Receiver: other, N: 2 + i, Want: 1, Lock: lock}).All)
	}
	require.Equal(t, []int64{0}, b.Ints(script.TaskGate, 0, "k"))
	resume(b, "k")
	require.Equal(t, []string{"1"}, b.Members("d"))
}

// Large tasks that are set aside are not all read by one receive.
func TestTaskScriptsLargeOfPausedKeys(t *testing.T) {
	t.Parallel()
	b := NewTasks(t, redistest.Start(t))
	b.Damaged = true // to check it would be to read it
	for i := range 20 {
		key := fmt.Sprint("k", 10+i)
		pause(b, key)
		b.Ints(script.TaskEnqueue, Nonce(0), 0, fmt.Sprint(i), 0, "000003"+key+strings.Repeat("x", 1<<20))
	}
	got := b.Receive(Receive{Receiver: worker, N: 1, Want: 64})
	require.Equal(t, int64(4), got.Code)
	require.Len(t, b.Members("b"), 8, "a part of 8")
	for n := 2; len(b.Members("d")) > 0; n++ {
		require.Empty(t, b.Receive(Receive{Receiver: worker, N: n, Want: 64}).All)
	}
	b.Flush()
	for i := range 20 {
		b.Ints(script.TaskEnqueue, Nonce(0), 0, fmt.Sprint(i), 0,
			fmt.Sprint("000003k", 10+i)+strings.Repeat("x", 1<<20))
	}
	for n := 1; len(b.Members("b")) < 20; n++ {
		b.RequireSettled("b", "60000 a", b.Receive(Receive{Receiver: worker, N: n, Want: 20}).All...)
	}
	for i := range 20 {
		pause(b, fmt.Sprint("k", 10+i))
	}
	got = b.Receive(Receive{Receiver: other, N: 1, Want: 1, Lock: "a"})
	require.Equal(t, int64(4), got.Code)
	got = b.Receive(Receive{Receiver: other, N: 2, Want: 1, Lock: "b"})
	require.Equal(t, int64(1), got.Code)
	aside := 0
	for _, entry := range b.Members("b") {
		if entry[0] == 'k' {
			aside++
		}
	}
	require.Equal(t, 4, aside, "above 4 MiB")
}

// What others have left behind a pause is dropped, a part each time, and then
// the key is resumed.
func TestTaskPauseScriptOldPlaces(t *testing.T) {
	b := NewTasks(t, server)
	b.Damaged = true
	pause(b, "k")
	for i := range 65 {
		b.Do("ZADD", b.Key("b"), 0, fmt.Sprintf("k001k17000000000000%02d%d", i, i))
	}
	require.Equal(t, []int64{4}, b.Ints(script.TaskPause, 0, "k"))
	require.Len(t, b.Members("b"), 1)
	require.Equal(t, []int64{0, 1}, pausedIn(b)[:2])
	resume(b, "k")
	require.Equal(t, []int64{0, 0}, pausedIn(b)[:2])
	require.Empty(t, b.Members("b"))
}

// A task of a paused key whose attempts others have damaged is not lost.
func TestTaskScriptsDamagedOfPausedKey(t *testing.T) {
	b := NewTasks(t, server)
	b.Enqueue("k", "1")
	b.Do("HSET", b.Key("m"), "1", "x")
	pause(b, "k")
	require.Empty(t, b.Receive(Receive{Receiver: worker, N: 1, Want: 1}).All)
	require.Len(t, b.Members("b"), 1)
	resume(b, "k")
	got := b.Receive(Receive{Receiver: worker, N: 2, Want: 1})
	require.Equal(t, []string{"1"}, got.IDs())
	require.Equal(t, "1", got.All[0].Attempt)
}

// A receive that was not answered while a key was paused is undone as any.
func TestTaskReceiveScriptUndoesPaused(t *testing.T) {
	b := NewTasks(t, server)
	b.Enqueue("k", "1")
	b.Enqueue("", "2")
	pause(b, "other")
	require.Len(t, b.Receive(Receive{Receiver: worker, N: 1, Want: 2}).All, 2)
	pause(b, "k")
	require.Len(t, b.Receive(Receive{Receiver: worker, N: 1, Want: 2}).All, 2, "a copy")
	got := b.Receive(Receive{Receiver: worker, N: 2, Want: 2, Undo: true})
	require.Equal(t, []string{"2"}, got.IDs())
	require.Equal(t, []int64{0, 2, 1}, pausedIn(b))
}

func TestTaskPauseScriptArguments(t *testing.T) {
	b := NewTasks(t, server)
	for _, args := range [][]any{
		{},
		{1},
		{2, "k"},
		{"", "k"},
		{1, "k", "more"},
		{1, "a\x00"},
		{1, strings.Repeat("k", 1000)},
	} {
		_, err := b.Try(script.TaskPause, "", args...)
		require.ErrorContains(t, err, "task_pause: bad arguments", "%q", args)
	}
	require.Empty(t, b.Do("KEYS", b.Q+"*"))
}

// A receive of a queue without pauses, suspects, promises and delayed tasks of
// keys pays one command for that.
func TestTaskReceiveScriptLooksForPausesOnce(t *testing.T) {
	b := NewTasks(t, redistest.Start(t))
	b.Enqueue("k", "1")
	b.Enqueue("l", "2")
	b.Damaged = true // to check it would count
	b.Do("CONFIG", "RESETSTAT")
	require.Len(t, b.Receive(Receive{Receiver: worker, N: 1, Want: 9}).All, 2)
	info, err := redis.String(b.Do("INFO", "commandstats"), nil)
	require.NoError(t, err)
	require.Equal(t, 1, redistest.CallsIn(t, info, "exists"))
	require.Equal(t, 0, redistest.CallsIn(t, info, "hlen"))
	require.Equal(t, 2, redistest.CallsIn(t, info, "hmget"), "the records, and the attempts")
	require.Equal(t, 0, redistest.CallsIn(t, info, "hget"))
}
