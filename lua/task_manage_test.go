package lua_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
)

// A renewal lengthens a lease, and never shortens it.
func TestTaskRenewScript(t *testing.T) {
	b := NewTasks(t, server)
	d := taken(b, "", 1, "a")[0]
	require.Equal(t, []int64{1}, b.Ints(script.TaskRenew, "a", d.Name(), 120_000))
	require.InDelta(t, b.Now()+120_000_000, b.Score("l", "a"), slack)
	require.Equal(t, []int64{1}, b.Ints(script.TaskRenew, "a", d.Name(), 1000))
	require.InDelta(t, b.Now()+120_000_000, b.Score("l", "a"), slack)
	require.Equal(t, []int64{0}, b.Ints(script.TaskRenew, "a", fmt.Sprintf("%d@%s", d.Fence+1, Token), 1000))
	require.Equal(t, []int64{0}, b.Ints(script.TaskRenew, "none", d.Name(), 1000))
	b.EndLease("a")
	require.Equal(t, []int64{0}, b.Ints(script.TaskRenew, "a", d.Name(), 1000), "it has ended")
}

// A task is removed wherever it is, except in flight. The next of its key is
// due.
func TestTaskRemoveScript(t *testing.T) {
	b := NewTasks(t, server)
	l := b.Listen("c2")
	remove := func(id string) int64 { return b.Ints(script.TaskRemove, id)[0] }
	b.Enqueue("k", "1", "2", "3")
	b.EnqueueIn(time.Minute, "k", "late")
	b.Enqueue("", "free")
	b.Enqueue("k", "4", "5")
	require.Equal(t, int64(1), remove("2"), "behind its key")
	require.Equal(t, int64(1), remove("5"), "the last one")
	b.Enqueue("k", "6")
	require.Equal(t, []string{"3", "4", "6"}, b.BehindTask("1"))
	for _, id := range []string{"6", "4"} {
		require.Equal(t, int64(1), remove(id))
	}
	b.Do("ZADD", b.Key("i"), b.Now(), other)
	require.Equal(t, int64(1), remove("1"), "the head")
	require.Len(t, l.Heard(), 1)
	require.Equal(t, int64(1), remove("free"))
	b.Enqueue("k2", "single")
	require.Equal(t, int64(1), remove("single"))
	require.Nil(t, b.Do("HGET", b.Key("k"), "k2"))
	require.Equal(t, int64(1), remove("late"))
	require.Equal(t, int64(0), remove("late"))
	require.Equal(t, []string{"3"}, b.Members("d"))
	d := b.Receive(Receive{Receiver: worker, N: 1, Want: 1}).All[0]
	require.Equal(t, int64(2), remove("3"), "in flight")
	b.RequireSettled("d", "why", d)
	require.Equal(t, int64(1), remove("3"), "a dead letter")
	b.Enqueue("", "ended")
	require.Equal(t, []string{"ended"}, b.Receive(Receive{Receiver: worker, N: 2, Want: 1}).IDs())
	b.EndLease("ended")
	require.Equal(t, int64(1), remove("ended"), "its lease has ended")
	require.Empty(t, b.Members("z"))
	require.Empty(t, b.Do("HKEYS", b.Key("m")))
	b.Enqueue("k", "1", "2", "3", "4")
	b.Do("HDEL", b.Key("p"), "3")
	b.Damaged = true
	require.Equal(t, int64(1), remove("2"), "before one that others have deleted")
	require.Equal(t, []string{"3", "4"}, b.BehindTask("1"))
}

func TestTaskStatsScript(t *testing.T) {
	b := NewTasks(t, server)
	stats := func(letters int, age time.Duration) []int64 {
		t.Helper()
		return b.Ints(script.TaskStats, letters, age.Milliseconds())
	}
	require.Equal(t, []int64{0, 0, 0, 0, 0, 0, 0, 0, 0}, stats(10, time.Hour))
	d := taken(b, "", 2, "a", "b")
	b.RequireSettled("d", "why", d[0])
	b.Enqueue("k", "1", "2", "3")
	b.Enqueue("", "c")
	b.EnqueueIn(time.Minute, "", "x", "y", "z")
	b.Do("ZADD", b.Key("d"), "XX", b.Now()-500_000_000, "c")
	b.Do("ZADD", b.Key("i"), b.Now(), worker, b.Now()-3_000_000, other)
	got := stats(10, time.Hour)
	require.Equal(t, []int64{2, 3, 1, 2, 1, 1}, got[:6])
	require.InDelta(t, 500_000_000, got[6], slack)
	b.EnqueueIn(time.Hour, "k", "late", "later")
	b.Do("ZADD", b.Key("w"), "XX", b.Now()-900_000_000, "late")
	got = stats(10, time.Hour)
	require.Equal(t, []int64{3, 4, 1, 2, 1, 1}, got[:6])
	require.InDelta(t, 900_000_000, got[6], slack)
	require.Equal(t, int64(0), stats(0, time.Hour)[4], "none is kept")
	b.RequireSettled("d", "why", d[1])
	require.Equal(t, int64(2), stats(2, time.Hour)[4])
	require.Equal(t, int64(1), stats(1, time.Hour)[4], "the newest is kept")
	b.Do("ZADD", b.Key("z"), "XX", b.Now()-3601_000_000, "a")
	got = stats(10, time.Hour)
	require.Equal(t, []int64{3, 4, 0, 2, 1}, got[:5], "too old")
}

// A receiver that waits deletes what is no longer kept, a part each time.
func TestTaskReceiveScriptTrims(t *testing.T) {
	b := NewTasks(t, server)
	const n = 130
	for i := range n {
		b.Do("ZADD", b.Key("u"), i, fmt.Sprint("done ", i))
	}
	b.Do("ZADD", b.Key("u"), b.Now()+60_000_000, "refused")
	d := taken(b, "", 3, "a", "b", "c")
	b.RequireSettled("d", "why", d...)
	receive := func(n, heartbeat, letters int, age time.Duration) {
		b.Receive(Receive{Receiver: other, N: n, Want: 1, Heartbeat: heartbeat, Letters: letters, Age: age})
	}
	receive(1, 0, 1, time.Hour)
	require.Len(t, b.Members("z"), 3)
	require.Len(t, b.Members("u"), n+1)
	receive(2, 1, 2, time.Hour)
	require.Equal(t, []string{"b", "c"}, b.Members("z"))
	require.Nil(t, b.Do("HGET", b.Key("p"), "a"))
	require.Nil(t, b.Do("HGET", b.Key("m"), "a"))
	require.Len(t, b.Members("u"), 3)
	b.Do("ZADD", b.Key("z"), "XX", b.Now()-3601_000_000, "b")
	receive(3, 1, 10, time.Hour)
	require.Equal(t, []string{"c"}, b.Members("z"))
	require.Equal(t, []string{"refused"}, b.Members("u"))
}

// Dead letters are listed page by page.
func TestTaskDeadScript(t *testing.T) {
	b := NewTasks(t, server)
	for _, d := range taken(b, "", 3, "a", "b", "c") {
		b.RequireSettled("d", "why "+d.ID, d)
	}
	letters, bytes := 10, 4<<20
	page := func(after string, most int) []string {
		all, err := redis.Strings(b.Try(script.TaskDead, "", after, most, letters, time.Hour.Milliseconds(), bytes))
		require.NoError(t, err)
		return all
	}
	all := page("0", 2)
	require.Len(t, all, 8)
	require.Equal(t, "a", all[0])
	require.Equal(t, fmt.Sprint(b.Score("z", "a")), all[1])
	require.True(t, strings.HasSuffix(all[2], " \x00why a"))
	require.True(t, strings.HasSuffix(all[3], Body("")))
	require.Equal(t, "b", all[4])
	require.Equal(t, "c", page(all[5], 2)[0])
	require.Empty(t, page(page(all[5], 2)[1], 2))
	letters = 2
	require.Equal(t, "b", page("0", 1)[0], "the newest two are kept")
	require.Equal(t, "c", page(all[5], 2)[0])
	letters = 0
	require.Empty(t, page("0", 1))
	letters = 10
	b.Do("ZADD", b.Key("z"), "XX", b.Now()-3601_000_000, "a")
	require.Equal(t, "b", page("0", 1)[0], "a is too old")

	b.Flush()
	for i := range 6 {
		b.Ints(script.TaskEnqueue, Nonce(0), 0, fmt.Sprint(i), 0, "000000"+strings.Repeat("x", 1<<20))
	}
	for n := range 2 {
		b.RequireSettled("d", "", b.Receive(Receive{Receiver: worker, N: n + 1, Want: 3}).All...)
	}
	require.Len(t, page("0", 64), 3*4, "4 MiB")
	bytes = 3 << 20
	require.Len(t, page("0", 64), 2*4, "less")
	b.Do("HSET", b.Key("p"), "0", strings.Repeat("x", 5<<20))
	require.Len(t, page("0", 64), 4, "at least one")
}

// A dead letter that is queued once more is like a new task.
func TestTaskRequeueScript(t *testing.T) {
	b := NewTasks(t, server)
	l := b.Listen("c2")
	d := taken(b, "k", 1, "a", "b")[0]
	b.RequireSettled("d", "why", d)
	free := b.Receive(Receive{Receiver: "c3:1", N: 1, Want: 1}).All[0]
	require.Equal(t, "b", free.ID)
	b.Do("ZADD", b.Key("i"), b.Now(), other)
	require.Equal(t, []int64{1, 3}, b.Ints(script.TaskRequeue, "a", "b", "none"))
	require.Empty(t, b.Members("d"), "behind its key")
	require.Empty(t, l.Heard())
	require.Equal(t, []int64{0, 1}, b.Ints(script.TaskRequeue, "a"), "a copy")
	b.RequireSettled("d", "why", free)
	require.Len(t, l.Heard(), 1)
	again := b.Receive(Receive{Receiver: "c3:1", N: 2, Want: 1}).All[0]
	require.Equal(t, "a", again.ID)
	require.Equal(t, "1", again.Attempt)
	require.Equal(t, d.Record[:8], again.Record[:8])
	require.Greater(t, again.Record[8:24], d.Record[8:24])
	require.Equal(t, "001b"+d.Record[27:], again.Record[24:], "it was behind b")
	b.RequireSettled("a", "", again)

	b.Do("ZADD", b.Key("i"), b.Now(), other)
	require.Equal(t, []int64{1, 1}, b.Ints(script.TaskRequeue, "b"))
	require.Len(t, l.Heard(), 1)
	require.Equal(t, []byte("b"), b.Do("HGET", b.Key("k"), "k"), "the head")
	k := taken(b, "", 2, "free")
	b.RequireSettled("d", "", k[1])
	require.Equal(t, []int64{1, 1}, b.Ints(script.TaskRequeue, "free"))
	require.Equal(t, []string{"free"}, b.Members("d"))
}

// Dead letters are queued once more by the time of their death, 64 at a time.
func TestTaskRequeueDiedScript(t *testing.T) {
	b := NewTasks(t, server)
	requeue := func(from, below int64, letters int) []int64 {
		t.Helper()
		return b.Ints(script.TaskRequeueDied, from, below, letters, time.Hour.Milliseconds())
	}
	b.RequireSettled("d", "why", taken(b, "", 3, "a", "b", "c")...)
	b.Do("ZADD", b.Key("z"), "XX", b.Now()-3601_000_000, "a")
	last := b.Score("z", "c")
	first := b.Score("z", "b")
	got := requeue(first, last, 10)
	require.Equal(t, []int64{1, 0, first}, got[:3])
	require.Greater(t, got[3], last)
	require.Equal(t, []string{"b"}, b.Members("d"))
	require.Nil(t, b.Do("HGET", b.Key("m"), "b"), "as if it was new")
	got = requeue(0, last, 10)
	require.Equal(t, []int64{0, 0}, got[:2], "a is too old")
	require.Greater(t, got[2], b.Score("z", "a"))
	require.Equal(t, []int64{0, 0, 1 << 53}, requeue(0, 1<<53, 0)[:3], "none is kept")
	l := b.Listen("c2")
	b.Do("ZADD", b.Key("i"), b.Now(), other)
	require.Equal(t, []int64{1, 0}, requeue(0, 1<<53, 10)[:2])
	require.Len(t, l.Heard(), 1)

	b.Flush()
	b.Damaged = true
	for i := range 65 {
		b.Do("ZADD", b.Key("z"), b.Now()-int64(100-i), fmt.Sprint(i)) // without records
	}
	require.Equal(t, []int64{0, 1}, requeue(0, 1<<53, 100)[:2])
	require.Equal(t, []string{"64"}, b.Members("z"))
}

// Large dead letters are queued once more in several scripts, as each takes a
// server its time.
func TestTaskRequeueScriptsLarge(t *testing.T) {
	for name, requeue := range map[string]func(b *Tasks) []int64{
		"by id":   func(b *Tasks) []int64 { return b.Ints(script.TaskRequeue, "a", "b", "c") },
		"by time": func(b *Tasks) []int64 { return b.Ints(script.TaskRequeueDied, 0, 1<<53, 10, 3600_000)[:2] },
	} {
		t.Run(name, func(t *testing.T) {
			b := NewTasks(t, server)
			b.RequireSettled("d", "why", taken(b, "", 3, "a", "b", "c")...)
			for _, id := range []string{"a", "b", "c"} {
				record, err := redis.String(b.Do("HGET", b.Key("p"), id), nil)
				require.NoError(t, err)
				b.Do("HSET", b.Key("p"), id, record+strings.Repeat("x", 400<<10))
			}
			got := requeue(b)
			require.Equal(t, int64(2), got[0])
			require.NotZero(t, got[1], "how many it has looked at, or that there are more")
			require.Equal(t, []string{"c"}, b.Members("z"))
		})
	}
}
