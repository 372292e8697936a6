package lease

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Protocol builds the requests that renew and release a lock of one kind.
type Protocol interface {
	Renew(lease time.Duration) script.Call
	// Release sets the levels to left. If none are left, it releases the key,
	// but not before keep has passed. seq is the number of this change.
	Release(left Levels, seq int, keep time.Duration) script.Call
	// LockKey returns the key of the lock in Redis, to whose server its
	// requests go.
	LockKey() string
	// HoldID returns the id of the hold there. It is empty if nobody can end
	// the hold by force.
	HoldID() string
}

// enterer is the protocol of a reentrant kind.
type enterer interface {
	// Enter sets the levels to l.
	Enter(l Levels, seq int, lease time.Duration) script.Call
}

// Settler is the protocol of a delivery of a task. Its release says what
// becomes of the task, so only Unlock sends it. A delivery that is lost, or
// that Close ends, is left alone: its function may still be running. Its lease
// ends by itself.
type Settler interface {
	Protocol
	// Settle sends the release, together with those of other deliveries.
	Settle(limit driver.Limits, release script.Call) (driver.Result, script.Indeterminate)
}

func (l *Lease) sendRelease(limit driver.Limits, release script.Call) (driver.Result, script.Indeterminate) {
	if p, ok := l.protocol.(Settler); ok {
		return p.Settle(limit, release)
	}
	if l.memberOf != nil {
		if g := l.memberOf.gathering.Load(); g != nil {
			if r, sent := g.send(l, limit, release); sent {
				return r.result, r.indeterminate
			}
		}
	}
	return l.client.Eval(context.Background(), limit, release)
}

// isDelivery reports whether only Unlock may send the release.
func (l *Lease) isDelivery() bool {
	_, ok := l.protocol.(Settler)
	return ok
}

// Levels counts the levels of a hold. Writes counts those of a read/write lock
// that write.
type Levels struct{ All, Writes int }
