package relock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// newSlowWaiter is a client of the bench's lock whose claims are late: it takes what it was given only after that.
func (q *queueBench) newSlowWaiter(late time.Duration) *Client {
	taught(q, q.server)
	proxy := faults.Start(q, q.server.Network, q.server.Address)
	proxy.On(faults.Script(script.Claim.SHA), faults.Every, faults.DelayRequest(late))
	return sibling(q, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, q.clients[0])
}

// hammer tries the lock again and again from another client, until the context ends. What it returns waits for the end of the last try.
func (q *queueBench) hammer(ctx context.Context, tried *atomic.Int64, got func()) (finish func()) {
	lock := q.lock(q.clients[1])
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
				if err := call(); err != nil && !errors.Is(err, ErrLockAcquiredByOthers) && ctx.Err() == nil {
					q.Errorf("try: %v", err)
					return
				}
			}
		})
	}
	return group.Wait
}

// On a fair lock, TryLock and TryDo never overtake who waits, not even while the waiter has not yet taken what it was given. A waiter that
// takes longer than its reservation has lost its turn; that is not counted.
func TestTryDoesNotOvertakeOnAFairLock(t *testing.T) {
	eachKind(t, true, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 3)
		for n := range 40 {
			h := q.take(q.clients[0])
			w := q.waitNext(t.Context(), 0, q.clients[2], WithPollInterval(leisure)) // reserved for as long as 3.6s
			q.awaitHeard(q.clients[2])
			var tried, overtook atomic.Int64
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var unlocked atomic.Int64
			finish := q.hammer(ctx, &tried, func() {
				if at := unlocked.Load(); at > 0 && time.Since(time.Unix(0, at)) < 2*time.Second {
					overtook.Add(1)
				}
			})
			testkit.Eventually(t, testkit.Patience, func() bool { return tried.Load() > 10 }, "attempts")
			unlocked.Store(time.Now().UnixNano())
			if n%2 == 0 {
				q.unlock(h)
			} else { // it ends without being handed over, as a lease does
				q.server.Do(t, "DEL", q.key)
			}
			next := w.granted()
			unlocked.Store(0)
			stop()
			require.Zero(t, overtook.Load(), "overtaken")
			finish()
			q.unlock(next)
			if n%2 == 1 {
				require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
			}
			testkit.Eventually(t, testkit.Patience, func() bool { return q.server.Do(t, "EXISTS", q.key) == int64(0) }, "free")
		}
		q.requireNothingLeft()
	})
}

// On an unfair lock, a newcomer may take the lock when the waiter has just come; one that has been there for longer is next for certain.
func TestTryMayOvertakeOnAnUnfairLock(t *testing.T) {
	eachKind(t, false, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 2)
		slow := q.newSlowWaiter(30 * time.Millisecond)
		overtaken := func(pause time.Duration) bool {
			h := q.take(q.clients[0])
			w := q.waitNext(t.Context(), 0, slow, WithWatchdog(3*time.Second))
			time.Sleep(pause)
			q.unlock(h)
			barger, err := q.lock(q.clients[1]).TryAcquire(t.Context())
			if err == nil {
				q.unlock(barger)
			}
			q.unlock(w.granted())
			return err == nil
		}
		young := 0
		for n := 0; n < 100 && young == 0; n++ {
			if overtaken(0) {
				young++
			}
		}
		require.Positive(t, young, "no newcomer took the lock")
		for range 5 {
			require.False(t, overtaken(15*time.Millisecond), "a waiter of more than 10 ms was overtaken")
		}
		q.requireNothingLeft()
	})
}
