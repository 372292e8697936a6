package lua_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
)

// The ticket of a newcomer is above all that were given, and a place that is
// put back is the old one.
func TestRWScriptTickets(t *testing.T) {
	s := redistest.Shared(t)
	b := scripttest.NewReadWrite(t, s)
	holder := scripttest.RWWaitNamed("c9", 1, "wf")
	require.Equal(t, "1", b.Code(holder.Try()))
	ahead := b.Now() + 3600_000_000
	b.Do("HSET", b.BeatsKey(), "t", ahead)
	b.Do("PEXPIRE", b.BeatsKey(), 60_000)
	answer := b.Ask(scripttest.RWWaitNamed("c1", 1, "sf").Enqueue())
	require.Equal(t, []string{"0", fmt.Sprint(ahead + 1)}, answer[:2])
	require.Equal(t, "0", answer[3])
	b.Do("HSET", b.BeatsKey(), "t", 5)
	answer = b.Ask(scripttest.RWWaitNamed("c2", 1, "sf").Enqueue())
	require.InDelta(t, b.Now(), float64(number(t, answer[1])), 5e6)
	require.Equal(t, "1", answer[3])
	again := b.Ask(scripttest.RWWaitNamed("c2", 1, "sf").EnqueueAgain("3"))
	require.Equal(t, answer[1], again[1], "it keeps its place")
	require.Equal(t, "7", b.Ask(scripttest.RWWaitNamed("c3", 1, "sf").EnqueueAgain("7"))[1])
	b.RequireQueue("by their tickets", scripttest.RWWaitNamed("c3", 1, "sf"), scripttest.RWWaitNamed("c2", 1, "sf"), scripttest.RWWaitNamed("c1", 1, "sf"))
}

// A poll names those waits of its client that may have the lock, puts back what
// was taken out, and tells of one that was not listed and that is the first:
// its client may have forgotten it.
func TestRWScriptPoll(t *testing.T) {
	s := redistest.Shared(t)
	x, y, w := scripttest.RWWaitNamed("c1", 1, "sf"), scripttest.RWWaitNamed("c1", 2, "sf"), scripttest.RWWaitNamed("c1", 3, "wf")
	other := scripttest.RWWaitNamed("c9", 1, "sf")
	name := func(w scripttest.RWWait) string { return string(w.Wait) }
	for _, tt := range []struct {
		name   string
		set    func(b *scripttest.ReadWrite)
		listed []any
		code   string
		named  []scripttest.RWWait
		lock   []string
		queue  []scripttest.RWWait
	}{
		{"nothing", func(*scripttest.ReadWrite) {}, nil, "1", nil, nil, nil},
		{"puts back, and hands over", func(*scripttest.ReadWrite) {}, []any{name(x), 5, name(y), 6, name(w), 7}, "1", []scripttest.RWWait{x, y}, []string{x.Reserved(), y.Reserved()}, []scripttest.RWWait{w}},
		{"reserved before", func(b *scripttest.ReadWrite) { b.Put("f", scripttest.Lease, x.Reserved(), y.Reserved()) }, []any{name(x), 5, name(y), 6}, "1", []scripttest.RWWait{x, y}, []string{x.Reserved(), y.Reserved()}, nil},
		{"held", func(b *scripttest.ReadWrite) { b.Put("f", scripttest.Lease, x.Reads()) }, []any{name(x), 5}, "1", []scripttest.RWWait{x}, []string{x.Reads()}, nil},
		{"reserved for it, not listed", func(b *scripttest.ReadWrite) { b.Put("f", scripttest.Lease, x.Reserved()) }, nil, "1", nil, []string{x.Reserved()}, nil},
		{"reserved before, ended", func(b *scripttest.ReadWrite) {
			b.Put("f", -time.Second, x.Reserved())
			b.Put("f", scripttest.Lease, other.Reads())
		}, []any{name(w), 5, name(x), 6}, "1", nil, []string{other.Reads(), x.Reserved()}, []scripttest.RWWait{w, x}},
		{"of others", func(b *scripttest.ReadWrite) { b.Put("f", scripttest.Lease, other.Reads()) }, []any{name(w), 5}, "1", nil, []string{other.Reads()}, []scripttest.RWWait{w}},
		{"the first, not listed", func(b *scripttest.ReadWrite) {
			b.Put("f", scripttest.Lease, other.Reads())
			b.Stand(time.Minute, w, x)
		}, []any{name(x), 5}, "1", []scripttest.RWWait{w}, []string{other.Reads()}, []scripttest.RWWait{w, x}},
		{"the first, listed", func(b *scripttest.ReadWrite) {
			b.Put("f", scripttest.Lease, other.Reads())
			b.Stand(time.Minute, w, x)
		}, []any{name(x), 5, name(w), 5}, "1", nil, []string{other.Reads()}, []scripttest.RWWait{w, x}},
		{"the first is another's", func(b *scripttest.ReadWrite) {
			b.Put("f", scripttest.Lease, scripttest.RWWaitNamed("c8", 1, "wf").Writes())
			b.Stand(time.Minute, other, x)
		}, nil, "1", nil, []string{scripttest.RWWaitNamed("c8", 1, "wf").Writes()}, []scripttest.RWWait{other, x}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := scripttest.NewReadWrite(t, s)
			tt.set(b)
			answer := b.Ask(scripttest.RWPollAs("c1", tt.listed...))
			require.Equal(t, []string{tt.code, ""}, answer[:2])
			require.Equal(t, "0", answer[3])
			want := []string{}
			for _, w := range tt.named {
				want = append(want, name(w))
			}
			require.Equal(t, want, answer[4:])
			require.Equal(t, tt.lock == nil, number(t, answer[2]) < 0)
			b.RequireWhole()
			require.ElementsMatch(t, tt.lock, b.Lock())
			b.RequireQueue("", tt.queue...)
		})
	}
	t.Run("not to all who read at once", func(t *testing.T) {
		b := scripttest.NewReadWrite(t, s)
		b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}})
		b.Stand(time.Minute, scripttest.ReadersFrom(1, 20)...)
		require.Len(t, b.Ask(scripttest.RWPollAs("c1"))[4:], 16+1, "and the first of the others, which it has not listed")
		require.Len(t, b.Lock(), 16)
		require.Equal(t, "1", b.Code(scripttest.RWWaitNamed("c1", 1, "sf").Claim()))
		require.Len(t, b.Lock(), 20)
	})
	t.Run("tickets that are put back raise the last one", func(t *testing.T) {
		b := scripttest.NewReadWrite(t, s)
		b.Put("f", scripttest.Lease, other.Reads())
		ahead := b.Now() + 3600_000_000
		b.Ask(scripttest.RWPollAs("c1", name(w), ahead))
		require.Equal(t, fmt.Sprint(ahead), b.Field("t"))
		b.Do("DEL", b.QueueKey())
		b.Ask(scripttest.RWPollAs("c1", name(w), ahead+1))
		require.Equal(t, fmt.Sprint(ahead+1), b.Field("t"))
		ahead++
		b.Do("DEL", b.QueueKey())
		b.Ask(scripttest.RWPollAs("c1", name(w), 5))
		require.Equal(t, fmt.Sprint(ahead), b.Field("t"))
	})
	t.Run("beats of clients that have left go", func(t *testing.T) {
		b := scripttest.NewReadWrite(t, s)
		b.Put("f", scripttest.Lease, other.Reads())
		b.Until(func() bool {
			b.Show(map[string]scripttest.Beat{"left": {Age: 13 * scripttest.ScriptPeriod, Counted: 0}, "c7": {Age: 0, Counted: 0}})
			b.Stand(time.Minute, w)
			b.Ask(scripttest.RWPollAs("c1", name(w), 5))
			require.NotEmpty(t, b.Field("c7"))
			return b.Field("left") == ""
		}, "a beat goes")
	})
	t.Run("something else", func(t *testing.T) {
		b := scripttest.NewReadWrite(t, s)
		b.Do("SET", b.Key, "text", "PX", 20_000)
		require.Equal(t, "-1", b.Ask(scripttest.RWPollAs("c1", name(w), 5))[0])
		require.Empty(t, b.Waits())
	})
}
