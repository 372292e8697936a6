package lua_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// The clock of the server is set back. A permit whose lease had ended, and
// whose place another has taken, does not come back.
func TestSemaphoreScriptsClockSetBack(t *testing.T) {
	t.Parallel()
	s, clock := redistest.StartWithClock(t)
	for _, mode := range []string{"f", "u"} {
		const later = 2 * Lease
		all := permits(4, mode, 2, 0)
		v, w, x, y := all[0], all[1], all[2], all[3]
		b := NewHeld(t, s, v, w)
		b.RequireDone(w.Renew(LongLease))
		clock.Advance(t, later)
		b.Steps(Step("the place of one that has ended", x.Try(), "1", inUse(w, x)))
		clock.Advance(t, -later)
		b.Steps(
			Step("both last longer now", y.Try(), "0", inUse(w, x)),
			Step("late release", v.Release(), "0", inUse(w, x)),
		)
		b.RequireTTL(LongLease + locktest.ClockGrain)
	}
}

// A waiter whose ticket is later than the clock, which was set back, counts as
// one that has waited for long: a newcomer does not overtake it.
func TestSemaphoreScriptsTicketsOfAClockSetBack(t *testing.T) {
	v, w := PermitNamed("c1", 1, "u", 3, 0), PermitNamed("c2", 1, "u", 1, 0)
	x := PermitNamed("c3", 1, "u", 3, 0)
	b := NewHeld(t, server, v)
	b.Live("c2")
	b.Line(-time.Hour, w)
	b.Steps(Step("newcomer", x.Try(), "0", inUse(v), w))
}
