package lease

import (
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/waitqueue"
)

// handOff is where a lock goes whose last level was unlocked. The zero value is
// a release at the server.
type handOff struct {
	passed   bool             // the lease goes on with another hold, see pass
	transfer *Transfer        // a request that gives the lock to a local waiter; nil if there is none
	left     *waitqueue.Entry // a queue entry that belongs to nobody now; nil if there is none
}

// chooseNext chooses where the lock goes that from held; Mu must be held. The
// lease ends here unless it is passed on.
func (l *Lease) chooseNext(from *Hold, now time.Time) (next handOff) {
	if next.left, next.passed = l.pass(from, now); !next.passed {
		next.transfer, next.left = l.choose(from, now)
		l.Finish(errs.ErrNotHeld)
	}
	return next
}

// handOff completes what chooseNext has chosen. If a transfer fails, the lock
// is released.
func (l *Lease) handOff(next handOff, start time.Time) error {
	next.left.Leave()
	if next.passed {
		return nil
	}
	l.leave()
	if done, err := l.transfer(next.transfer, start); done {
		return err
	}
	return l.withRetained(func() error { return l.sendLevels(0, start) })
}
