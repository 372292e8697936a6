package acquire

import (
	"context"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/waitqueue"
)

// TakeKeeping is Take for a call that was handed so many keys in vain that it
// keeps some now.
func (l *Multi) TakeKeeping(ctx context.Context) (*lease.Hold, error) {
	w := newWait(ctx, l.Manager.Life, l.Target, true)
	defer w.cancel()
	defer w.end()
	a := &multiAttempt{lock: l, wait: w, misses: maxMisses}
	defer a.end()
	return w.acquire(a.try)
}

// ActAs changes the owner of a call that waits for a reentrant lock.
func ActAs(c *waitqueue.Call, o *lease.Owner, id string) {
	a := c.Attempt.(*reentrantAttempt)
	a.owner, a.protocol.owner = o, id
}

// InTheWay returns the hold in ctx that a call would wait for, or nil.
func (l *Quorum) InTheWay(ctx context.Context) *lease.Hold { return l.inTheWay(ctx) }
