package locktest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// NewSlowWaiter is a client of the bench's lock whose claims are late: it takes what it was given only after that.
func (q *QueueBench) NewSlowWaiter(late time.Duration) *relock.Client {
	Taught(q, q.Server)
	proxy := faults.Start(q, q.Server.Network, q.Server.Address)
	proxy.On(faults.Script(script.Claim.SHA), faults.Every, faults.DelayRequest(late))
	return Sibling(q, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, q.Clients[0])
}

// Hammer tries the lock again and again from another client, until the context ends. What it returns waits for the end of the last try.
func (q *QueueBench) Hammer(ctx context.Context, tried *atomic.Int64, got func()) (finish func()) {
	lock := q.Lock(q.Clients[1])
	calls := []func() error{
		func() error {
			err := lock.TryLock(ctx)
			if err == nil {
				got()
				return lock.Unlock(context.Background())
			}
			return err
		},
		func() error {
			return lock.TryDo(ctx, func(context.Context) error { got(); return nil })
		},
	}
	var group sync.WaitGroup
	for _, call := range calls {
		group.Go(func() {
			for ctx.Err() == nil {
				tried.Add(1)
				if err := call(); err != nil && !errors.Is(err, relock.ErrLockAcquiredByOthers) && ctx.Err() == nil {
					q.Errorf("try: %v", err)
					return
				}
			}
		})
	}
	return group.Wait
}
