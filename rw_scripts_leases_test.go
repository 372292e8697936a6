package relock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// Each entry ends by itself, and counts no longer then, whether it was swept or not. Another's goes on.
func TestRWScriptEntriesEnd(t *testing.T) {
	s := redistest.Shared(t)
	x, y, w := rwWaitNamed("c1", 1, "sf"), rwWaitNamed("c2", 1, "sf"), rwWaitNamed("c5", 1, "wf")
	over := -time.Second
	ended := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("r:old:%d", i+1))
		}
		return all
	}
	t.Run("beside one that goes on", func(t *testing.T) {
		b := newRWBench(t, s)
		require.Equal(t, "1", b.code(x.try()))
		b.put("f", over, append(ended(100), "v:old:101:sf:1000", "v:old:102:sf:1000")...)
		require.Equal(t, "0", b.code(rwWaitNamed("old", 8, "sf").leave(1, 0, 3)), "it has ended")
		require.Equal(t, "0", b.code(rwWaitNamed("old", 9, "sf").renew(scriptLease)))
		require.Equal(t, "0", b.code(rwWaitNamed("old", 7, "sf").enter(2, 0, 2, scriptLease)))
		require.Equal(t, "1", b.code(y.try()))
		require.Equal(t, int64(102-batchOfReaders+2), int64(len(b.lock())), "no more are swept at once")
		require.Equal(t, "1", b.code(y.renew(scriptLease)))
		require.Equal(t, []string{x.reads(), y.reads()}, b.lock())
		require.Equal(t, int64(5), b.do("ZCARD", b.key), "their numbers too")
		require.Equal(t, int64(2), b.do("HLEN", b.key+":h"), "and the notes")
	})
	for name, script := range map[string]script.Call{"try": w.try(), "enqueue": w.enqueue()} {
		t.Run("all, "+name, func(t *testing.T) {
			b := newRWBench(t, s)
			b.put("u", over, ended(200)...)
			require.Equal(t, "1", b.code(script), "and the mode goes with them")
			require.Equal(t, []string{w.writes()}, b.lock())
			require.Equal(t, int64(3), b.do("ZCARD", b.key))
			require.Equal(t, int64(1), b.do("HLEN", b.key+":h"))
		})
	}
	t.Run("all, hand-over", func(t *testing.T) {
		b := newRWBench(t, s)
		b.put("f", over, ended(200)...)
		b.show(map[string]shownBeat{"c5": {0, 0}})
		b.stand(time.Minute, w)
		require.Equal(t, "1", b.code(rwNobody.cancel(0)))
		require.Equal(t, []string{w.reserved()}, b.lock())
	})
	t.Run("all, released or renewed late", func(t *testing.T) {
		for _, script := range []script.Call{x.release(), x.leave(1, 0, 2), x.renew(scriptLease), x.enter(2, 0, 2, scriptLease)} {
			for _, entry := range []string{x.reads(), x.writes()} {
				b := newRWBench(t, s)
				b.put("f", over, entry)
				require.Equal(t, "0", b.code(script))
				require.Empty(t, b.lock())
			}
		}
	})
	t.Run("a reservation that ended", func(t *testing.T) {
		b := newRWBench(t, s)
		require.Equal(t, "1", b.code(x.try()))
		b.put("f", over, y.reserved())
		require.Equal(t, "3", b.code(y.claim()))
		require.Equal(t, "1", b.code(y.enqueueAgain("7")))
		require.Equal(t, []string{x.reads(), y.reads()}, b.lock())
	})
	t.Run("upgrade leaves none that ended", func(t *testing.T) {
		b := newRWBench(t, s)
		require.Equal(t, "1", b.code(x.try()))
		b.put("f", over, ended(100)...)
		require.Equal(t, "1", b.code(x.enter(1, 1, 2, scriptLease)))
		require.Equal(t, []string{x.writes()}, b.lock())
	})
}

// The lock lasts as long as its last entry, and each lease is lengthened by itself and never shortened.
func TestRWScriptLeases(t *testing.T) {
	s := redistest.Shared(t)
	for _, letters := range []string{"sf", "wu"} {
		b := newRWBench(t, s)
		w := rwWaitNamed("c1", 1, letters)
		require.Equal(t, "1", b.code(w.try()))
		requireExpiry(t, scriptLease+clockGrain, b.left(w))
		require.Equal(t, "1", b.code(w.renew(longLease)))
		requireExpiry(t, longLease+clockGrain, b.left(w))
		reads, writes := 2, 0
		if letters[0] == 'w' {
			reads, writes = 0, 2
		}
		for _, script := range []script.Call{w.renew(scriptLease), w.try(), w.claim(), w.enqueue(), w.enter(reads, writes, 2, scriptLease)} {
			require.Equal(t, "1", b.code(script))
			requireExpiry(t, longLease+clockGrain, b.left(w))
		}
		require.Equal(t, "1", b.code(w.enter(reads, writes, 2, 2*longLease)))
		requireExpiry(t, 2*longLease+clockGrain, b.left(w))
		require.Equal(t, fmt.Sprintf("%d:%d", reads, writes), b.entry(w).counts)
		require.Equal(t, "c1:g:1", b.entry(w).owner)
		require.Equal(t, int64(2), b.entry(w).seq)
	}
	b := newRWBench(t, s)
	x, y := rwWaitNamed("c1", 1, "sf"), rwWaitNamed("c2", 1, "sf")
	require.Equal(t, "1", b.code(x.try()))
	require.Equal(t, "1", b.code(y.try()))
	require.Equal(t, "1", b.code(y.renew(longLease)))
	b.requireTTL(longLease + clockGrain)
	require.Equal(t, "1", b.code(y.release()))
	b.requireTTL(scriptLease + clockGrain)
}

// The levels of a hold change by requests that are numbered: what comes late or twice changes nothing.
func TestRWScriptCopiesOfChanges(t *testing.T) {
	s := redistest.Shared(t)
	x, y := rwWaitNamed("c1", 1, "sf"), rwWaitNamed("c2", 1, "sf")
	both := []string{x.reads(), y.reads()}
	b := newRWBench(t, s)
	b.steps(
		rwStep{"reads", x.try(), "1", []string{x.reads()}, nil},
		rwStep{"writes too", x.enter(1, 1, 2, scriptLease), "1", []string{x.writes()}, nil},
		rwStep{"again", x.enter(1, 1, 2, scriptLease), "1", []string{x.writes()}, nil},
		rwStep{"another waits", y.enqueue(), "0", []string{x.writes()}, []rwWait{y}},
		rwStep{"reads twice", x.enter(2, 1, 3, scriptLease), "1", []string{x.writes()}, []rwWait{y}},
		rwStep{"older, changes nothing", x.leave(1, 0, 2), "1", []string{x.writes()}, []rwWait{y}},
		rwStep{"leaves one that reads", x.leave(1, 1, 4), "1", []string{x.writes()}, []rwWait{y}},
		rwStep{"older, changes nothing", x.enter(2, 1, 3, longLease), "1", []string{x.writes()}, []rwWait{y}},
		rwStep{"reads only", x.leave(1, 0, 5), "1", []string{x.reads(), y.reserved()}, nil},
		rwStep{"late, to write", x.enter(1, 1, 2, longLease), "7", []string{x.reads(), y.reserved()}, nil},
		rwStep{"others may read", y.claim(), "1", both, nil},
		rwStep{"writes, refused", x.enter(1, 1, 6, scriptLease), "7", both, nil},
		rwStep{"again", x.enter(1, 1, 6, scriptLease), "7", both, nil},
		rwStep{"the other goes", y.release(), "1", []string{x.reads()}, nil},
		rwStep{"late copy of what was refused", x.enter(1, 1, 6, longLease), "7", []string{x.reads()}, nil},
		rwStep{"late copy of a release that wrote", x.leave(1, 1, 4), "1", []string{x.reads()}, nil},
		rwStep{"a release that would make it write", x.leave(1, 1, 9), "0", []string{x.reads()}, nil},
		rwStep{"writes", x.enter(1, 1, 7, scriptLease), "1", []string{x.writes()}, nil},
		rwStep{"late copy of a downgrade", x.leave(1, 0, 5), "1", []string{x.writes()}, nil},
		rwStep{"reads once more, and no longer writes", x.enter(2, 0, 9, scriptLease), "1", []string{x.reads()}, nil},
		rwStep{"the release before that, late", x.leave(1, 0, 8), "1", []string{x.reads()}, nil},
		rwStep{"others may read", y.try(), "1", both, nil},
		rwStep{"the other goes", y.release(), "1", []string{x.reads()}, nil},
		rwStep{"gives all back", x.release(), "1", nil, nil},
		rwStep{"again", x.release(), "0", nil, nil},
		rwStep{"late, to enter", x.enter(1, 1, 8, scriptLease), "0", nil, nil},
		rwStep{"late, to leave", x.leave(1, 0, 8), "0", nil, nil},
		rwStep{"late, to renew", x.renew(longLease), "0", nil, nil},
	)
	require.Equal(t, "1", b.code(y.try()))
	for _, late := range []script.Call{x.release(), x.enter(1, 1, 8, longLease), x.leave(1, 0, 8), x.renew(longLease), x.cancel(1)} {
		before := b.entry(y)
		b.code(late)
		require.Equal(t, before, b.entry(y), "another's hold is not touched")
	}
}

// A late copy that meets the hold at a lower number lengthens nothing.
func TestRWScriptLateEnterKeepsTheLease(t *testing.T) {
	s := redistest.Shared(t)
	b := newRWBench(t, s)
	x := rwWaitNamed("c1", 1, "su")
	require.Equal(t, "1", b.code(x.try()))
	require.Equal(t, "1", b.code(x.enter(2, 0, 2, scriptLease)))
	require.Equal(t, "1", b.code(x.leave(1, 0, 3)))
	before := b.entry(x)
	require.Equal(t, "1", b.code(x.enter(2, 0, 2, longLease)))
	require.Equal(t, before, b.entry(x))
	b.do("DEL", b.key+":h")
	require.Equal(t, "1", b.code(x.enter(2, 0, 4, scriptLease)), "the notes decide nothing")
	require.Equal(t, "1", b.code(x.release()))
	require.Empty(t, b.lock())
}
