package relock

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

var allLetters = []string{"pu", "pf", "ru", "rf"}

// requireTTL checks what is left of the lock's expiry.
func (b *queueScripts) requireTTL(want time.Duration) {
	b.Helper()
	requireExpiry(b, want, b.state().ttl)
}

// requireWaiting checks that an answer says that the wait stands in the queue, for how long the lock lasts, and returns its ticket.
func (b *queueScripts) requireWaiting(w scriptWait, left time.Duration, answer []string) string {
	b.Helper()
	require.Len(b, answer, 4)
	require.Equal(b, "0", answer[0])
	require.Contains(b, b.waits(), string(w))
	require.Equal(b, strconv.Itoa(len(b.waits())-1), answer[3], "others in the queue")
	require.Equal(b, string(b.do("ZSCORE", b.queue(), string(w)).([]byte)), answer[1])
	ms, err := strconv.Atoi(answer[2])
	require.NoError(b, err)
	requireExpiry(b, left, time.Duration(ms)*time.Millisecond)
	return answer[1]
}

// One call after another, for each kind and mode: the answer, what the lock becomes, and who waits then.
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
			x, y, z := waitNamed("c1", 1, letters), waitNamed("c2", 1, letters), waitNamed("c3", 1, letters)
			x2 := waitNamed("c1", 2, letters)
			queued := func(all ...scriptWait) []string {
				names := []string{}
				for _, w := range all {
					names = append(names, string(w))
				}
				return names
			}
			b := newQueueScripts(t, s)
			do := func(steps ...step) {
				t.Helper()
				for _, step := range steps {
					require.Equal(t, step.answer, b.code(step.script), step.name)
					require.Equal(t, step.lock, b.lock(), step.name)
					require.Equal(t, step.waits, b.waits(), step.name)
				}
			}
			do(
				step{"try, free", x.try(), "1", x.held(), queued()},
				step{"try, held by it", x.try(), "1", x.held(), queued()},
				step{"try, held", y.try(), "0", x.held(), queued()},
				step{"claim, held by others, not queued", y.claim(), "3", x.held(), queued()},
				step{"enqueue, held by it", x.enqueue(), "1", x.held(), queued()},
				step{"claim, held by it", x.claim(), "1", x.held(), queued()},
				step{"enqueue, held", y.enqueue(), "0", x.held(), queued(y)},
				step{"claim, held by others", y.claim(), "0", x.held(), queued(y)},
				step{"enqueue, the third", z.enqueue(), "0", x.held(), queued(y, z)},
				step{"enqueue, another of the holder's client", x2.enqueue(), "0", x.held(), queued(y, z, x2)},
				step{"cancel of the hold, without the flag", x.cancel(0), "1", x.held(), queued(y, z, x2)},
				step{"cancel of a wait that does not hold", x2.cancel(1), "1", x.held(), queued(y, z)},
				step{"cancel for nobody, held", nobody.cancel(1), "1", x.held(), queued(y, z)},
			)
			b.do("SET", b.key, y.reserved(), "PX", scriptClaim.Milliseconds())
			b.do("ZREM", b.queue(), string(y))
			do(
				step{"try, reserved for others", x2.try(), "0", y.reserved(), queued(z)},
				step{"claim, reserved for others", z.claim(), "0", y.reserved(), queued(z)},
				step{"claim, reserved for others, not queued", x2.claim(), "3", y.reserved(), queued(z)},
				step{"cancel, reserved for others", x2.cancel(1), "1", y.reserved(), queued(z)},
				step{"cancel for nobody, reserved", nobody.cancel(0), "1", y.reserved(), queued(z)},
				step{"enqueue, reserved for others", x2.enqueue(), "0", y.reserved(), queued(z, x2)},
				step{"release of a hold that is over", x.release(), map[byte]string{'p': "0", 'r': "-1"}[letters[0]], y.reserved(), queued(z, x2)},
			)
			b.requireTTL(scriptClaim)
			do(step{"claim, reserved for it", y.claim(), "1", y.held(), queued(z, x2)})
			b.requireTTL(scriptLease)
			b.do("SET", b.key, z.reserved(), "PX", scriptClaim.Milliseconds())
			b.do("ZREM", b.queue(), string(z))
			do(step{"enqueue, reserved for it", z.enqueueAgain("5", ""), "1", z.held(), queued(x2)})
			b.requireTTL(scriptLease)
			do(
				step{"enqueue after an earlier hold of others", y.enqueueAgain("", "c9:1"), "0", z.held(), queued(x2, y)},
				step{"cancel, not granted", y.cancel(0), "1", z.held(), queued(x2)},
				step{"enqueue after an earlier hold of its own", y.enqueueAgain("", z.hold()), "1", y.held(), queued(x2)},
			)
			b.requireTTL(scriptLease)
		})
	}
}

// A lock that is free: an unfair wait takes it, a fair one only when nobody who lives was there before.
func TestQueueScriptTakesAFreeLock(t *testing.T) {
	s := redistest.Shared(t)
	for _, letters := range allLetters {
		fair := letters[1] == 'f'
		x, y := waitNamed("c1", 1, letters), waitNamed("c2", 1, letters)
		for _, tt := range []struct {
			name   string
			script script.Call
			line   []scriptWait // c1 lives
			takes  bool
			left   []scriptWait
		}{
			{"enqueue, nobody waits", y.enqueue(), nil, true, nil},
			{"enqueue, others wait", y.enqueue(), []scriptWait{x}, !fair, []scriptWait{x}},
			{"enqueue, others are gone", y.enqueue(), staleWaits(3), true, staleWaits(3)},
			{"enqueue again, the first", y.enqueueAgain("7", ""), []scriptWait{y, x}, true, []scriptWait{x}},
			{"enqueue again, the first that lives", y.enqueueAgain("7", ""), append(staleWaits(3), y, x), true, append(staleWaits(3), x)},
			{"enqueue again, not the first", y.enqueueAgain("7", ""), []scriptWait{x, y}, !fair, []scriptWait{x}},
			{"claim, the first", y.claim(), []scriptWait{y, x}, true, []scriptWait{x}},
			{"claim, the first that lives", y.claim(), append(staleWaits(3), y, x), true, append(staleWaits(3), x)},
			{"claim, not the first", y.claim(), []scriptWait{x, y}, !fair, []scriptWait{x}},
			{"claim, not queued", y.claim(), nil, false, nil},
			{"try, nobody waits", y.try(), nil, true, nil},
			{"try, others are gone", y.try(), staleWaits(3), true, nil},
			{"try, others wait", y.try(), []scriptWait{x}, false, []scriptWait{x}},
		} {
			t.Run(letters+"/"+tt.name, func(t *testing.T) {
				b := newQueueScripts(t, s)
				if tt.line != nil {
					b.show(map[string]shownBeat{"c1": {0, 0}})
					b.line(time.Minute, tt.line...)
				}
				code := b.code(tt.script)
				require.Equal(t, tt.takes, code == "1", code)
				require.Equal(t, tt.takes, b.lock() == y.held(), b.lock())
				if !tt.takes {
					return
				}
				b.requireTTL(scriptLease)
				left := []string{}
				for _, w := range tt.left {
					if !fair || w.client() != "gone" { // an unfair one looks at nobody
						left = append(left, string(w))
					}
				}
				require.Equal(t, left, b.waits())
			})
		}
	}
}

// The lease of a hold that a script finds to be its own starts anew, and is never shortened.
func TestQueueScriptRepeatedGrantKeepsTheLease(t *testing.T) {
	s := redistest.Shared(t)
	for _, letters := range allLetters {
		w := waitNamed("c1", 1, letters)
		for name, script := range map[string]script.Call{"try": w.try(), "enqueue": w.enqueue(), "claim": w.claim()} {
			t.Run(letters+"/"+name, func(t *testing.T) {
				b := newQueueScripts(t, s)
				require.Equal(t, "1", b.code(w.try()))
				b.do("PEXPIRE", b.key, 500)
				require.Equal(t, "1", b.code(script))
				b.requireTTL(scriptLease)
				b.do("PEXPIRE", b.key, longLease.Milliseconds())
				require.Equal(t, "1", b.code(script))
				b.requireTTL(longLease)
				require.Equal(t, w.held(), b.lock())
				require.Equal(t, int64(0), b.do("EXISTS", b.queue(), b.beats()))
			})
		}
	}
}
