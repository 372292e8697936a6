package lua_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
)

// One call after another, for each kind and mode: the answer, what the lock
// becomes, and which waiters are left.
func TestQueueScriptAnswers(t *testing.T) {
	for _, letters := range allLetters {
		t.Run(letters, func(t *testing.T) {
			x, y, z := WaitNamed("c1", 1, letters), WaitNamed("c2", 1, letters), WaitNamed("c3", 1, letters)
			x2 := WaitNamed("c1", 2, letters)
			b := NewQueue(t, server)
			one, other, third := []string{x.Held()}, []string{y.Reserved()}, []string{z.Held()}
			b.Steps(
				Step("try, free", x.Try(), "1", one),
				Step("try, held by it", x.Try(), "1", one),
				Step("try, held", y.Try(), "0", one),
				Step("claim, held by others, not queued", y.Claim(), "3", one),
				Step("enqueue, held by it", x.Enqueue(), "1", one),
				Step("claim, held by it", x.Claim(), "1", one),
				Step("enqueue, held", y.Enqueue(), "0", one, y),
				Step("claim, held by others", y.Claim(), "0", one, y),
				Step("enqueue, the third", z.Enqueue(), "0", one, y, z),
				Step("enqueue, another of the holder's client", x2.Enqueue(), "0", one, y, z, x2),
				Step("cancel of the hold, without the flag", x.Cancel(0), "1", one, y, z, x2),
				Step("cancel of a wait that does not hold", x2.Cancel(1), "1", one, y, z),
				Step("cancel for nobody, held", Nobody.Cancel(1), "1", one, y, z),
			)
			b.Do("SET", b.Key, y.Reserved(), "PX", Claim.Milliseconds())
			b.Do("ZREM", b.QueueKey(), string(y))
			b.Steps(
				Step("try, reserved for others", x2.Try(), "0", other, z),
				Step("claim, reserved for others", z.Claim(), "0", other, z),
				Step("claim, reserved for others, not queued", x2.Claim(), "3", other, z),
				Step("cancel, reserved for others", x2.Cancel(1), "1", other, z),
				Step("cancel for nobody, reserved", CancelNobody, "1", other, z),
				Step("enqueue, reserved for others", x2.Enqueue(), "0", other, z, x2),
				Step("release of a hold that is over", x.Release(), map[byte]string{'p': "0", 'r': "-1"}[letters[0]], other, z, x2),
			)
			b.RequireTTL(Claim)
			b.Steps(Step("claim, reserved for it", y.Claim(), "1", []string{y.Held()}, z, x2))
			b.RequireTTL(Lease)
			b.Do("SET", b.Key, z.Reserved(), "PX", Claim.Milliseconds())
			b.Do("ZREM", b.QueueKey(), string(z))
			b.Steps(Step("enqueue, reserved for it", z.EnqueueAgain("5", ""), "1", third, x2))
			b.RequireTTL(Lease)
			b.Steps(
				Step("enqueue after an earlier hold of others", y.EnqueueAgain("", "c9:1"), "0", third, x2, y),
				Step("cancel, not granted", y.Cancel(0), "1", third, x2),
				Step("enqueue after an earlier hold of the waiter", y.EnqueueAgain("", z.Hold()), "1", []string{y.Held()}, x2),
			)
			b.RequireTTL(Lease)
		})
	}
}

// A lock that is free: an unfair wait takes it unless the first live waiter is
// fair, a fair one only if no live waiter was there before.
func TestQueueScriptTakesAFreeLock(t *testing.T) {
	for _, letters := range allLetters {
		fair := letters[1] == 'f'
		x, y := WaitNamed("c1", 1, letters), WaitNamed("c2", 1, letters)
		for _, tt := range []struct {
			name   string
			script script.Call
			line   []Wait // c1 lives
			takes  bool
			left   []Wait
		}{
			{"enqueue, nobody waits", y.Enqueue(), nil, true, nil},
			{"enqueue, others wait", y.Enqueue(), []Wait{x}, !fair, []Wait{x}},
			{"enqueue, others are gone", y.Enqueue(), StaleWaits(3, "pf"), true, StaleWaits(3, "pf")},
			{"enqueue again, the first", y.EnqueueAgain("7", ""), []Wait{y, x}, true, []Wait{x}},
			{
				"enqueue again, the first that lives", y.EnqueueAgain("7", ""),
				append(StaleWaits(3, "pf"), y, x), true, append(StaleWaits(3, "pf"), x),
			},
			{"enqueue again, not the first", y.EnqueueAgain("7", ""), []Wait{x, y}, !fair, []Wait{x}},
			{"claim, the first", y.Claim(), []Wait{y, x}, true, []Wait{x}},
			{"claim, the first that lives", y.Claim(), append(StaleWaits(3, "pf"), y, x), true, append(StaleWaits(3, "pf"), x)},
			{"claim, not the first", y.Claim(), []Wait{x, y}, !fair, []Wait{x}},
			{"claim, not queued", y.Claim(), nil, false, nil},
			{"try, nobody waits", y.Try(), nil, true, nil},
			{"try, others are gone", y.Try(), StaleWaits(3, "pf"), true, nil},
			{"try, others wait", y.Try(), []Wait{x}, false, []Wait{x}},
		} {
			t.Run(letters+"/"+tt.name, func(t *testing.T) {
				b := NewQueue(t, server)
				if tt.line != nil {
					b.Queued(tt.line...)
				}
				code := b.Code(tt.script)
				require.Equal(t, tt.takes, code == "1", code)
				require.Equal(t, tt.takes, b.Lock() == y.Held(), b.Lock())
				if !tt.takes {
					return
				}
				b.RequireTTL(Lease)
				left := slices.DeleteFunc(tt.left, func(w Wait) bool { return w.Client() == gone })
				b.RequireWaits("", left...)
			})
		}
	}
}

// The lease of a hold that a script finds to be its own starts anew, and is
// never shortened.
func TestQueueScriptRepeatedGrantKeepsTheLease(t *testing.T) {
	for _, letters := range allLetters {
		w := WaitNamed("c1", 1, letters)
		b := NewHeld(t, server, w)
		for _, call := range []script.Call{w.Try(), w.Enqueue(), w.Claim()} {
			b.Do("PEXPIRE", b.Key, 500)
			b.RequireDone(call)
			b.RequireTTL(Lease)
			b.Do("PEXPIRE", b.Key, LongLease.Milliseconds())
			b.RequireDone(call)
			b.RequireTTL(LongLease)
			require.Equal(t, w.Held(), b.Lock())
			require.Equal(t, int64(0), b.Do("EXISTS", b.QueueKey(), b.HeartbeatsKey()))
		}
	}
}
