package lua_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/scripttest"
)

// One call after another, for each kind and mode: the answer, what the lock
// becomes, and which waiters are left.
func TestQueueScriptAnswers(t *testing.T) {
	for _, letters := range allLetters {
		t.Run(letters, func(t *testing.T) {
			x, y, z := scripttest.WaitNamed("c1", 1, letters), scripttest.WaitNamed("c2", 1, letters), scripttest.WaitNamed("c3", 1, letters)
			x2 := scripttest.WaitNamed("c1", 2, letters)
			b := scripttest.NewQueue(t, server)
			one, other, third := []string{x.Held()}, []string{y.Reserved()}, []string{z.Held()}
			b.Steps(
				scripttest.Step("try, free", x.Try(), "1", one),
				scripttest.Step("try, held by it", x.Try(), "1", one),
				scripttest.Step("try, held", y.Try(), "0", one),
				scripttest.Step("claim, held by others, not queued", y.Claim(), "3", one),
				scripttest.Step("enqueue, held by it", x.Enqueue(), "1", one),
				scripttest.Step("claim, held by it", x.Claim(), "1", one),
				scripttest.Step("enqueue, held", y.Enqueue(), "0", one, y),
				scripttest.Step("claim, held by others", y.Claim(), "0", one, y),
				scripttest.Step("enqueue, the third", z.Enqueue(), "0", one, y, z),
				scripttest.Step("enqueue, another of the holder's client", x2.Enqueue(), "0", one, y, z, x2),
				scripttest.Step("cancel of the hold, without the flag", x.Cancel(0), "1", one, y, z, x2),
				scripttest.Step("cancel of a wait that does not hold", x2.Cancel(1), "1", one, y, z),
				scripttest.Step("cancel for nobody, held", scripttest.Nobody.Cancel(1), "1", one, y, z),
			)
			b.Do("SET", b.Key, y.Reserved(), "PX", scripttest.Claim.Milliseconds())
			b.Do("ZREM", b.QueueKey(), string(y))
			b.Steps(
				scripttest.Step("try, reserved for others", x2.Try(), "0", other, z),
				scripttest.Step("claim, reserved for others", z.Claim(), "0", other, z),
				scripttest.Step("claim, reserved for others, not queued", x2.Claim(), "3", other, z),
				scripttest.Step("cancel, reserved for others", x2.Cancel(1), "1", other, z),
				scripttest.Step("cancel for nobody, reserved", scripttest.CancelNobody, "1", other, z),
				scripttest.Step("enqueue, reserved for others", x2.Enqueue(), "0", other, z, x2),
				scripttest.Step("release of a hold that is over", x.Release(), map[byte]string{'p': "0", 'r': "-1"}[letters[0]], other, z, x2),
			)
			b.RequireTTL(scripttest.Claim)
			b.Steps(scripttest.Step("claim, reserved for it", y.Claim(), "1", []string{y.Held()}, z, x2))
			b.RequireTTL(scripttest.Lease)
			b.Do("SET", b.Key, z.Reserved(), "PX", scripttest.Claim.Milliseconds())
			b.Do("ZREM", b.QueueKey(), string(z))
			b.Steps(scripttest.Step("enqueue, reserved for it", z.EnqueueAgain("5", ""), "1", third, x2))
			b.RequireTTL(scripttest.Lease)
			b.Steps(
				scripttest.Step("enqueue after an earlier hold of others", y.EnqueueAgain("", "c9:1"), "0", third, x2, y),
				scripttest.Step("cancel, not granted", y.Cancel(0), "1", third, x2),
				scripttest.Step("enqueue after an earlier hold of the waiter", y.EnqueueAgain("", z.Hold()), "1", []string{y.Held()}, x2),
			)
			b.RequireTTL(scripttest.Lease)
		})
	}
}

// A lock that is free: an unfair wait takes it, a fair one only if no live
// waiter was there before.
func TestQueueScriptTakesAFreeLock(t *testing.T) {
	for _, letters := range allLetters {
		fair := letters[1] == 'f'
		x, y := scripttest.WaitNamed("c1", 1, letters), scripttest.WaitNamed("c2", 1, letters)
		for _, tt := range []struct {
			name   string
			script script.Call
			line   []scripttest.Wait // c1 lives
			takes  bool
			left   []scripttest.Wait
		}{
			{"enqueue, nobody waits", y.Enqueue(), nil, true, nil},
			{"enqueue, others wait", y.Enqueue(), []scripttest.Wait{x}, !fair, []scripttest.Wait{x}},
			{"enqueue, others are gone", y.Enqueue(), scripttest.StaleWaits(3, "pf"), true, scripttest.StaleWaits(3, "pf")},
			{"enqueue again, the first", y.EnqueueAgain("7", ""), []scripttest.Wait{y, x}, true, []scripttest.Wait{x}},
			{"enqueue again, the first that lives", y.EnqueueAgain("7", ""), append(scripttest.StaleWaits(3, "pf"), y, x), true, append(scripttest.StaleWaits(3, "pf"), x)},
			{"enqueue again, not the first", y.EnqueueAgain("7", ""), []scripttest.Wait{x, y}, !fair, []scripttest.Wait{x}},
			{"claim, the first", y.Claim(), []scripttest.Wait{y, x}, true, []scripttest.Wait{x}},
			{"claim, the first that lives", y.Claim(), append(scripttest.StaleWaits(3, "pf"), y, x), true, append(scripttest.StaleWaits(3, "pf"), x)},
			{"claim, not the first", y.Claim(), []scripttest.Wait{x, y}, !fair, []scripttest.Wait{x}},
			{"claim, not queued", y.Claim(), nil, false, nil},
			{"try, nobody waits", y.Try(), nil, true, nil},
			{"try, others are gone", y.Try(), scripttest.StaleWaits(3, "pf"), true, nil},
			{"try, others wait", y.Try(), []scripttest.Wait{x}, false, []scripttest.Wait{x}},
		} {
			t.Run(letters+"/"+tt.name, func(t *testing.T) {
				b := scripttest.NewQueue(t, server)
				if tt.line != nil {
					b.Queued(tt.line...)
				}
				code := b.Code(tt.script)
				require.Equal(t, tt.takes, code == "1", code)
				require.Equal(t, tt.takes, b.Lock() == y.Held(), b.Lock())
				if !tt.takes {
					return
				}
				b.RequireTTL(scripttest.Lease)
				left := slices.DeleteFunc(tt.left, func(w scripttest.Wait) bool { return fair && w.Client() == "gone" }) // an unfair one looks at nobody
				b.RequireWaits("", left...)
			})
		}
	}
}

// The lease of a hold that a script finds to be its own starts anew, and is
// never shortened.
func TestQueueScriptRepeatedGrantKeepsTheLease(t *testing.T) {
	for _, letters := range allLetters {
		w := scripttest.WaitNamed("c1", 1, letters)
		b := scripttest.NewHeld(t, server, w)
		for _, call := range []script.Call{w.Try(), w.Enqueue(), w.Claim()} {
			b.Do("PEXPIRE", b.Key, 500)
			b.RequireDone(call)
			b.RequireTTL(scripttest.Lease)
			b.Do("PEXPIRE", b.Key, scripttest.LongLease.Milliseconds())
			b.RequireDone(call)
			b.RequireTTL(scripttest.LongLease)
			require.Equal(t, w.Held(), b.Lock())
			require.Equal(t, int64(0), b.Do("EXISTS", b.QueueKey(), b.HeartbeatsKey()))
		}
	}
}
