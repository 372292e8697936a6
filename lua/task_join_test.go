package lua_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/testkit"
)

// A delayed task joins its key when it is due: as the head, or behind it.
func TestTaskReceiveScriptJoinsKey(t *testing.T) {
	b := NewTasks(t, server)
	b.EnqueueIn(10*time.Millisecond, "k", "1")
	b.EnqueueIn(11*time.Millisecond, "k", "2")
	b.EnqueueIn(time.Millisecond, "k2", "x")
	b.Enqueue("k2", "head")
	testkit.Eventually(t, testkit.Patience, func() bool { return b.Now() > b.Score("w", "2") }, "all are due")
	got := b.Receive(Receive{Receiver: worker, N: 1, Want: 5})
	require.ElementsMatch(t, []string{"head", "1"}, got.IDs())
	require.Equal(t, int64(1), got.Code, "no other may run")
	require.Len(t, b.Behind(), 2)
	got2 := b.Receive(Receive{Receiver: worker, N: 2, Want: 5})
	require.Empty(t, got2.All)
	require.Equal(t, int64(1), got2.Code)
	b.RequireSettled("a", "", got.All[0], got.All[1])
	require.ElementsMatch(t, []string{"2", "x"}, b.Receive(Receive{Receiver: worker, N: 3, Want: 5}).IDs())
}

// The delayed tasks of a key that is blocked take no place among those that may
// run. They join their key in parts, whatever the receiver wants.
func TestTaskReceiveScriptJoinsInParts(t *testing.T) {
	b := NewTasks(t, server)
	taken(b, "k", 1, "head")
	b.EnqueueIn(time.Hour, "k", numbered(64)...)
	b.EnqueueIn(2*time.Hour, "k", "last")
	b.EnqueueIn(2*time.Hour, "new", "leads")
	b.Enqueue("", "free")
	for _, id := range b.Members("w") {
		b.Do("ZADD", b.Key("w"), "XX", b.Score("w", id)-2*time.Hour.Microseconds(), id) // due, in the same order
	}
	got := b.Receive(Receive{Receiver: other, N: 1, Want: 1})
	require.Equal(t, []string{"free"}, got.IDs())
	require.Equal(t, int64(4), got.Code)
	require.Equal(t, []string{"last", "leads"}, b.Members("w"))
	got = b.Receive(Receive{Receiver: other, N: 2, Want: 1})
	require.Equal(t, []string{"leads"}, got.IDs())
	require.Equal(t, int64(1), got.Code)
	require.Equal(t, append(numbered(64), "last"), b.BehindTask("head"))
}

// numbered returns ids in their order.
func numbered(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprintf("%02d", i))
	}
	return ids
}

// What joins its key in one receive is bounded by its size, too. What others
// have deleted or damaged stops nothing.
func TestTaskReceiveScriptJoinsLargeOnes(t *testing.T) {
	b := NewTasks(t, server)
	b.EnqueueIn(time.Hour, "k", numbered(20)...)
	for _, id := range numbered(20) {
		b.Do("ZADD", b.Key("w"), "XX", 1, id)
		record, _ := b.Do("HGET", b.Key("p"), id).([]byte)
		b.Do("HSET", b.Key("p"), id, string(record)+strings.Repeat("x", 600<<10))
	}
	got := b.Receive(Receive{Receiver: worker, N: 1, Want: 1})
	require.Equal(t, []string{"00"}, got.IDs())
	require.Equal(t, int64(4), got.Code)
	require.Len(t, b.Members("w"), 12)

	b.Flush()
	b.EnqueueIn(time.Hour, "k", "damaged", "deleted")
	b.Damaged = true
	b.Do("HSET", b.Key("p"), "damaged", "x")
	b.Do("HDEL", b.Key("p"), "deleted")
	for _, id := range b.Members("w") {
		b.Do("ZADD", b.Key("w"), "XX", 1, id)
	}
	got = b.Receive(Receive{Receiver: worker, N: 2, Want: 5})
	require.Equal(t, []string{"damaged"}, got.IDs())
	require.Equal(t, "x", got.All[0].Record)
	require.Empty(t, b.Members("w"))
}
