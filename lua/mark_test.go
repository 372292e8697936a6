package lua_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
)

// marked returns a text about the wait's hold as it is with the mark of a
// forced end.
func (w Wait) marked(text string) string { return strings.Replace(text, w.Hold(), "!"+w.Hold(), 1) }

// Mark marks the wait's hold to end by force.
func (b *Queue) Mark(w Wait) {
	b.Helper()
	switch {
	case w.isReadWrite():
		for _, entry := range []string{w.Held(), "#" + w.Hold()} {
			b.Do("ZADD", b.Key, b.Do("ZSCORE", b.Key, entry), w.marked(entry))
			b.Do("ZREM", b.Key, entry)
		}
	case w.letters()[0] == 'r':
		b.Do("HSET", b.Key, "hold", "!"+w.Hold())
	default:
		b.Do("SET", b.Key, w.marked(w.Body()), "KEEPTTL")
	}
}

// NewMarked returns a bench whose lock has a marked hold, while others wait.
func NewMarked(t *testing.T, holder Wait, waits ...Wait) *Queue {
	t.Helper()
	b := NewHeld(t, server, holder)
	for _, w := range waits {
		b.Queued(w)
	}
	b.Mark(holder)
	return b
}

// eachMarked runs the test for a hold of each kind, and a waiter that waits for
// it to end.
func eachMarked(t *testing.T, test func(t *testing.T, holder, next Wait)) {
	for letters, waits := range map[string]string{"pu": "pf", "pf": "pf", "ru": "rf", "rf": "rf", "su": "wf", "wf": "sf"} {
		t.Run(letters, func(t *testing.T) { test(t, WaitNamed("c9", 1, letters), WaitNamed("c1", 1, waits)) })
	}
	t.Run("permit", func(t *testing.T) { test(t, PermitNamed("c9", 1, "f", 1, 0), PermitNamed("c1", 1, "f", 1, 0)) })
}

// A release finds its hold behind the mark, answers 9, and hands the lock off.
// A copy that comes later finds nothing.
func TestReleaseOfAMarkedHold(t *testing.T) {
	eachMarked(t, func(t *testing.T, holder, next Wait) {
		held := []string{holder.marked(holder.Held())}
		for name, release := range map[string]script.Call{"release": holder.Release(), "cancel": holder.Cancel(1)} {
			b := NewMarked(t, holder, next)
			b.Steps(
				Step("of another", WaitNamed("c9", 2, holder.letters()).orPermit(holder).Release(), "0", held, next),
				Step("cancel without the hold", holder.Cancel(0), "1", held, next),
				Step(name, release, "9", []string{next.Reserved()}),
			)
			b.RequireDone(next.Claim())
			require.NotEqual(t, "9", b.Code(release), "late")
			b.Require("late", []string{next.Held()})
			require.LessOrEqual(t, b.Do("HLEN", b.Key+script.HoldersSuffix), int64(1), "of the next hold only")
			b.Clear()
		}
	})
}

// orPermit returns w, or the permit of the same number that other is like.
func (w Wait) orPermit(other Wait) Wait {
	if other.isPermit() {
		return PermitNamed(w.Client(), 2, "f", 1, 0)
	}
	return w
}

// A marked hold is not kept for its minimum hold. A permit stays taken until
// then, so that no more callers begin.
func TestReleaseOfAMarkedHoldWithAMinimum(t *testing.T) {
	for _, letters := range []string{"pu", "rf"} {
		w, next := WaitNamed("c9", 1, letters), WaitNamed("c1", 1, letters[:1]+"f")
		b := NewMarked(t, w, next)
		b.Steps(Step(letters, w.ReleaseAndKeep(Keep), "9", []string{next.Reserved()}))
		b.Clear()
	}
	w := PermitNamed("c9", 1, "f", 1, Keep)
	b := NewMarked(t, w)
	b.Steps(
		Step("release", w.Release(), "9", []string{w.Forced()}),
		Step("again", w.Release(), "0", []string{w.Forced()}),
	)
}

// A request for some levels finds the mark, and changes nothing: the release of
// the whole follows.
func TestInnerLevelOfAMarkedHold(t *testing.T) {
	for letters, inner := range map[string]func(Wait) script.Call{
		"ru": func(w Wait) script.Call {
			return script.Call{Script: script.ReentrantRelease, Args: []any{w.Body(), w.Hold(), 1, 3, 0}}
		},
		"su": func(w Wait) script.Call { return w.Leave(1, 0, 3) },
		"wu": func(w Wait) script.Call { return w.Leave(0, 1, 3) },
	} {
		w := WaitNamed("c9", 1, letters)
		b := NewMarked(t, w)
		before := b.Everything()
		require.Equal(t, "9", b.Code(inner(w)), letters)
		require.Equal(t, before, b.Everything(), letters)
		b.Clear()
	}
}

// A marked hold is given to no other one. A release that names both ends it.
func TestTransferOfAMarkedHold(t *testing.T) {
	plain, reentrant := WaitNamed("c9", 1, "pu"), WaitNamed("c9", 1, "ru")
	other := strings.Replace(plain.Body(), plain.Hold(), "other", 1)
	give := func(from, to string) script.Call {
		args := []any{from, reentrant.Body(), to, OwnerNext, Lease.Milliseconds(), "next"}
		return script.Call{Script: script.ReentrantTransfer, Args: args}
	}
	either := script.Call{Script: script.ReentrantRelease, Args: []any{OwnerUs, "other", 0, 9, 0, "", reentrant.Hold()}}
	for _, tt := range []struct {
		holder  Wait
		refused []script.Call
		either  script.Call
	}{
		{plain, []script.Call{
			giveOf(plain.Body(), other, Lease), giveOf(other, plain.Body(), Lease),
		}, plainReleaseOfEither(other, plain.Body(), Keep)},
		{reentrant, []script.Call{give(reentrant.Hold(), "other"), give("other", reentrant.Hold())}, either},
	} {
		b := NewMarked(t, tt.holder)
		before := b.Everything()
		for _, call := range tt.refused {
			require.Equal(t, "9", b.Code(call))
			require.Equal(t, before, b.Everything())
		}
		if tt.holder == plain {
			require.Equal(t, "0", b.Code(giveOf(other, other+"2", Lease)), "neither is marked")
		}
		b.Steps(Step("either", tt.either, "9", nil))
	}
}

// The release of a marked node notifies the next RedLock. A call that waits is
// told the name of the hold without the mark.
func TestReleaseOfAMarkedNode(t *testing.T) {
	const value, held = "relock/1|p|h1.1|c1|host|1|label|1", "relock/1|p|!h1.1|c1|host|1|label|1"
	b := newRedNode(t, server, held, "c7:1:q")
	l := b.Listen("c7")
	b.Do("SET", b.Key, held, "PX", Lease.Milliseconds())
	answer := b.answer(wants(script.RedLockWait, Plain2, "c8:1:q"))
	require.Equal(t, "h1", answer[len(answer)-1])
	release := ReleaseOf(value, 0)
	release.Script = script.RedLockRelease
	require.Equal(t, "9", b.Code(release))
	b.requireListed(l, []string{"c7:1:q"}, "c8:1:q")
}

// What extends a hold, or adds a level, finds the mark, and changes nothing.
// The same is true of what would take the lock, sent by the waiter whose
// earlier copy took it. A poll names its hold: so its client learns of it.
func TestNothingExtendsAMarkedHold(t *testing.T) {
	eachMarked(t, func(t *testing.T, holder, next Wait) {
		b := NewMarked(t, holder, next)
		held := []string{holder.marked(holder.Held())}
		calls := []script.Call{holder.Renew(LongLease), holder.Try(), holder.Enqueue(), holder.Claim()}
		switch letters := holder.letters(); {
		case holder.isPermit(), letters[0] == 'p':
		case letters[0] == 'r':
			calls = append(calls, EnterOf(holder.Hold(), 2, 2, LongLease))
		default:
			calls = append(calls, holder.Enter(2, 0, 2, LongLease))
		}
		before := b.State().TTL
		for _, call := range calls {
			require.Equal(t, "9", b.Code(call), call.Args)
			b.Require("unchanged", held, next)
			require.LessOrEqual(t, b.State().TTL, before)
		}
		answer := b.Ask(holder.Poll(string(holder), 5))
		named := holder.Hold()
		if holder.isReadWrite() {
			named = string(holder)
		}
		require.Contains(t, answer, named)
		b.Require("not put back", held, next)
	})
}

// A marked hold beside others is taken no second time by a copy that comes
// late: its release would free only one of the two.
func TestLateCopyOfAMarkedHold(t *testing.T) {
	for name, two := range map[string][2]Wait{
		"permit": {PermitNamed("c9", 1, "u", 3, 0), PermitNamed("c1", 1, "u", 3, 0)},
		"reader": {WaitNamed("c9", 1, "su"), WaitNamed("c1", 1, "su")},
	} {
		w, other := two[0], two[1]
		for _, call := range []script.Call{w.Try(), w.Enqueue()} {
			t.Run(name, func(t *testing.T) {
				b := NewHeld(t, server, w, other)
				b.Mark(w)
				b.Steps(
					Step("late copy", call, "9", []string{w.marked(w.Held()), other.Held()}),
					Step("release", w.Release(), "9", []string{other.Held()}),
					Step("late copy of that", w.Release(), "0", []string{other.Held()}),
				)
			})
		}
	}
}

// A call for several locks has one that is marked no more. It hands that off
// when it is refused.
func TestMultiAcquireHandsOffAMarkedLock(t *testing.T) {
	w, next := WaitNamed("c9", 1, "pu"), WaitNamed("c1", 1, "pf")
	b := NewMarked(t, w, next)
	keys := script.Call{Script: script.MultiAcquire, Key: b.Key}.Keys()
	call := script.Call{
		Script: script.MultiAcquire, Together: append(keys, b.Key),
		Args: []any{Plain1, Lease.Milliseconds(), 1, w.Body(), 1, "", 0},
	}
	require.Equal(t, []string{"0", "1", "1"}, b.Ask(call)[:3])
	b.Require("handed off", []string{next.Reserved()})
}
