package lease

import (
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/waitqueue"
)

// handOff is where a lock goes whose last level was unlocked. Without passed
// and transfer it is released at the server.
type handOff struct {
	lease    *Lease
	passed   bool             // the lease goes on with another hold, see pass
	transfer *Transfer        // a request that gives the lock to a local waiter; nil if there is none
	left     *waitqueue.Entry // a queue entry that belongs to nobody now; nil if there is none
}

// chooseNext chooses where the lock goes that from held; Mu must be held. The
// lease ends here unless it is passed on.
func chooseNext(l *Lease, from *Hold, now time.Time) handOff {
	next := handOff{lease: l}
	if next.left, next.passed = pass(l, from, now); !next.passed {
		next.transfer, next.left = newTransfer(l, from, now)
		l.Finish(errs.ErrNotHeld)
	}
	return next
}

// complete does what chooseNext has chosen. If a transfer fails, the lock is
// released.
func (n *handOff) complete(start time.Time) error {
	n.left.Leave()
	if n.passed {
		return nil
	}
	l := n.lease
	l.leave()
	if done, err := n.transfer.send(l, start); done {
		return err
	}
	return retained{l}.endWith(func() error { return releaser{l}.send(0, start) })
}
