package lua_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// Each entry ends by itself, and counts no longer then, whether it was swept or
// not. Another's goes on.
func TestRWScriptEntriesEnd(t *testing.T) {
	s := redistest.Shared(t)
	x, y, w := scripttest.RWWaitNamed("c1", 1, "sf"), scripttest.RWWaitNamed("c2", 1, "sf"), scripttest.RWWaitNamed("c5", 1, "wf")
	over := -time.Second
	ended := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("r:old:%d", i+1))
		}
		return all
	}
	t.Run("beside one that goes on", func(t *testing.T) {
		b := scripttest.NewReadWrite(t, s)
		require.Equal(t, "1", b.Code(x.Try()))
		b.Put("f", over, append(ended(100), "v:old:101:sf:1000", "v:old:102:sf:1000")...)
		require.Equal(t, "0", b.Code(scripttest.RWWaitNamed("old", 8, "sf").Leave(1, 0, 3)), "it has ended")
		require.Equal(t, "0", b.Code(scripttest.RWWaitNamed("old", 9, "sf").Renew(scripttest.Lease)))
		require.Equal(t, "0", b.Code(scripttest.RWWaitNamed("old", 7, "sf").Enter(2, 0, 2, scripttest.Lease)))
		require.Equal(t, "1", b.Code(y.Try()))
		require.Equal(t, int64(102-batchOfReaders+2), int64(len(b.Lock())), "no more are swept at once")
		require.Equal(t, "1", b.Code(y.Renew(scripttest.Lease)))
		require.Equal(t, []string{x.Reads(), y.Reads()}, b.Lock())
		require.Equal(t, int64(5), b.Do("ZCARD", b.Key), "their numbers too")
		require.Equal(t, int64(2), b.Do("HLEN", b.Key+":h"), "and the notes")
	})
	for name, script := range map[string]script.Call{"try": w.Try(), "enqueue": w.Enqueue()} {
		t.Run("all, "+name, func(t *testing.T) {
			b := scripttest.NewReadWrite(t, s)
			b.Put("u", over, ended(200)...)
			require.Equal(t, "1", b.Code(script), "and the mode goes with them")
			require.Equal(t, []string{w.Writes()}, b.Lock())
			require.Equal(t, int64(3), b.Do("ZCARD", b.Key))
			require.Equal(t, int64(1), b.Do("HLEN", b.Key+":h"))
		})
	}
	t.Run("all, hand-over", func(t *testing.T) {
		b := scripttest.NewReadWrite(t, s)
		b.Put("f", over, ended(200)...)
		b.Show(map[string]scripttest.Beat{"c5": {Age: 0, Counted: 0}})
		b.Stand(time.Minute, w)
		require.Equal(t, "1", b.Code(scripttest.RWNobody.Cancel(0)))
		require.Equal(t, []string{w.Reserved()}, b.Lock())
	})
	t.Run("all, released or renewed late", func(t *testing.T) {
		for _, script := range []script.Call{x.Release(), x.Leave(1, 0, 2), x.Renew(scripttest.Lease), x.Enter(2, 0, 2, scripttest.Lease)} {
			for _, entry := range []string{x.Reads(), x.Writes()} {
				b := scripttest.NewReadWrite(t, s)
				b.Put("f", over, entry)
				require.Equal(t, "0", b.Code(script))
				require.Empty(t, b.Lock())
			}
		}
	})
	t.Run("a reservation that ended", func(t *testing.T) {
		b := scripttest.NewReadWrite(t, s)
		require.Equal(t, "1", b.Code(x.Try()))
		b.Put("f", over, y.Reserved())
		require.Equal(t, "3", b.Code(y.Claim()))
		require.Equal(t, "1", b.Code(y.EnqueueAgain("7")))
		require.Equal(t, []string{x.Reads(), y.Reads()}, b.Lock())
	})
	t.Run("upgrade leaves none that ended", func(t *testing.T) {
		b := scripttest.NewReadWrite(t, s)
		require.Equal(t, "1", b.Code(x.Try()))
		b.Put("f", over, ended(100)...)
		require.Equal(t, "1", b.Code(x.Enter(1, 1, 2, scripttest.Lease)))
		require.Equal(t, []string{x.Writes()}, b.Lock())
	})
}

// The lock lasts as long as its last entry, and each lease is lengthened by
// itself and never shortened.
func TestRWScriptLeases(t *testing.T) {
	s := redistest.Shared(t)
	for _, letters := range []string{"sf", "wu"} {
		b := scripttest.NewReadWrite(t, s)
		w := scripttest.RWWaitNamed("c1", 1, letters)
		require.Equal(t, "1", b.Code(w.Try()))
		scripttest.RequireExpiry(t, scripttest.Lease+scripttest.ClockGrain, b.Left(w))
		require.Equal(t, "1", b.Code(w.Renew(scripttest.LongLease)))
		scripttest.RequireExpiry(t, scripttest.LongLease+scripttest.ClockGrain, b.Left(w))
		reads, writes := 2, 0
		if letters[0] == 'w' {
			reads, writes = 0, 2
		}
		for _, script := range []script.Call{w.Renew(scripttest.Lease), w.Try(), w.Claim(), w.Enqueue(), w.Enter(reads, writes, 2, scripttest.Lease)} {
			require.Equal(t, "1", b.Code(script))
			scripttest.RequireExpiry(t, scripttest.LongLease+scripttest.ClockGrain, b.Left(w))
		}
		require.Equal(t, "1", b.Code(w.Enter(reads, writes, 2, 2*scripttest.LongLease)))
		scripttest.RequireExpiry(t, 2*scripttest.LongLease+scripttest.ClockGrain, b.Left(w))
		require.Equal(t, fmt.Sprintf("%d:%d", reads, writes), b.Entry(w).Counts)
		require.Equal(t, "c1:g:1", b.Entry(w).Owner)
		require.Equal(t, int64(2), b.Entry(w).Seq)
	}
	b := scripttest.NewReadWrite(t, s)
	x, y := scripttest.RWWaitNamed("c1", 1, "sf"), scripttest.RWWaitNamed("c2", 1, "sf")
	require.Equal(t, "1", b.Code(x.Try()))
	require.Equal(t, "1", b.Code(y.Try()))
	require.Equal(t, "1", b.Code(y.Renew(scripttest.LongLease)))
	b.RequireTTL(scripttest.LongLease + scripttest.ClockGrain)
	require.Equal(t, "1", b.Code(y.Release()))
	b.RequireTTL(scripttest.Lease + scripttest.ClockGrain)
}

// The levels of a hold change by requests that are numbered: what comes late or
// twice changes nothing.
func TestRWScriptCopiesOfChanges(t *testing.T) {
	s := redistest.Shared(t)
	x, y := scripttest.RWWaitNamed("c1", 1, "sf"), scripttest.RWWaitNamed("c2", 1, "sf")
	both := []string{x.Reads(), y.Reads()}
	b := scripttest.NewReadWrite(t, s)
	b.Steps(
		scripttest.Step("reads", x.Try(), "1", []string{x.Reads()}, nil),
		scripttest.Step("writes too", x.Enter(1, 1, 2, scripttest.Lease), "1", []string{x.Writes()}, nil),
		scripttest.Step("again", x.Enter(1, 1, 2, scripttest.Lease), "1", []string{x.Writes()}, nil),
		scripttest.Step("another waits", y.Enqueue(), "0", []string{x.Writes()}, []scripttest.RWWait{y}),
		scripttest.Step("reads twice", x.Enter(2, 1, 3, scripttest.Lease), "1", []string{x.Writes()}, []scripttest.RWWait{y}),
		scripttest.Step("older, changes nothing", x.Leave(1, 0, 2), "1", []string{x.Writes()}, []scripttest.RWWait{y}),
		scripttest.Step("leaves one that reads", x.Leave(1, 1, 4), "1", []string{x.Writes()}, []scripttest.RWWait{y}),
		scripttest.Step("older, changes nothing", x.Enter(2, 1, 3, scripttest.LongLease), "1", []string{x.Writes()}, []scripttest.RWWait{y}),
		scripttest.Step("reads only", x.Leave(1, 0, 5), "1", []string{x.Reads(), y.Reserved()}, nil),
		scripttest.Step("late, to write", x.Enter(1, 1, 2, scripttest.LongLease), "7", []string{x.Reads(), y.Reserved()}, nil),
		scripttest.Step("others may read", y.Claim(), "1", both, nil),
		scripttest.Step("writes, refused", x.Enter(1, 1, 6, scripttest.Lease), "7", both, nil),
		scripttest.Step("again", x.Enter(1, 1, 6, scripttest.Lease), "7", both, nil),
		scripttest.Step("the other goes", y.Release(), "1", []string{x.Reads()}, nil),
		scripttest.Step("late copy of what was refused", x.Enter(1, 1, 6, scripttest.LongLease), "7", []string{x.Reads()}, nil),
		scripttest.Step("late copy of a release that wrote", x.Leave(1, 1, 4), "1", []string{x.Reads()}, nil),
		scripttest.Step("a release that would make it write", x.Leave(1, 1, 9), "0", []string{x.Reads()}, nil),
		scripttest.Step("writes", x.Enter(1, 1, 7, scripttest.Lease), "1", []string{x.Writes()}, nil),
		scripttest.Step("late copy of a downgrade", x.Leave(1, 0, 5), "1", []string{x.Writes()}, nil),
		scripttest.Step("reads once more, and no longer writes", x.Enter(2, 0, 9, scripttest.Lease), "1", []string{x.Reads()}, nil),
		scripttest.Step("the release before that, late", x.Leave(1, 0, 8), "1", []string{x.Reads()}, nil),
		scripttest.Step("others may read", y.Try(), "1", both, nil),
		scripttest.Step("the other goes", y.Release(), "1", []string{x.Reads()}, nil),
		scripttest.Step("gives all back", x.Release(), "1", nil, nil),
		scripttest.Step("again", x.Release(), "0", nil, nil),
		scripttest.Step("late, to enter", x.Enter(1, 1, 8, scripttest.Lease), "0", nil, nil),
		scripttest.Step("late, to leave", x.Leave(1, 0, 8), "0", nil, nil),
		scripttest.Step("late, to renew", x.Renew(scripttest.LongLease), "0", nil, nil),
	)
	require.Equal(t, "1", b.Code(y.Try()))
	for _, late := range []script.Call{x.Release(), x.Enter(1, 1, 8, scripttest.LongLease), x.Leave(1, 0, 8), x.Renew(scripttest.LongLease), x.Cancel(1)} {
		before := b.Entry(y)
		b.Code(late)
		require.Equal(t, before, b.Entry(y), "another's hold is not touched")
	}
}

// A late copy that meets the hold at a lower number lengthens nothing.
func TestRWScriptLateEnterKeepsTheLease(t *testing.T) {
	s := redistest.Shared(t)
	b := scripttest.NewReadWrite(t, s)
	x := scripttest.RWWaitNamed("c1", 1, "su")
	require.Equal(t, "1", b.Code(x.Try()))
	require.Equal(t, "1", b.Code(x.Enter(2, 0, 2, scripttest.Lease)))
	require.Equal(t, "1", b.Code(x.Leave(1, 0, 3)))
	before := b.Entry(x)
	require.Equal(t, "1", b.Code(x.Enter(2, 0, 2, scripttest.LongLease)))
	require.Equal(t, before, b.Entry(x))
	b.Do("DEL", b.Key+":h")
	require.Equal(t, "1", b.Code(x.Enter(2, 0, 4, scripttest.Lease)), "the notes decide nothing")
	require.Equal(t, "1", b.Code(x.Release()))
	require.Empty(t, b.Lock())
}
