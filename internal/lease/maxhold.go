package lease

import (
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/script"
)

// maxHold is the timer for the maximum hold of a level, and when that ends.
type maxHold struct {
	*time.Timer
	end time.Time
}

// expire ends the hold when its maximum hold has ended. Other levels go on. The
// server counts the levels of a hold only if it has an owner.
func (h *Hold) expire() {
	l := h.lease
	l.mu.Lock()
	if h.ends.Err() != nil {
		l.mu.Unlock()
		return
	}
	why := errs.MaxHold(h.settings.MaxHold)
	if l.levels.Live == 1 {
		follow := l.loseLocked(why)
		l.mu.Unlock()
		follow()
		return
	}
	h.end(time.Now(), why)
	l.levels.Live--
	l.mu.Unlock()
	h.report.Done("hold", why)
	if l.owner != nil {
		l.client.Tasks.Start(l.adjust)
	}
}

// adjust sends the number of remaining levels to the server, in the background.
func (l *Lease) adjust() {
	l.turn.take()
	defer l.turn.give()
	if l.check() == nil {
		l.client.Retrier.Retry(l.cleanup(script.Indeterminate{}))
	}
}
