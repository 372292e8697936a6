package relock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// The ticket of a newcomer is above all that were given, and a place that is put back is the old one.
func TestRWScriptTickets(t *testing.T) {
	s := redistest.Shared(t)
	b := newRWBench(t, s)
	holder := rwWaitNamed("c9", 1, "wf")
	require.Equal(t, "1", b.code(holder.try()))
	ahead := b.now() + 3600_000_000
	b.do("HSET", b.beats(), "t", ahead)
	b.do("PEXPIRE", b.beats(), 60_000)
	answer := b.ask(rwWaitNamed("c1", 1, "sf").enqueue())
	require.Equal(t, []string{"0", fmt.Sprint(ahead + 1)}, answer[:2])
	require.Equal(t, "0", answer[3])
	b.do("HSET", b.beats(), "t", 5)
	answer = b.ask(rwWaitNamed("c2", 1, "sf").enqueue())
	require.InDelta(t, b.now(), float64(number(t, answer[1])), 5e6)
	require.Equal(t, "1", answer[3])
	again := b.ask(rwWaitNamed("c2", 1, "sf").enqueueAgain("3"))
	require.Equal(t, answer[1], again[1], "it keeps its place")
	require.Equal(t, "7", b.ask(rwWaitNamed("c3", 1, "sf").enqueueAgain("7"))[1])
	b.requireQueue("by their tickets", rwWaitNamed("c3", 1, "sf"), rwWaitNamed("c2", 1, "sf"), rwWaitNamed("c1", 1, "sf"))
}

// A poll names those waits of its client that may have the lock, puts back what was taken out, and tells of one that was not listed and that
// is the first: its client may have forgotten it.
func TestRWScriptPoll(t *testing.T) {
	s := redistest.Shared(t)
	x, y, w := rwWaitNamed("c1", 1, "sf"), rwWaitNamed("c1", 2, "sf"), rwWaitNamed("c1", 3, "wf")
	other := rwWaitNamed("c9", 1, "sf")
	name := func(w rwWait) string { return string(w.scriptWait) }
	for _, tt := range []struct {
		name   string
		set    func(b *rwBench)
		listed []any
		code   string
		named  []rwWait
		lock   []string
		queue  []rwWait
	}{
		{"nothing", func(*rwBench) {}, nil, "1", nil, nil, nil},
		{"puts back, and hands over", func(*rwBench) {}, []any{name(x), 5, name(y), 6, name(w), 7}, "1", []rwWait{x, y}, []string{x.reserved(), y.reserved()}, []rwWait{w}},
		{"reserved before", func(b *rwBench) { b.put("f", scriptLease, x.reserved(), y.reserved()) }, []any{name(x), 5, name(y), 6}, "1", []rwWait{x, y}, []string{x.reserved(), y.reserved()}, nil},
		{"held", func(b *rwBench) { b.put("f", scriptLease, x.reads()) }, []any{name(x), 5}, "1", []rwWait{x}, []string{x.reads()}, nil},
		{"reserved for it, not listed", func(b *rwBench) { b.put("f", scriptLease, x.reserved()) }, nil, "1", nil, []string{x.reserved()}, nil},
		{"reserved before, ended", func(b *rwBench) {
			b.put("f", -time.Second, x.reserved())
			b.put("f", scriptLease, other.reads())
		}, []any{name(w), 5, name(x), 6}, "1", nil, []string{other.reads(), x.reserved()}, []rwWait{w, x}},
		{"of others", func(b *rwBench) { b.put("f", scriptLease, other.reads()) }, []any{name(w), 5}, "1", nil, []string{other.reads()}, []rwWait{w}},
		{"the first, not listed", func(b *rwBench) {
			b.put("f", scriptLease, other.reads())
			b.stand(time.Minute, w, x)
		}, []any{name(x), 5}, "1", []rwWait{w}, []string{other.reads()}, []rwWait{w, x}},
		{"the first, listed", func(b *rwBench) {
			b.put("f", scriptLease, other.reads())
			b.stand(time.Minute, w, x)
		}, []any{name(x), 5, name(w), 5}, "1", nil, []string{other.reads()}, []rwWait{w, x}},
		{"the first is another's", func(b *rwBench) {
			b.put("f", scriptLease, rwWaitNamed("c8", 1, "wf").writes())
			b.stand(time.Minute, other, x)
		}, nil, "1", nil, []string{rwWaitNamed("c8", 1, "wf").writes()}, []rwWait{other, x}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newRWBench(t, s)
			tt.set(b)
			answer := b.ask(rwPollAs("c1", tt.listed...))
			require.Equal(t, []string{tt.code, ""}, answer[:2])
			require.Equal(t, "0", answer[3])
			want := []string{}
			for _, w := range tt.named {
				want = append(want, name(w))
			}
			require.Equal(t, want, answer[4:])
			require.Equal(t, tt.lock == nil, number(t, answer[2]) < 0)
			b.requireWhole()
			require.ElementsMatch(t, tt.lock, b.lock())
			b.requireQueue("", tt.queue...)
		})
	}
	t.Run("not to all who read at once", func(t *testing.T) {
		b := newRWBench(t, s)
		b.show(map[string]shownBeat{"c1": {0, 0}})
		b.stand(time.Minute, readersFrom(1, 20)...)
		require.Len(t, b.ask(rwPollAs("c1"))[4:], 16+1, "and the first of the others, which it has not listed")
		require.Len(t, b.lock(), 16)
		require.Equal(t, "1", b.code(rwWaitNamed("c1", 1, "sf").claim()))
		require.Len(t, b.lock(), 20)
	})
	t.Run("tickets that are put back raise the last one", func(t *testing.T) {
		b := newRWBench(t, s)
		b.put("f", scriptLease, other.reads())
		ahead := b.now() + 3600_000_000
		b.ask(rwPollAs("c1", name(w), ahead))
		require.Equal(t, fmt.Sprint(ahead), b.field("t"))
		b.do("DEL", b.queue())
		b.ask(rwPollAs("c1", name(w), ahead+1))
		require.Equal(t, fmt.Sprint(ahead+1), b.field("t"))
		ahead++
		b.do("DEL", b.queue())
		b.ask(rwPollAs("c1", name(w), 5))
		require.Equal(t, fmt.Sprint(ahead), b.field("t"))
	})
	t.Run("beats of clients that have left go", func(t *testing.T) {
		b := newRWBench(t, s)
		b.put("f", scriptLease, other.reads())
		b.until(func() bool {
			b.show(map[string]shownBeat{"left": {13 * scriptPeriod, 0}, "c7": {0, 0}})
			b.stand(time.Minute, w)
			b.ask(rwPollAs("c1", name(w), 5))
			require.NotEmpty(t, b.field("c7"))
			return b.field("left") == ""
		}, "a beat goes")
	})
	t.Run("something else", func(t *testing.T) {
		b := newRWBench(t, s)
		b.do("SET", b.key, "text", "PX", 20_000)
		require.Equal(t, "-1", b.ask(rwPollAs("c1", name(w), 5))[0])
		require.Empty(t, b.waits())
	})
}
