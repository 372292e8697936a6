package lease

import (
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/validity"
)

// maxHold is the timer for the maximum hold of a level, and when that ends.
type maxHold struct {
	*time.Timer
	end time.Time
}

// expire ends the hold when its maximum hold has ended.
func (h *Hold) expire() {
	follow := validity.Nothing
	h.mu().Lock()
	if h.ends.Err() == nil {
		follow = h.grant.levelExpired(h, errs.MaxHold(h.settings.MaxHold))
	}
	h.mu().Unlock()
	follow()
}

// levelExpired ends a level whose maximum hold has ended; Mu must be held.
// Other levels go on. The server counts the levels of a hold only if it has an
// owner.
func (l *Lease) levelExpired(h *Hold, why error) (follow func()) {
	if l.levels.Live == 1 {
		return l.LoseLocked(why)
	}
	h.end(time.Now(), why)
	l.levels.Live--
	return func() {
		h.report.Done("hold", why)
		if l.owner != nil {
			l.client.Tasks.Start(l.adjust)
		}
	}
}

// adjust sends the number of remaining levels to the server, in the background.
func (l *Lease) adjust() {
	l.owner.take()
	defer l.owner.give()
	if l.Check() == nil {
		l.client.Retrier.Retry(l.cleanup(script.Indeterminate{}))
	}
}
