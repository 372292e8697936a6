package lua_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

var allLetters = []string{"pu", "pf", "ru", "rf"}

// One call after another, for each kind and mode: the answer, what the lock
// becomes, and who waits then.
func TestQueueScriptAnswers(t *testing.T) {
	type step struct {
		name   string
		script script.Call
		answer string
		lock   string
		waits  []string
	}
	s := redistest.Shared(t)
	for _, letters := range allLetters {
		t.Run(letters, func(t *testing.T) {
			x, y, z := scripttest.WaitNamed("c1", 1, letters), scripttest.WaitNamed("c2", 1, letters), scripttest.WaitNamed("c3", 1, letters)
			x2 := scripttest.WaitNamed("c1", 2, letters)
			queued := func(all ...scripttest.Wait) []string {
				names := []string{}
				for _, w := range all {
					names = append(names, string(w))
				}
				return names
			}
			b := scripttest.NewQueue(t, s)
			do := func(steps ...step) {
				t.Helper()
				for _, step := range steps {
					require.Equal(t, step.answer, b.Code(step.script), step.name)
					require.Equal(t, step.lock, b.Lock(), step.name)
					require.Equal(t, step.waits, b.Waits(), step.name)
				}
			}
			do(
				step{"try, free", x.Try(), "1", x.Held(), queued()},
				step{"try, held by it", x.Try(), "1", x.Held(), queued()},
				step{"try, held", y.Try(), "0", x.Held(), queued()},
				step{"claim, held by others, not queued", y.Claim(), "3", x.Held(), queued()},
				step{"enqueue, held by it", x.Enqueue(), "1", x.Held(), queued()},
				step{"claim, held by it", x.Claim(), "1", x.Held(), queued()},
				step{"enqueue, held", y.Enqueue(), "0", x.Held(), queued(y)},
				step{"claim, held by others", y.Claim(), "0", x.Held(), queued(y)},
				step{"enqueue, the third", z.Enqueue(), "0", x.Held(), queued(y, z)},
				step{"enqueue, another of the holder's client", x2.Enqueue(), "0", x.Held(), queued(y, z, x2)},
				step{"cancel of the hold, without the flag", x.Cancel(0), "1", x.Held(), queued(y, z, x2)},
				step{"cancel of a wait that does not hold", x2.Cancel(1), "1", x.Held(), queued(y, z)},
				step{"cancel for nobody, held", scripttest.Nobody.Cancel(1), "1", x.Held(), queued(y, z)},
			)
			b.Do("SET", b.Key, y.Reserved(), "PX", scripttest.Claim.Milliseconds())
			b.Do("ZREM", b.QueueKey(), string(y))
			do(
				step{"try, reserved for others", x2.Try(), "0", y.Reserved(), queued(z)},
				step{"claim, reserved for others", z.Claim(), "0", y.Reserved(), queued(z)},
				step{"claim, reserved for others, not queued", x2.Claim(), "3", y.Reserved(), queued(z)},
				step{"cancel, reserved for others", x2.Cancel(1), "1", y.Reserved(), queued(z)},
				step{"cancel for nobody, reserved", scripttest.Nobody.Cancel(0), "1", y.Reserved(), queued(z)},
				step{"enqueue, reserved for others", x2.Enqueue(), "0", y.Reserved(), queued(z, x2)},
				step{"release of a hold that is over", x.Release(), map[byte]string{'p': "0", 'r': "-1"}[letters[0]], y.Reserved(), queued(z, x2)},
			)
			b.RequireTTL(scripttest.Claim)
			do(step{"claim, reserved for it", y.Claim(), "1", y.Held(), queued(z, x2)})
			b.RequireTTL(scripttest.Lease)
			b.Do("SET", b.Key, z.Reserved(), "PX", scripttest.Claim.Milliseconds())
			b.Do("ZREM", b.QueueKey(), string(z))
			do(step{"enqueue, reserved for it", z.EnqueueAgain("5", ""), "1", z.Held(), queued(x2)})
			b.RequireTTL(scripttest.Lease)
			do(
				step{"enqueue after an earlier hold of others", y.EnqueueAgain("", "c9:1"), "0", z.Held(), queued(x2, y)},
				step{"cancel, not granted", y.Cancel(0), "1", z.Held(), queued(x2)},
				step{"enqueue after an earlier hold of its own", y.EnqueueAgain("", z.Hold()), "1", y.Held(), queued(x2)},
			)
			b.RequireTTL(scripttest.Lease)
		})
	}
}

// A lock that is free: an unfair wait takes it, a fair one only when nobody who
// lives was there before.
func TestQueueScriptTakesAFreeLock(t *testing.T) {
	s := redistest.Shared(t)
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
			{"enqueue, others are gone", y.Enqueue(), scripttest.StaleWaits(3), true, scripttest.StaleWaits(3)},
			{"enqueue again, the first", y.EnqueueAgain("7", ""), []scripttest.Wait{y, x}, true, []scripttest.Wait{x}},
			{"enqueue again, the first that lives", y.EnqueueAgain("7", ""), append(scripttest.StaleWaits(3), y, x), true, append(scripttest.StaleWaits(3), x)},
			{"enqueue again, not the first", y.EnqueueAgain("7", ""), []scripttest.Wait{x, y}, !fair, []scripttest.Wait{x}},
			{"claim, the first", y.Claim(), []scripttest.Wait{y, x}, true, []scripttest.Wait{x}},
			{"claim, the first that lives", y.Claim(), append(scripttest.StaleWaits(3), y, x), true, append(scripttest.StaleWaits(3), x)},
			{"claim, not the first", y.Claim(), []scripttest.Wait{x, y}, !fair, []scripttest.Wait{x}},
			{"claim, not queued", y.Claim(), nil, false, nil},
			{"try, nobody waits", y.Try(), nil, true, nil},
			{"try, others are gone", y.Try(), scripttest.StaleWaits(3), true, nil},
			{"try, others wait", y.Try(), []scripttest.Wait{x}, false, []scripttest.Wait{x}},
		} {
			t.Run(letters+"/"+tt.name, func(t *testing.T) {
				b := scripttest.NewQueue(t, s)
				if tt.line != nil {
					b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}})
					b.Line(time.Minute, tt.line...)
				}
				code := b.Code(tt.script)
				require.Equal(t, tt.takes, code == "1", code)
				require.Equal(t, tt.takes, b.Lock() == y.Held(), b.Lock())
				if !tt.takes {
					return
				}
				b.RequireTTL(scripttest.Lease)
				left := []string{}
				for _, w := range tt.left {
					if !fair || w.Client() != "gone" { // an unfair one looks at nobody
						left = append(left, string(w))
					}
				}
				require.Equal(t, left, b.Waits())
			})
		}
	}
}

// The lease of a hold that a script finds to be its own starts anew, and is
// never shortened.
func TestQueueScriptRepeatedGrantKeepsTheLease(t *testing.T) {
	s := redistest.Shared(t)
	for _, letters := range allLetters {
		w := scripttest.WaitNamed("c1", 1, letters)
		for name, script := range map[string]script.Call{"try": w.Try(), "enqueue": w.Enqueue(), "claim": w.Claim()} {
			t.Run(letters+"/"+name, func(t *testing.T) {
				b := scripttest.NewQueue(t, s)
				require.Equal(t, "1", b.Code(w.Try()))
				b.Do("PEXPIRE", b.Key, 500)
				require.Equal(t, "1", b.Code(script))
				b.RequireTTL(scripttest.Lease)
				b.Do("PEXPIRE", b.Key, scripttest.LongLease.Milliseconds())
				require.Equal(t, "1", b.Code(script))
				b.RequireTTL(scripttest.LongLease)
				require.Equal(t, w.Held(), b.Lock())
				require.Equal(t, int64(0), b.Do("EXISTS", b.QueueKey(), b.BeatsKey()))
			})
		}
	}
}
