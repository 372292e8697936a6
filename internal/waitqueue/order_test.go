package waitqueue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A fair lock is granted in the order of arrival, over several clients and for
// goroutines that share an object. A server that stood still for longer than a
// client may be silent takes no client for crashed.
func TestFairLockKeepsTheOrderOfArrival(t *testing.T) {
	type order struct {
		waiters, clients int
		shared           bool          // the object
		pause            time.Duration // of the server
	}
	locktest.EachCase(t, locktest.Fair, map[string]order{
		"several clients":           {waiters: 100, clients: 4},
		"one object":                {waiters: 8, clients: 1, shared: true},
		"a server that stood still": {waiters: 16, clients: 4, pause: 2700 * time.Millisecond},
	}, func(t testing.TB, m mode, c order) {
		q := locktest.NewQueueBench(t, m, c.clients, relock.WithCommandTimeout(20*time.Second))
		h, lock := q.Take(q.Clients[0]), q.Lock(q.Clients[0], patient)
		var got, want []int // guarded by the lock
		var results []<-chan error
		for i := range c.waiters {
			if !c.shared {
				lock = q.Lock(q.Clients[i%c.clients], patient)
			}
			results = append(results, async(q, lock, 1, func() { got = append(got, i) }))
			want = append(want, i)
			q.AwaitQueued(i + 1)
		}
		if c.pause > 0 {
			for _, client := range q.Clients {
				q.AwaitSubscribed(client)
			}
			q.Server.Pause(t)
			time.AfterFunc(c.pause, func() { q.Server.Resume(t) })
		}
		q.Unlock(h) // the server gets it before the polls
		testkit.AllWithin(t, results, testkit.Patience)
		require.Equal(t, want, got)
		q.RequireNothingLeft()
	})
}

// Many waiters of one client are all served, over a few connections.
func TestManyWaitersOfOneClient(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		const waiters = 300
		q := locktest.NewQueueBench(t, m, 2)
		c := q.Clients[0]
		h := q.Take(q.Clients[1])
		connections := func() int64 { return q.Server.Info(t, "clients", "connected_clients") }
		before, most := connections(), int64(0)
		var served visits
		var results []<-chan error
		for range waiters {
			results = append(results, async(q, q.Lock(c), 1, served.add))
		}
		testkit.Eventually(t, testkit.Patience, func() bool {
			most = max(most, connections())
			return q.QueueLength() == q.EntriesOf(waiters, 1) && (m.Fair || c.Stats().Waiting == waiters)
		}, "all wait")
		q.Unlock(h)
		testkit.Eventually(t, testkit.Patience, func() bool {
			most = max(most, connections())
			return q.QueueLength() == 0 && c.Stats().Waiting == 0
		}, "all are served")
		testkit.AllWithin(t, results, testkit.Patience)
		require.Equal(t, waiters, served.all)
		require.LessOrEqual(t, most-before, int64(40), "32 that send, and those of the client's own")
		q.RequireNothingLeft()
	})
}

// TryLock and TryDo never overtake the waiter for a fair lock, not even before
// it has taken what is reserved for it. A waiter that takes longer than its
// reservation has lost its turn. That is not counted.
func TestTryDoesNotOvertakeOnAFairLock(t *testing.T) {
	locktest.EachMode(t, locktest.Fair, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 3)
		for n := range 40 {
			h := q.Take(q.Clients[0])
			w := q.WaitSubscribed(0, q.Clients[2], patient) // reserved for 3.6s
			var tried, overtook, unlocked atomic.Int64
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			lock := q.Lock(q.Clients[1])
			got := func() {
				if at := unlocked.Load(); at > 0 && time.Since(time.Unix(0, at)) < 2*time.Second {
					overtook.Add(1)
				}
			}
			tryLock := func() error {
				if err := lock.TryLock(ctx); err != nil {
					return err
				}
				got()
				return lock.Unlock(context.Background())
			}
			var results []<-chan error
			for _, try := range []func() error{
				tryLock, func() error { return lock.TryDo(ctx, func(context.Context) error { got(); return nil }) },
			} {
				results = append(results, testkit.Async(t, func() error {
					for ctx.Err() == nil {
						tried.Add(1)
						if err := try(); err != nil && !errors.Is(err, relock.ErrLockAcquiredByOthers) && ctx.Err() == nil {
							return err
						}
					}
					return nil
				}))
			}
			testkit.Eventually(t, testkit.Patience, func() bool { return tried.Load() > 10 }, "attempts")
			unlocked.Store(time.Now().UnixNano())
			if n%2 == 0 {
				q.Unlock(h)
			} else { // it expires: nobody hands it off
				q.Server.Do(t, "DEL", q.Key)
			}
			next := w.Granted()
			unlocked.Store(0)
			stop()
			require.Zero(t, overtook.Load(), "overtaken")
			testkit.AllWithin(t, results, testkit.Patience)
			q.Unlock(next)
			if n%2 == 1 {
				require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
			}
			testkit.Eventually(t, testkit.Patience, func() bool { return q.Server.Do(t, "EXISTS", q.Key) == int64(0) }, "free")
		}
		q.RequireNothingLeft()
	})
}

// A newcomer may take an unfair lock from a waiter that has just come. A waiter
// of more than 10 ms is certainly next.
func TestTryMayOvertakeOnAnUnfairLock(t *testing.T) {
	locktest.EachMode(t, locktest.Unfair, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 2)
		slow, proxy := q.Behind()
		proxy.On(faults.Script(script.Claim.SHA), faults.Every, faults.DelayRequest(30*time.Millisecond))
		overtaken := func(pause time.Duration) bool {
			h := q.Take(q.Clients[0])
			// no message is its grant
			w := q.WaitNext(t.Context(), 0, slow, relock.WithWatchdog(3*time.Second), relock.WithFencing())
			time.Sleep(pause)
			q.Unlock(h)
			newcomer, err := q.Lock(q.Clients[1]).TryAcquire(t.Context())
			if err == nil {
				q.Unlock(newcomer)
			}
			q.Unlock(w.Granted())
			return err == nil
		}
		testkit.Eventually(t, testkit.Patience, func() bool { return overtaken(0) }, "a newcomer takes the lock")
		for range 5 {
			require.False(t, overtaken(15*time.Millisecond), "a waiter of more than 10 ms was overtaken")
		}
		q.RequireNothingLeft()
	})
}

// Several goroutines of one owner wait: if one of them is granted the lock, the
// others hold it immediately too, one level deeper each. Any of their entries
// may be the one that the lock is handed off to.
func TestGoroutinesOfOneOwnerWait(t *testing.T) {
	locktest.EachCase(t, []mode{
		locktest.ReentrantUnfair, locktest.ReentrantFair,
	}, map[string]int{"two": 2, "ten": 10}, func(t testing.TB, m mode, goroutines int) {
		q := locktest.NewQueueBench(t, m, 3)
		var took []time.Duration
		for range 5 {
			h := q.Take(q.Clients[0])
			all := []*waiting{q.WaitNext(locktest.As(t, "all"), 0, q.Clients[1], patient)}
			stranger := q.WaitNext(t.Context(), 1, q.Clients[2], patient)
			for n := 1; n < goroutines; n++ {
				all = append(all, waitToo(locktest.As(t, "all"), q, n+1, q.Clients[1], patient))
			}
			q.AwaitSubscribed(q.Clients[1])
			watch := testkit.NewStopwatch(t)
			q.Unlock(h)
			for _, w := range all {
				w.Granted()
			}
			took = append(took, watch.Net())
			require.False(t, stranger.HasEnded(), "granted while another one has it")
			locktest.RequireCount(t, q.Server, q.Clients[1], locktest.QueueKey, goroutines)
			q.AwaitQueued(1) // the owner's other entries are cancelled
			for n, w := range all {
				require.NoError(t, w.Hold.Err())
				require.False(t, stranger.HasEnded(), "granted with %d levels left", goroutines-n)
				q.Unlock(w.Hold)
			}
			q.Unlock(stranger.Granted())
		}
		q.RequireNothingLeft()
		requireMedian(t, took, locktest.NotifyLimit)
	})
}

// waitToo begins to wait at a client that waits already. For an unfair lock, it
// is a local waiter.
func waitToo(ctx context.Context, q *bench, n int, c *relock.Client, opts ...relock.LockOption) *waiting {
	q.Helper()
	if q.Fair {
		return q.WaitNext(ctx, n, c, opts...)
	}
	before := c.Stats().Waiting
	w := q.Wait(ctx, c, opts...)
	testkit.Eventually(q, testkit.Patience, func() bool {
		return c.Stats().Waiting == before+1 && line(q, c).Resting
	}, "waits")
	return w
}

// A lock with a minimum hold is not handed off before that ends. Then the
// waiter has it soon.
func TestMinimumHoldIsNotHandedOff(t *testing.T) {
	const keep = 1500 * time.Millisecond
	var ran, soon atomic.Int64 // without a server none is run
	locktest.EachCase(t, locktest.QueueModes, map[string]int{"1": 1, "2": 2, "3": 3}, func(t testing.TB, m mode, _ int) {
		q := locktest.NewQueueBench(t, m, 2)
		ran.Add(1)
		start := time.Now()
		h := q.Take(q.Clients[0], relock.WithMinHold(keep))
		watch := testkit.NewStopwatch(t)
		w := q.WaitSubscribed(0, q.Clients[1])
		q.Unlock(h)
		next := w.Granted()
		took := watch.Net()
		q.Unlock(next)
		require.GreaterOrEqual(t, w.At.Sub(start), keep-2*time.Millisecond)
		require.Less(t, took, keep+1500*time.Millisecond)
		if took < keep+450*time.Millisecond {
			soon.Add(1)
		}
		q.RequireNothingLeft()
	})
	require.GreaterOrEqual(t, soon.Load(), ran.Load()*7/12, "the next poll would be later")
}
