package lease

import (
	"cmp"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// task is what the worker of a lease does beside renewals. It belongs to the
// goroutine of the worker.
type task struct {
	stage stage
	old   bool // the hold is old, which was logged
}

// stage is what the sending under way is.
type stage uint8

const (
	renews     stage = iota
	claims           // the claim of a grant by message
	looks            // whether a lease that is not renewed is marked to end by force
	asks             // the server has refused the lease; it asks for the reason
	asksMarked       // the same, and the hold is marked to end by force
)

// Next returns what the worker sends for the lease: the claim of a grant by
// message, then the renewals, or looks for the mark of a forced end. A lease
// that was refused asks for the reason.
func (l *Lease) Next(now time.Time) (script.Call, bool) {
	if l.task.stage >= asks {
		return refusal{l}.next()
	}
	l.task.stage = renews
	if claim, ok := (byMessage{l}).next(); ok {
		l.task.stage = claims
		return claim, true
	}
	if renewal, ok := l.Renewal.Next(now); ok {
		return renewal, true
	}
	l.task.stage = looks
	return marked{l}.next()
}

// Limit returns how long an answer may take.
func (l *Lease) Limit() time.Duration {
	return cmp.Or(byMessage{l}.limit(), l.Renewal.Limit())
}

// Handle takes the answer to what Next has returned.
func (l *Lease) Handle(o driver.Result) (at time.Time, again bool) {
	switch l.task.stage {
	case asks, asksMarked:
		return refusal{l}.handle(o)
	case claims:
		at, again = byMessage{l}.handle(o)
	case looks:
		at, again = marked{l}.handle(o)
	default:
		at, again = l.Renewal.Handle(o)
	}
	if again {
		return at, true
	}
	return marked{l}.lookAt(time.Now())
}
