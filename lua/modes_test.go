package lua_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
)

// Fair and unfair waiters of a free lock are in one queue, and the first waiter
// decides: nobody overtakes a fair one. The second copy of a request gets the
// same answer, unless the first has changed what it finds.
func TestQueueScriptModesMix(t *testing.T) {
	for _, kind := range []string{"p", "r"} {
		fair, unfair, next := WaitNamed("c1", 1, kind+"f"), WaitNamed("c1", 2, kind+"u"), WaitNamed("c2", 1, kind+"u")
		fairNext := WaitNamed("c2", 1, kind+"f")
		for name, tt := range map[string]struct {
			line []Wait // c1 lives
			call script.Call
			code string // of both copies
			lock string
			left []Wait
		}{
			"enqueue behind a fair one": {[]Wait{fair}, next.Enqueue(), "0", fair.Reserved(), []Wait{next}},
			"enqueue again behind a fair one": {
				[]Wait{fair, next}, next.EnqueueAgain("7", ""), "0", fair.Reserved(), []Wait{next},
			},
			"enqueue behind an unfair one": {
				[]Wait{unfair, fair}, next.Enqueue(), "1", next.Held(), []Wait{unfair, fair},
			},
			"enqueue again as the first": {
				[]Wait{next, fair}, next.EnqueueAgain("7", ""), "1", next.Held(), []Wait{fair},
			},
			"enqueue behind a fair one, a full queue": {
				[]Wait{fair, unfair}, next.EnqueueLimited("", 2), "5", fair.Reserved(), []Wait{unfair},
			},
			"enqueue behind dead fair ones": {StaleWaits(3, kind+"f"), next.Enqueue(), "1", next.Held(), nil},
			"enqueue behind a dead and a fair one": {
				append(StaleWaits(3, kind+"f"), fair), next.Enqueue(), "0", fair.Reserved(), []Wait{next},
			},
			"enqueue behind 128 dead fair ones": {
				append(StaleWaits(128, kind+"f"), fair), next.Enqueue(), "4", "", []Wait{fair, next},
			},
			"enqueue, fair, behind an unfair one": {
				[]Wait{unfair}, fairNext.Enqueue(), "0", unfair.Reserved(), []Wait{fairNext},
			},
			"claim behind a fair one": {[]Wait{fair, next}, next.Claim(), "0", fair.Reserved(), []Wait{next}},
			"claim behind an unfair one": {
				[]Wait{unfair, next, fair}, next.Claim(), "1", next.Held(), []Wait{unfair, fair},
			},
			"claim as the first, before a fair one": {[]Wait{next, fair}, next.Claim(), "1", next.Held(), []Wait{fair}},
			"claim behind 128 dead fair ones": {
				append(StaleWaits(128, kind+"f"), fair, next), next.Claim(), "4", "", []Wait{fair, next},
			},
			"claim, fair, behind an unfair one": {
				[]Wait{unfair, fairNext}, fairNext.Claim(), "0", unfair.Reserved(), []Wait{fairNext},
			},
			"try, fair, while an unfair one waits": {[]Wait{unfair}, fairNext.Try(), "0", unfair.Reserved(), nil},
			"try, fair, after dead ones of both modes": {
				append(StaleWaits(2, kind+"u"), StaleWaits(3, kind+"f")[2]), fairNext.Try(), "1", fairNext.Held(), nil,
			},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				b := NewQueue(t, server)
				b.Queued(tt.line...)
				for n := range 2 {
					if tt.code == "5" && n == 1 {
						tt.code, tt.left = "0", append(tt.left, next) // the hand-off has made room
					}
					if tt.code == "4" && n == 1 {
						tt.code, tt.lock, tt.left = "0", fair.Reserved(), []Wait{next} // it goes on
					}
					require.Equal(t, tt.code, b.Code(tt.call), n)
					require.Equal(t, tt.lock, b.Lock(), n)
					b.RequireWaits(name, tt.left...)
				}
			})
		}
	}
}

// Fair and unfair calls hold a read/write lock or a semaphore side by side. The
// key keeps the mode of the call that has made it.
func TestRWScriptModesMix(t *testing.T) {
	type waits struct{ holder, beside, excluded, again Wait }
	for name, tt := range map[string]struct {
		waits
		mode string
	}{
		"read/write, fair first": {waits{
			WaitNamed("c1", 1, "sf"), WaitNamed("c2", 1, "su"), WaitNamed("c3", 1, "wu"), WaitNamed("c4", 1, "wf"),
		}, "f"},
		"read/write, unfair first": {waits{
			WaitNamed("c1", 1, "su"), WaitNamed("c2", 1, "sf"), WaitNamed("c3", 1, "wf"), WaitNamed("c4", 1, "wu"),
		}, "u"},
		"semaphore, fair first": {waits{
			PermitNamed("c1", 1, "f", 2, 0), PermitNamed("c2", 1, "u", 2, 0), PermitNamed("c3", 1, "u", 1, 0),
			PermitNamed("c4", 1, "f", 1, 0),
		}, "cf"},
		"semaphore, unfair first": {waits{
			PermitNamed("c1", 1, "u", 2, 0), PermitNamed("c2", 1, "f", 2, 0), PermitNamed("c3", 1, "f", 1, 0),
			PermitNamed("c4", 1, "u", 1, 0),
		}, "cu"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, request := range []func(Wait) script.Call{Wait.Try, Wait.Enqueue} {
				b := NewHeld(t, server, tt.holder)
				both := []string{tt.holder.Reads(), tt.beside.Reads()}
				b.Steps(
					Step("beside the other mode", request(tt.beside), "1", both),
					Step("again", request(tt.beside), "1", both),
					Step("no room, one attempt", tt.excluded.Try(), "0", both),
					Step("no room, waits", tt.excluded.Enqueue(), "0", both, tt.excluded),
					Step("again", tt.excluded.Enqueue(), "0", both, tt.excluded),
					Step("claim too early", tt.excluded.Claim(), "0", both, tt.excluded),
					Step("the other mode waits too", tt.again.Enqueue(), "0", both, tt.excluded, tt.again),
				)
				require.Equal(t, tt.mode, b.Ask(rwInspect)[1])
				b.Steps(
					Step("the first releases", tt.holder.Release(), "1", both[1:], tt.excluded, tt.again),
					Step("the last releases", tt.beside.Release(), "1", []string{tt.excluded.Reserved()}, tt.again),
					Step("its turn", tt.excluded.Claim(), "1", []string{tt.excluded.Held()}, tt.again),
					Step("again", tt.excluded.Claim(), "1", []string{tt.excluded.Held()}, tt.again),
					Step("the next one's", tt.excluded.Release(), "1", []string{tt.again.Reserved()}),
					Step("the next one takes it", tt.again.Claim(), "1", []string{tt.again.Held()}),
					Step("nothing is left", tt.again.Release(), "1", nil),
				)
				require.Equal(t, int64(0), b.Do("EXISTS", b.Key, b.QueueKey(), b.HeartbeatsKey(), b.Key+script.HoldersSuffix))
			}
		})
	}
}

// An unfair newcomer overtakes no fair first waiter, however young. It still
// overtakes a young one that is unfair.
func TestRWScriptNewcomersOfBothModes(t *testing.T) {
	for name, tt := range map[string]struct{ holder, fair, unfair, newcomer Wait }{
		"read/write": {
			WaitNamed("c1", 1, "su"), WaitNamed("c5", 1, "wf"), WaitNamed("c5", 1, "wu"), WaitNamed("c2", 1, "su"),
		},
		"semaphore": {
			PermitNamed("c1", 1, "u", 2, 0), PermitNamed("c5", 1, "f", 1, 0), PermitNamed("c5", 1, "u", 1, 0),
			PermitNamed("c2", 1, "u", 2, 0),
		},
	} {
		for call, request := range map[string]func(Wait) script.Call{"try": Wait.Try, "enqueue": Wait.Enqueue} {
			t.Run(name+"/"+call, func(t *testing.T) {
				b := NewQueue(t, server)
				overtakes := func(first Wait) bool {
					b.Clear()
					b.RequireDone(tt.holder.Try())
					b.Live("c5")
					b.Line(0, first)
					return b.Code(request(tt.newcomer)) == "1"
				}
				require.False(t, overtakes(tt.fair))
				b.Until(func() bool { return overtakes(tt.unfair) }, "a young unfair wait is overtaken")
			})
		}
	}
}
