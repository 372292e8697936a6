package waitqueue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/testkit"
)

// On a fair lock, TryLock and TryDo never overtake who waits, not even while the waiter has not yet taken what it was given. A waiter that
// takes longer than its reservation has lost its turn; that is not counted.
func TestTryDoesNotOvertakeOnAFairLock(t *testing.T) {
	locktest.EachKind(t, true, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 3)
		for n := range 40 {
			h := q.Take(q.Clients[0])
			w := q.WaitNext(t.Context(), 0, q.Clients[2], relock.WithPollInterval(locktest.Leisure)) // reserved for as long as 3.6s
			q.AwaitHeard(q.Clients[2])
			var tried, overtook atomic.Int64
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var unlocked atomic.Int64
			finish := q.Hammer(ctx, &tried, func() {
				if at := unlocked.Load(); at > 0 && time.Since(time.Unix(0, at)) < 2*time.Second {
					overtook.Add(1)
				}
			})
			testkit.Eventually(t, testkit.Patience, func() bool { return tried.Load() > 10 }, "attempts")
			unlocked.Store(time.Now().UnixNano())
			if n%2 == 0 {
				q.Unlock(h)
			} else { // it ends without being handed over, as a lease does
				q.Server.Do(t, "DEL", q.Key)
			}
			next := w.Granted()
			unlocked.Store(0)
			stop()
			require.Zero(t, overtook.Load(), "overtaken")
			finish()
			q.Unlock(next)
			if n%2 == 1 {
				require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
			}
			testkit.Eventually(t, testkit.Patience, func() bool { return q.Server.Do(t, "EXISTS", q.Key) == int64(0) }, "free")
		}
		q.RequireNothingLeft()
	})
}

// On an unfair lock, a newcomer may take the lock when the waiter has just come; one that has been there for longer is next for certain.
func TestTryMayOvertakeOnAnUnfairLock(t *testing.T) {
	locktest.EachKind(t, false, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 2)
		slow := q.NewSlowWaiter(30 * time.Millisecond)
		overtaken := func(pause time.Duration) bool {
			h := q.Take(q.Clients[0])
			w := q.WaitNext(t.Context(), 0, slow, relock.WithWatchdog(3*time.Second))
			time.Sleep(pause)
			q.Unlock(h)
			barger, err := q.Lock(q.Clients[1]).TryAcquire(t.Context())
			if err == nil {
				q.Unlock(barger)
			}
			q.Unlock(w.Granted())
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
		q.RequireNothingLeft()
	})
}
