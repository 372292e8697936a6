package validity

import (
	"time"

	"github.com/relock-go/relock/internal/errs"
)

// CheckSuspended ends all holds of the client if the machine was suspended
// before now, which the caller has just read.
func (b *Books) CheckSuspended(now time.Time) { run(b.monitor.Check(now)) }

func run(follow func()) {
	if follow != nil {
		follow()
	}
}

// suspended marks all holds lost, and returns the follow-up work.
func (b *Books) suspended() (follow func()) {
	follows := endAll(b.All(), func(r *Renewal) func() { return r.MarkLost(errs.Suspended) })
	if len(follows) == 0 {
		return nil
	}
	return func() {
		for _, follow := range follows {
			follow()
		}
	}
}

// suspendedSince reports whether a suspend was noticed after then, when a
// request was sent.
func (b *Books) suspendedSince(then, now time.Time) bool {
	b.CheckSuspended(now)
	return b.monitor.Since(then)
}

// startMonitor starts the periodic check, with the first hold. The mutex of the
// monitor is taken after the owner mutex, and before all others except that of
// Tasks.
func (b *Books) startMonitor() {
	b.monitor.Start(b.life, b.tasks)
}
