package validity

import (
	"time"

	"github.com/relock-go/relock/internal/suspend"
)

// suspends ends all grants of a client after the machine was suspended.
type suspends struct {
	client  Config
	monitor *suspend.Monitor
}

// newSuspends returns the check of a client. lose marks all of its grants lost.
func newSuspends(c Config, lose func() followUps) *suspends {
	s := &suspends{client: c}
	s.monitor = suspend.NewMonitor(c.Clocks, c.Logger, func() (follow func()) {
		if all := lose(); len(all) > 0 {
			return all.run
		}
		return nil
	}, func() { run(s.monitor.CheckNow()) })
	return s
}

// CheckSuspended ends all holds of the client if the machine was suspended
// before now, which the caller has just read.
func (s *suspends) CheckSuspended(now time.Time) { run(s.monitor.Check(now)) }

func run(follow func()) {
	if follow != nil {
		follow()
	}
}

// suspendedSince reports whether a suspend was noticed after then, when a
// request was sent.
func (s *suspends) suspendedSince(then, now time.Time) bool {
	s.CheckSuspended(now)
	return s.monitor.Since(then)
}

// start starts the periodic check, with the first hold. The mutex of the
// monitor is taken after the owner mutex, and before all others except that of
// Tasks.
func (s *suspends) start() { s.monitor.Start(s.client.Life, s.client.Tasks) }
