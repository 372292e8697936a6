package lua_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/locktest"
)

// One call after another, for each mode: the answer, what the lock becomes, and
// which waiters are left.
func TestRWScriptAnswers(t *testing.T) {
	for _, mode := range []string{"f", "u"} {
		t.Run(mode, func(t *testing.T) {
			x, y, z := WaitNamed("c1", 1, "s"+mode), WaitNamed("c2", 1, "s"+mode), WaitNamed("c3", 1, "s"+mode)
			v, w := WaitNamed("c4", 1, "w"+mode), WaitNamed("c5", 1, "w"+mode)
			b := NewQueue(t, server)
			two := []string{x.Reads(), y.Reads()}
			b.Steps(
				Step("claim, free, not queued", x.Claim(), "3", nil),
				Step("try, free, to write", w.Try(), "1", []string{w.Writes()}),
				Step("try, another writes", x.Try(), "0", []string{w.Writes()}),
				Step("release, the last", w.Release(), "1", nil),
				Step("try, free", x.Try(), "1", []string{x.Reads()}),
				Step("try, has it", x.Try(), "1", []string{x.Reads()}),
				Step("try, beside another that reads", y.Try(), "1", two),
				Step("try, to write", w.Try(), "0", two),
				Step("try, a third one", z.Try(), "1", []string{x.Reads(), y.Reads(), z.Reads()}),
				Step("it releases its own", z.Release(), "1", two),
				Step("enqueue, beside others that read", z.Enqueue(), "1", []string{x.Reads(), y.Reads(), z.Reads()}),
				Step("it releases again", z.Release(), "1", two),
				Step("claim, has it", y.Claim(), "1", two),
				Step("enqueue, has it", y.Enqueue(), "1", two),
				Step("claim, to write, not queued", w.Claim(), "3", two),
				Step("enqueue, to write", w.Enqueue(), "0", two, w),
				Step("claim, to write", w.Claim(), "0", two, w),
				Step("cancel without the hold", x.Cancel(0), "1", two, w),
				Step("cancel with the hold", x.Cancel(1), "1", []string{y.Reads()}, w),
				Step("cancel for nobody", RWCancelNobody, "1", []string{y.Reads()}, w),
				Step("release, not held", x.Release(), "0", []string{y.Reads()}, w),
			)
			b.Line(time.Minute, w) // it has waited for long
			b.Steps(
				Step("try, a writer waits", x.Try(), "0", []string{y.Reads()}, w),
				Step("enqueue behind a writer", x.Enqueue(), "0", []string{y.Reads()}, w, x),
				Step("enqueue, again to read", z.Enqueue(), "0", []string{y.Reads()}, w, x, z),
				Step("enqueue, again to write", v.Enqueue(), "0", []string{y.Reads()}, w, x, z, v),
				Step("the last reader goes", y.Release(), "1", []string{w.Reserved()}, x, z, v),
				Step("try, reserved", y.Try(), "0", []string{w.Reserved()}, x, z, v),
				Step("claim, reserved for others", x.Claim(), "0", []string{w.Reserved()}, x, z, v),
				Step("claim, reserved, not queued", y.Claim(), "3", []string{w.Reserved()}, x, z, v),
				Step("claim, reserved for it", w.Claim(), "1", []string{w.Writes()}, x, z, v),
				Step("enqueue, writes", w.Enqueue(), "1", []string{w.Writes()}, x, z, v),
				Step("try, writes", w.Try(), "1", []string{w.Writes()}, x, z, v),
				Step("release, two readers are the next", w.Release(), "1", []string{x.Reserved(), z.Reserved()}, v),
				Step("enqueue, reserved for it", x.EnqueueAgain("7", ""), "1", []string{x.Reads(), z.Reserved()}, v),
				Step("cancel, reserved for it", z.Cancel(0), "1", []string{x.Reads()}, v),
				Step("release", x.Release(), "1", []string{v.Reserved()}),
				Step("cancel of the last", v.Cancel(1), "1", nil),
			)
			require.Equal(t, int64(0), b.Do("EXISTS", b.Key, b.QueueKey(), b.HeartbeatsKey(), b.Key+":h"))
		})
	}
}

// A reader that has ended is removed by the next one, though both could be
// there together: else they would pile up while others read.
func TestRWLockEndedReaderGoes(t *testing.T) {
	x, y := WaitNamed("c1", 1, "su"), WaitNamed("c2", 1, "su")
	b := NewHeld(t, server, x)
	b.Put("u", -time.Second, "r:c9:1")
	require.Equal(t, "1", b.Code(y.Try()))
	require.Equal(t, []string{x.Reads(), y.Reads()}, b.Entries())
	require.Equal(t, int64(2), b.Do("HLEN", b.Key+":h"))
}

// Readers next to each other get the lock together, 64 at a time. When one of
// them takes it, more come along. A writer is alone.
func TestRWScriptReadersTogether(t *testing.T) {
	holder, writer, behind := WaitNamed("c9", 1, "wf"), WaitNamed("c3", 1, "wf"), WaitNamed("c1", 999, "sf")
	b := NewHeld(t, server, holder)
	b.Live("c1", "c3")
	var readers []Wait
	for i := range 100 {
		readers = append(readers, WaitNamed("c1", i+1, "sf"))
	}
	b.Line(time.Minute, append(append(StaleWaits(3, "wf"), readers...), writer, behind)...)
	l := b.Listen("c1")
	b.RequireDone(holder.Release())
	require.Len(t, b.Entries(), batchOfReaders)
	var names []string
	for _, w := range readers[:batchOfReaders] {
		names = append(names, string(w))
		require.Contains(t, b.Entries(), w.Reserved())
	}
	require.Equal(t, []string{names[0] + " " + b.Key, strings.Join(names[1:], ",") + " " + b.Key}, l.Heard(),
		"one message for all but the first")
	b.RequireDone(readers[0].Claim())
	require.Len(t, b.Entries(), len(readers), "more come along")
	b.RequireWaits("a writer has to wait", writer, behind)
	for _, w := range readers[1:] {
		b.RequireDone(w.Claim())
	}
	require.Equal(t, "0", b.Code(behind.Claim()))
	for _, w := range readers {
		b.RequireWaits("a writer has to wait", writer, behind)
		b.RequireDone(w.Release())
	}
	require.Equal(t, []string{writer.Reserved()}, b.Entries())
	b.RequireDone(writer.Claim(), writer.Release())
	require.Equal(t, []string{behind.Reserved()}, b.Entries())
}

const batchOfReaders = 64

// Each entry ends by itself, and counts no longer then, whether it was swept or
// not. Another's goes on.
func TestRWScriptEntriesEnd(t *testing.T) {
	x, y, w := WaitNamed("c1", 1, "sf"), WaitNamed("c2", 1, "sf"), WaitNamed("c5", 1, "wf")
	over := -time.Second
	ended := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("r:old:%d", i+1))
		}
		return all
	}
	b := NewHeld(t, server, x)
	b.Put("f", over, append(ended(100), "v:old:101:sf:1000", "v:old:102:sf:1000")...)
	for _, late := range []script.Call{
		WaitNamed("old", 8, "sf").Leave(1, 0, 3), WaitNamed("old", 9, "sf").Renew(Lease),
		WaitNamed("old", 7, "sf").Enter(2, 0, 2, Lease),
	} {
		require.Equal(t, "0", b.Code(late), "it has ended")
	}
	b.RequireDone(y.Try())
	require.Len(t, b.Entries(), 102-batchOfReaders+2, "no more are swept together")
	b.RequireDone(y.Renew(Lease))
	b.Require("one goes on", []string{x.Reads(), y.Reads()})
	require.Equal(t, int64(5), b.Do("ZCARD", b.Key), "their numbers too")
	require.Equal(t, int64(2), b.Do("HLEN", b.Key+":h"), "and the notes")

	for _, call := range []script.Call{w.Try(), w.Enqueue(), RWCancelNobody} {
		b := NewQueue(t, server)
		b.Put("u", over, ended(200)...)
		if call.Script == script.RWCancel {
			b.Queued(w)
			b.Steps(Step("handed off", call, "1", []string{w.Reserved()}))
			continue
		}
		b.Steps(Step("the mode goes with them", call, "1", []string{w.Writes()}))
		require.Equal(t, int64(3), b.Do("ZCARD", b.Key))
		require.Equal(t, int64(1), b.Do("HLEN", b.Key+":h"))
	}
	for _, late := range []script.Call{x.Release(), x.Leave(1, 0, 2), x.Renew(Lease), x.Enter(2, 0, 2, Lease)} {
		for _, entry := range []string{x.Reads(), x.Writes()} {
			b := NewQueue(t, server)
			b.Put("f", over, entry)
			b.Steps(Step("released or renewed late", late, "0", nil))
		}
	}
	b = NewHeld(t, server, x)
	b.Put("f", over, y.Reserved())
	require.Equal(t, "3", b.Code(y.Claim()), "a reservation that ended")
	b.Steps(Step("its wait", y.EnqueueAgain("7", ""), "1", []string{x.Reads(), y.Reads()}))
	b = NewHeld(t, server, x)
	b.Put("f", over, ended(100)...)
	b.Steps(Step("an upgrade leaves none that ended", x.Enter(1, 1, 2, Lease), "1", []string{x.Writes()}))
}

// The lock lasts as long as its last entry, and each lease is lengthened by
// itself and never shortened.
func TestRWScriptLeases(t *testing.T) {
	for letters, levels := range map[string][2]int{"sf": {2, 0}, "wu": {0, 2}} {
		reads, writes := levels[0], levels[1]
		w := WaitNamed("c1", 1, letters)
		b := NewHeld(t, server, w)
		RequireExpiry(t, Lease+locktest.ClockGrain, b.Left(w))
		b.RequireDone(w.Renew(LongLease))
		RequireExpiry(t, LongLease+locktest.ClockGrain, b.Left(w))
		for _, script := range []script.Call{
			w.Renew(Lease), w.Try(), w.Claim(), w.Enqueue(), w.Enter(reads, writes, 2, Lease),
		} {
			b.RequireDone(script)
			RequireExpiry(t, LongLease+locktest.ClockGrain, b.Left(w))
		}
		b.RequireDone(w.Enter(reads, writes, 2, 2*LongLease))
		RequireExpiry(t, 2*LongLease+locktest.ClockGrain, b.Left(w))
		require.Equal(t, fmt.Sprintf("%d:%d", reads, writes), b.Entry(w).Counts)
		require.Equal(t, "c1:g:1", b.Entry(w).Owner)
		require.Equal(t, int64(2), b.Entry(w).Seq)
	}
	x, y := WaitNamed("c1", 1, "sf"), WaitNamed("c2", 1, "sf")
	b := NewHeld(t, server, x, y)
	b.RequireDone(y.Renew(LongLease))
	b.RequireTTL(LongLease + locktest.ClockGrain)
	b.RequireDone(y.Release())
	b.RequireTTL(Lease + locktest.ClockGrain)
}

// The levels of a hold change by requests that are numbered: what comes late or
// twice changes nothing. A late copy of a request to write is no grant to a
// reader.
func TestRWScriptCopiesOfChanges(t *testing.T) {
	x, y := WaitNamed("c1", 1, "sf"), WaitNamed("c2", 1, "sf")
	both := []string{x.Reads(), y.Reads()}
	b := NewQueue(t, server)
	b.Steps(
		Step("reads", x.Try(), "1", []string{x.Reads()}),
		Step("writes too", x.Enter(1, 1, 2, Lease), "1", []string{x.Writes()}),
		Step("again", x.Enter(1, 1, 2, Lease), "1", []string{x.Writes()}),
		Step("another waits", y.Enqueue(), "0", []string{x.Writes()}, y),
		Step("reads twice", x.Enter(2, 1, 3, Lease), "1", []string{x.Writes()}, y),
		Step("older, changes nothing", x.Leave(1, 0, 2), "1", []string{x.Writes()}, y),
		Step("leaves one that reads", x.Leave(1, 1, 4), "1", []string{x.Writes()}, y),
		Step("older, changes nothing", x.Enter(2, 1, 3, LongLease), "1", []string{x.Writes()}, y),
		Step("reads only", x.Leave(1, 0, 5), "1", []string{x.Reads(), y.Reserved()}),
		Step("late, to write", x.Enter(1, 1, 2, LongLease), "7", []string{x.Reads(), y.Reserved()}),
		Step("others may read", y.Claim(), "1", both),
		Step("writes, refused", x.Enter(1, 1, 6, Lease), "7", both),
		Step("again", x.Enter(1, 1, 6, Lease), "7", both),
		Step("the other goes", y.Release(), "1", []string{x.Reads()}),
		Step("late copy of what was refused", x.Enter(1, 1, 6, LongLease), "7", []string{x.Reads()}),
		Step("late copy of a release that wrote", x.Leave(1, 1, 4), "1", []string{x.Reads()}),
		Step("a release that would make it write", x.Leave(1, 1, 9), "0", []string{x.Reads()}),
		Step("writes", x.Enter(1, 1, 7, Lease), "1", []string{x.Writes()}),
		Step("late copy of a downgrade", x.Leave(1, 0, 5), "1", []string{x.Writes()}),
		Step("reads once more, and no longer writes", x.Enter(2, 0, 9, Lease), "1", []string{x.Reads()}),
		Step("the release before that, late", x.Leave(1, 0, 8), "1", []string{x.Reads()}),
		Step("others may read", y.Try(), "1", both),
		Step("the other goes", y.Release(), "1", []string{x.Reads()}),
		Step("gives all back", x.Release(), "1", nil),
		Step("again", x.Release(), "0", nil),
		Step("late, to enter", x.Enter(1, 1, 8, Lease), "0", nil),
		Step("late, to leave", x.Leave(1, 0, 8), "0", nil),
		Step("late, to renew", x.Renew(LongLease), "0", nil),
	)
	w := WaitNamed("c1", 2, "wf")
	b.Steps(
		Step("writes", w.Try(), "1", []string{w.Writes()}),
		Step("reads too", w.Enter(1, 1, 2, Lease), "1", []string{w.Writes()}),
		Step("reads only", w.Leave(1, 0, 3), "1", []string{w.Reads()}),
		Step("late copy of try is no grant", w.Try(), "0", []string{w.Reads()}),
		Step("late copy of claim is none", w.Claim(), "3", []string{w.Reads()}),
		Step("late copy of enqueue is none", w.Enqueue(), "0", []string{w.Reads()}, w),
		Step("its cancel", w.Cancel(0), "1", []string{w.Reads()}),
		Step("gives all back", w.Leave(0, 0, 4), "1", nil),
	)
	b.RequireDone(y.Try())
	for _, late := range []script.Call{
		x.Release(), x.Enter(1, 1, 8, LongLease), x.Leave(1, 0, 8), x.Renew(LongLease), x.Cancel(1),
	} {
		before := b.Entry(y)
		b.Code(late)
		require.Equal(t, before, b.Entry(y), "another's hold is not touched")
	}
}

// A late copy that meets the hold at a lower number lengthens nothing.
func TestRWScriptLateEnterKeepsTheLease(t *testing.T) {
	x := WaitNamed("c1", 1, "su")
	b := NewHeld(t, server, x)
	b.RequireDone(x.Enter(2, 0, 2, Lease), x.Leave(1, 0, 3))
	before := b.Entry(x)
	b.RequireDone(x.Enter(2, 0, 2, LongLease))
	require.Equal(t, before, b.Entry(x))
	b.Do("DEL", b.Key+":h")
	require.Equal(t, "1", b.Code(x.Enter(2, 0, 4, Lease)), "the notes decide nothing")
	b.RequireDone(x.Release())
	require.Empty(t, b.Entries())
}
