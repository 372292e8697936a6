package lua_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// A renewal lengthens a lease, and never shortens it.
func TestTaskRenewScript(t *testing.T) {
	b := scripttest.NewTasks(t, server)
	d := taken(b, "", 1, "a")[0]
	require.Equal(t, []int64{1}, b.Ints(script.TaskRenew, "a", d.Fence, 120_000))
	require.InDelta(t, b.Now()+120_000_000, b.Score("l", "a"), slack)
	require.Equal(t, []int64{1}, b.Ints(script.TaskRenew, "a", d.Fence, 1000))
	require.InDelta(t, b.Now()+120_000_000, b.Score("l", "a"), slack)
	require.Equal(t, []int64{0}, b.Ints(script.TaskRenew, "a", d.Fence+1, 1000))
	require.Equal(t, []int64{0}, b.Ints(script.TaskRenew, "none", d.Fence, 1000))
	b.EndLease("a")
	require.Equal(t, []int64{0}, b.Ints(script.TaskRenew, "a", d.Fence, 1000), "it has ended")
}

// A task is removed wherever it is, except in flight. The next of its key is
// due.
func TestTaskRemoveScript(t *testing.T) {
	b := scripttest.NewTasks(t, server)
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
	d := b.Receive(scripttest.Receive{Receiver: worker, N: 1, Want: 1}).All[0]
	require.Equal(t, int64(2), remove("3"), "in flight")
	b.RequireSettled("d", "why", d)
	require.Equal(t, int64(1), remove("3"), "a dead letter")
	require.Empty(t, b.Members("z"))
	require.Empty(t, b.Do("HKEYS", b.Key("m")))
	b.Enqueue("k", "1", "2", "3", "4")
	b.Do("HDEL", b.Key("p"), "3")
	b.Damaged = true
	require.Equal(t, int64(1), remove("2"), "before one that others have deleted")
	require.Equal(t, []string{"3", "4"}, b.BehindTask("1"))
}

func TestTaskStatsScript(t *testing.T) {
	b := scripttest.NewTasks(t, server)
	require.Equal(t, []int64{0, 0, 0, 0, 0, 0, 0}, b.Ints(script.TaskStats))
	d := taken(b, "", 2, "a", "b")
	b.RequireSettled("d", "why", d[0])
	b.Enqueue("k", "1", "2", "3")
	b.Enqueue("", "c")
	b.EnqueueIn(time.Minute, "", "x", "y", "z")
	b.Do("ZADD", b.Key("d"), "XX", b.Now()-500_000_000, "c")
	b.Do("ZADD", b.Key("i"), b.Now(), worker, b.Now()-3_000_000, other)
	got := b.Ints(script.TaskStats)
	require.Equal(t, []int64{2, 3, 1, 2, 1, 1}, got[:6])
	require.InDelta(t, 500_000_000, got[6], slack)
}

// Dead letters are listed page by page.
func TestTaskDeadScript(t *testing.T) {
	b := scripttest.NewTasks(t, server)
	for _, d := range taken(b, "", 3, "a", "b", "c") {
		b.RequireSettled("d", "why "+d.ID, d)
	}
	page := func(after string, most int) []string {
		all, err := redis.Strings(b.Try(script.TaskDead, "", after, most))
		require.NoError(t, err)
		return all
	}
	all := page("0", 2)
	require.Len(t, all, 8)
	require.Equal(t, "a", all[0])
	require.Equal(t, fmt.Sprint(b.Score("z", "a")), all[1])
	require.True(t, strings.HasSuffix(all[2], " \x00why a"))
	require.True(t, strings.HasSuffix(all[3], scripttest.Body("")))
	require.Equal(t, "b", all[4])
	require.Equal(t, "c", page(all[5], 2)[0])
	require.Empty(t, page(page(all[5], 2)[1], 2))

	b.Flush()
	for i := range 6 {
		b.Ints(script.TaskEnqueue, scripttest.Nonce(0), 0, fmt.Sprint(i), 0, "000000"+strings.Repeat("x", 1<<20))
	}
	for n := range 2 {
		b.RequireSettled("d", "", b.Receive(scripttest.Receive{Receiver: worker, N: n + 1, Want: 3}).All...)
	}
	require.Len(t, page("0", 64), 3*4, "4 MiB")
	b.Do("HSET", b.Key("p"), "0", strings.Repeat("x", 5<<20))
	require.Len(t, page("0", 64), 4, "at least one")
}

// A dead letter that is queued once more is like a new task.
func TestTaskRequeueScript(t *testing.T) {
	b := scripttest.NewTasks(t, server)
	l := b.Listen("c2")
	d := taken(b, "k", 1, "a", "b")[0]
	b.RequireSettled("d", "why", d)
	free := b.Receive(scripttest.Receive{Receiver: "c3:1", N: 1, Want: 1}).All[0]
	require.Equal(t, "b", free.ID)
	b.Do("ZADD", b.Key("i"), b.Now(), other)
	require.Equal(t, []int64{1}, b.Ints(script.TaskRequeue, "a", "b", "none"))
	require.Empty(t, b.Members("d"), "behind its key")
	require.Empty(t, l.Heard())
	require.Equal(t, []int64{0}, b.Ints(script.TaskRequeue, "a"), "a copy")
	b.RequireSettled("d", "why", free)
	require.Len(t, l.Heard(), 1)
	again := b.Receive(scripttest.Receive{Receiver: "c3:1", N: 2, Want: 1}).All[0]
	require.Equal(t, "a", again.ID)
	require.Equal(t, int64(1), again.Attempt)
	require.Equal(t, d.Record[:8], again.Record[:8])
	require.Greater(t, again.Record[8:24], d.Record[8:24])
	require.Equal(t, "001b"+d.Record[27:], again.Record[24:], "it was behind b")
	b.RequireSettled("a", "", again)

	b.Do("ZADD", b.Key("i"), b.Now(), other)
	require.Equal(t, []int64{1}, b.Ints(script.TaskRequeue, "b"))
	require.Len(t, l.Heard(), 1)
	require.Equal(t, []byte("b"), b.Do("HGET", b.Key("k"), "k"), "the head")
	k := taken(b, "", 2, "free")
	b.RequireSettled("d", "", k[1])
	require.Equal(t, []int64{1}, b.Ints(script.TaskRequeue, "free"))
	require.Equal(t, []string{"free"}, b.Members("d"))
}
