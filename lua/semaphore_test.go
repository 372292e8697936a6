package lua_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
)

// permits returns the waits of so many clients for a semaphore.
func permits(clients int, mode string, limit int, keep time.Duration) (all []Wait) {
	for i := range clients {
		all = append(all, PermitNamed(fmt.Sprint("c", i+1), 1, mode, limit, keep))
	}
	return all
}

func inUse(waits ...Wait) (all []string) {
	for _, w := range waits {
		all = append(all, w.Reads())
	}
	return all
}

// One call after another, for each mode: the answer, which permits are taken,
// and which waiters are left.
func TestSemaphoreScriptAnswers(t *testing.T) {
	for _, mode := range []string{"f", "u"} {
		t.Run(mode, func(t *testing.T) {
			all := permits(5, mode, 2, 0)
			v, w, x, y, z := all[0], all[1], all[2], all[3], all[4]
			b := NewQueue(t, server)
			b.Steps(
				Step("release, free", v.Release(), "0", nil),
				Step("claim, free, not queued", v.Claim(), "3", nil),
				Step("try, free", v.Try(), "1", inUse(v)),
				Step("try, has it", v.Try(), "1", inUse(v)),
				Step("enqueue, beside another", w.Enqueue(), "1", inUse(v, w)),
				Step("enqueue, has it", w.Enqueue(), "1", inUse(v, w)),
				Step("claim, has it", w.Claim(), "1", inUse(v, w)),
				Step("try, all are taken", x.Try(), "0", inUse(v, w)),
				Step("claim, not queued", x.Claim(), "3", inUse(v, w)),
				Step("release", w.Release(), "1", inUse(v)),
				Step("again", w.Release(), "0", inUse(v)),
				Step("renew", v.Renew(LongLease), "1", inUse(v)),
				Step("renew, not held", w.Renew(LongLease), "0", inUse(v)),
				Step("try, beside another", w.Try(), "1", inUse(v, w)),
				Step("enqueue, all are taken", x.Enqueue(), "0", inUse(v, w), x),
				Step("claim, all are taken", x.Claim(), "0", inUse(v, w), x),
				Step("enqueue, the queue is full", y.EnqueueLimited("", 1), "5", inUse(v, w), x),
			)
			b.Line(time.Minute, x) // it has waited for long
			b.Steps(
				Step("enqueue behind it", y.Enqueue(), "0", inUse(v, w), x, y),
				Step("release to the first", v.Release(), "1", append(inUse(w), x.Reserved()), y),
				Step("try, reserved", z.Try(), "0", append(inUse(w), x.Reserved()), y),
				Step("claim, reserved for another", y.Claim(), "0", append(inUse(w), x.Reserved()), y),
				Step("claim, reserved for it", x.Claim(), "1", inUse(w, x), y),
				Step("cancel with the hold", w.Cancel(1), "1", append(inUse(x), y.Reserved())),
				Step("enqueue, reserved for it", y.EnqueueAgain("7", ""), "1", inUse(x, y)),
				Step("cancel without the hold", y.Cancel(0), "1", inUse(x, y)),
				Step("release", x.Release(), "1", inUse(y)),
				Step("release of the last", y.Release(), "1", nil),
			)
			require.Equal(t, int64(0), b.Do("EXISTS", b.Key, b.QueueKey(), b.HeartbeatsKey(), b.Key+script.HoldersSuffix))
		})
	}
}

// A read/write lock and a semaphore do not mix.
func TestSemaphoreScriptConflicts(t *testing.T) {
	kinds := map[string]Wait{"semaphore": permits(1, "f", 2, 0)[0], "read/write": WaitNamed("c1", 1, "sf")}
	holders := map[string]Wait{"semaphore": permits(2, "f", 2, 0)[1], "read/write": WaitNamed("c2", 1, "sf")}
	for there, holder := range holders {
		for asked, w := range kinds {
			if there == asked {
				continue
			}
			t.Run(there+", asked for "+asked, func(t *testing.T) {
				b := NewHeld(t, server, holder)
				b.Queued(holder)
				before := b.Everything()
				for _, call := range []script.Call{w.Try(), w.Enqueue(), w.Claim(), w.Release(), w.Renew(Lease)} {
					require.Equal(t, "-1", b.Code(call))
				}
				require.Equal(t, before, b.Everything())
			})
		}
	}
	b := NewHeld(t, server, holders["semaphore"])
	require.Equal(t, "-1", b.Code(kinds["read/write"].End("look", "")))
	require.Equal(t, []string{"read", "cf"}, b.Ask(rwInspect)[:2])
	b = NewHeld(t, server, holders["read/write"])
	require.Equal(t, "-1", b.Code(kinds["semaphore"].End("look", "")))
	require.Equal(t, []string{"read", "f"}, b.Ask(rwInspect)[:2])
}

// Each caller keeps to its own limit. What one script reserves counts too.
func TestSemaphoreScriptLimits(t *testing.T) {
	few, more := permits(4, "f", 2, 0), permits(6, "f", 4, 0)
	b := NewHeld(t, server, few[0], few[1])
	b.Steps(
		Step("its limit is reached", few[2].Try(), "0", inUse(few[:2]...)),
		Step("that of another is not", more[2].Try(), "1", inUse(few[:3]...)),
		Step("nor is it for one more", more[3].Try(), "1", inUse(few[:4]...)),
		Step("now it is", more[4].Try(), "0", inUse(few[:4]...)),
	)
	low := PermitNamed("c7", 1, "f", 2, 0)
	b.Queued(low)
	b.Steps(Step("the first waiter's limit counts, not the releaser's", more[3].Release(), "1", inUse(few[:3]...), low))

	b = NewQueue(t, server)
	waits := permits(6, "f", 4, 0)
	b.RequireDone(waits[0].Try(), waits[1].Try())
	b.Queued(waits[2:]...)
	b.RequireDone(SemaphoreCancelNobody)
	b.Require("as many as fit", append(inUse(waits[:2]...), waits[2].Reserved(), waits[3].Reserved()), waits[4:]...)
	b.RequireDone(waits[2].Claim())
	b.Require("the others wait", append(inUse(waits[:3]...), waits[3].Reserved()), waits[4:]...)

	b = NewHeld(t, server, waits[0])
	b.Queued(waits[1])
	b.RequireDone(SemaphoreCancelNobody)
	b.Steps(Step("a waiter takes its reservation, not one more", waits[1].EnqueueAgain("7", ""), "1", inUse(waits[:2]...)))
}

// A waiter of a lower limit is not passed by one behind it. The limit of the
// waiter counts in each script that hands off.
func TestSemaphoreScriptHeadOfLine(t *testing.T) {
	low, high := PermitNamed("c8", 1, "f", 1, 0), PermitNamed("c9", 1, "f", 9, 0)
	holders := permits(3, "f", 3, 0)
	b := NewHeld(t, server, holders...)
	b.Queued(low, high)
	b.Steps(
		Step("two are taken", holders[0].Release(), "1", inUse(holders[1:]...), low, high),
		Step("one is", holders[1].Release(), "1", inUse(holders[2]), low, high),
		Step("a newcomer", PermitNamed("c7", 1, "f", 9, 0).Try(), "0", inUse(holders[2]), low, high),
		Step("a claim of the second", high.Claim(), "0", inUse(holders[2]), low, high),
		Step("a poll", low.Poll(string(low), 5), "1", inUse(holders[2]), low, high),
		Step("none is", holders[2].Release(), "1", []string{low.Reserved(), high.Reserved()}),
	)
}

// A waiter learns when a permit ends, when a minimum hold may end, and polls no
// later than a permit that it would take now could end.
func TestSemaphoreScriptNextEnd(t *testing.T) {
	const sooner, keep = 5 * time.Second, 9 * time.Second
	plain, kept := PermitNamed("c1", 1, "f", 1, 0), PermitNamed("c2", 1, "f", 1, keep)
	waits, fast := PermitNamed("c3", 1, "f", 1, 0), PermitNamed("c4", 1, "f", 1, sooner)
	for name, tt := range map[string]struct {
		holder Wait
		call   script.Call
		want   time.Duration
	}{
		"the lease":                  {plain, waits.Enqueue(), Lease},
		"the lease, by a poll":       {plain, waits.Poll(string(waits), 5), Lease},
		"a minimum hold":             {kept, waits.Enqueue(), keep},
		"a minimum hold, by a poll":  {kept, waits.Poll(string(waits), 5), keep},
		"its own":                    {plain, fast.Enqueue(), sooner},
		"its own, by a poll":         {plain, fast.Poll(string(fast), 5), sooner},
		"its own is longer":          {kept, PermitNamed("c4", 1, "f", 1, LongLease).Enqueue(), keep},
		"a poll that lists no waits": {plain, waits.Poll(), Lease},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewHeld(t, server, tt.holder)
			left := time.Duration(number(t, b.Ask(tt.call)[2])) * time.Millisecond
			RequireExpiry(t, tt.want, left)
		})
	}
	b := NewQueue(t, server)
	require.Equal(t, "-1", b.Ask(waits.Poll())[2], "nobody has a permit")
	b.RequireDone(kept.Try())
	require.Equal(t, "2", b.Code(kept.Release()))
	left := time.Duration(number(t, b.Ask(waits.Enqueue())[2])) * time.Millisecond
	RequireExpiry(t, keep, left)
}

// With the lock's key alone a permit is renewed and released.
func TestSemaphoreScriptsWithTheLocksKeyAlone(t *testing.T) {
	alone := func(b *Queue, call script.Call) any {
		r := call.Script.BySource([]string{b.Key}, call.Args)
		return b.Do(r.Cmd, r.Args...)
	}
	v, w, x := PermitNamed("c1", 1, "f", 2, 0), PermitNamed("c2", 1, "f", 2, Keep), PermitNamed("c3", 1, "f", 2, 0)
	b := NewHeld(t, server, v, w)
	b.Queued(x)
	require.Equal(t, int64(1), alone(b, v.Renew(LongLease)))
	require.Equal(t, int64(1), alone(b, v.Release()))
	require.Equal(t, int64(2), alone(b, w.Release()))
	b.Require("", []string{w.Kept()}, x)
	require.Equal(t, string(x), b.Ask(x.Poll(string(x), 5))[4])
}

// No script examines more than 128 waits. One that finds more reports it, and a
// cancel for nobody continues.
func TestSemaphoreScriptHandOffLimit(t *testing.T) {
	live, holder := PermitNamed("c1", 1, "f", 1, 0), PermitNamed("c9", 1, "f", 1, 0)
	var stale []Wait
	for n := range 300 {
		stale = append(stale, PermitNamed("gone", n+1, "f", 1, 0))
	}
	for name, call := range map[string]script.Call{
		"release": holder.Release(), "force": frees(holder), "cancel": holder.Cancel(1),
	} {
		t.Run(name, func(t *testing.T) {
			b := NewHeld(t, server, holder)
			b.Queued(append(stale[:len(stale):len(stale)], live)...)
			answer := b.Ask(call)
			if name == "force" {
				answer = answer[2:]
			}
			require.Equal(t, "4", answer[0])
			require.Equal(t, string(stale[128]), b.Waits()[0])
			next := script.Call{Script: call.Script.ContinueAfter(), Args: []any{"", 0}}
			require.Equal(t, "4", b.Code(next))
			require.Equal(t, "1", b.Code(next))
			require.Equal(t, []string{live.Reserved()}, b.Entries())
		})
	}
}
