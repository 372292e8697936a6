package waitqueue_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// A waiter gives up while it is the first in the queue: the next one is the first then.
func TestWaiterGivesUpInTheQueue(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 3)
		var took []time.Duration
		for n := range 10 {
			h := q.Wait(t.Context(), q.Clients[0]).Granted() // a wait that was given up may still be taken out
			ctx, cancel := context.WithCancel(t.Context())
			opts := []relock.LockOption{relock.WithPollInterval(locktest.Leisure)}
			if n%2 == 1 {
				opts = append(opts, relock.WithBlockTimeout(600*time.Millisecond))
			}
			first := q.Wait(ctx, q.Clients[1], opts...)
			testkit.Eventually(t, testkit.Patience, func() bool { return q.InQueue() == 1 || n%2 == 1 && first.IsOver() }, "in the queue")
			second := q.Wait(t.Context(), q.Clients[2], relock.WithPollInterval(locktest.Leisure))
			if n%2 == 0 {
				q.AwaitQueued(2)
				cancel()
				require.ErrorIs(t, first.End(), context.Canceled)
			} else {
				require.ErrorIs(t, first.End(), relock.ErrLockAcquiredByOthers)
			}
			cancel()
			q.AwaitQueued(1)
			q.AwaitHeard(q.Clients[2])
			next, d := q.HandOver(h, second)
			took = append(took, d)
			q.Unlock(next)
		}
		q.RequireNothingLeft()
		t.Logf("median %v, longest %v", locktest.Middle(took), took[len(took)-1])
		require.Less(t, locktest.Middle(took), locktest.PushLimit)
	})
}

// A waiter gives up while the lock is reserved for it: the next one gets it at once, not when the reservation ends.
func TestWaiterGivesUpWhatIsReservedForIt(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 2)
		locktest.Taught(t, q.Server)
		proxy := faults.Start(t, q.Server.Network, q.Server.Address)
		slow := locktest.Sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, q.Clients[0])
		claim := faults.Script(script.Claim.SHA)
		var took, claimed []time.Duration
		for range 6 {
			h := q.Wait(t.Context(), q.Clients[0]).Granted() // as above
			ctx, cancel := context.WithCancel(t.Context())
			first := q.WaitNext(ctx, 0, slow, relock.WithPollInterval(20*time.Millisecond), relock.WithWatchdog(3*time.Second))
			second := q.WaitNext(t.Context(), 1, q.Clients[1], relock.WithPollInterval(locktest.Leisure))
			q.AwaitHeard(q.Clients[1])
			time.Sleep(12 * time.Millisecond) // no longer young
			n := proxy.Count(claim)
			proxy.On(claim, 1, faults.DropRequest)
			start := time.Now()
			q.Unlock(h)
			require.True(t, proxy.Await(claim, n+1, testkit.Patience), "the first one claims")
			claimed = append(claimed, time.Since(start))
			start = time.Now()
			cancel()
			require.ErrorIs(t, first.End(), context.Canceled)
			next := second.Granted()
			took = append(took, second.At.Sub(start))
			q.Unlock(next)
		}
		q.RequireNothingLeft()
		t.Logf("median %v, longest %v, until the first one claims %v", locktest.Middle(took), took[len(took)-1], locktest.Middle(claimed))
		require.Less(t, locktest.Middle(took), locktest.PushLimit+locktest.Middle(claimed), "as many messages as from the unlock to the claim, on the same busy machine")
	})
}

// A waiter gives up at the moment of the unlock: either it has the lock or an error, and the next one gets it soon.
func TestWaiterGivesUpAtTheUnlock(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 3)
		var took []time.Duration
		granted, behind := 0, q.Lock(q.Clients[2], relock.WithPollInterval(locktest.Leisure))
		for n := range 80 {
			h := q.Wait(t.Context(), q.Clients[0]).Granted() // a wait that was given up may still be taken out
			ctx, cancel := context.WithCancel(t.Context())
			var opts []relock.LockOption
			if n%4 == 3 {
				opts = append(opts, relock.WithBlockTimeout(20*time.Millisecond))
			}
			first := q.Wait(ctx, q.Clients[1], opts...)
			testkit.Eventually(t, testkit.Patience, func() bool { return q.InQueue() == 1 || first.IsOver() }, "in the queue")
			second := &locktest.Waiting{Bench: q, Ended: make(chan struct{})}
			q.Async(context.Background(), func(ctx context.Context) error {
				second.Hold, second.Err = behind.Acquire(ctx)
				second.At = time.Now()
				close(second.Ended)
				return nil
			})
			time.Sleep(rand.N(20 * time.Millisecond))
			if n%4 != 3 {
				testkit.Async(t, func() error {
					time.Sleep(rand.N(time.Millisecond))
					cancel()
					return nil
				})
				time.Sleep(rand.N(time.Millisecond))
			}
			q.Unlock(h)
			if first.End() == nil {
				granted++
				q.Unlock(first.Hold)
			} else {
				require.Nil(t, first.Hold, "an error and a hold")
			}
			start := time.Now()
			q.Unlock(second.Granted())
			took = append(took, max(0, second.At.Sub(start)))
			cancel()
		}
		q.RequireNothingLeft()
		t.Logf("%d of 80 granted; median %v, 76th %v, longest %v", granted, locktest.Middle(took), took[75], took[79])
		require.Less(t, locktest.Middle(took), locktest.PushLimit)
		require.Less(t, took[75], 3*locktest.PushLimit, "now and then a poll had to help")
	})
}

// A poll that was under way when a wait ended may put it back. It is taken out again.
func TestPollOfAWaitThatIsOver(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 2)
		locktest.Taught(t, q.Server)
		proxy := faults.Start(t, q.Server.Network, q.Server.Address)
		polled := proxy.On(faults.Script(script.Poll.SHA), 1, faults.DelayRequest(350*time.Millisecond))
		c := locktest.Sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, q.Clients[0])
		h := q.Take(q.Clients[0])
		stays := q.WaitNext(t.Context(), 0, q.Clients[1])
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now() // no later than the poll is sent
		w := q.WaitNext(ctx, 1, c)
		require.True(t, proxy.Await(faults.Script(script.Poll.SHA), 1, testkit.Patience))
		cancel()
		require.ErrorIs(t, w.End(), context.Canceled)
		q.AwaitQueued(1)
		<-polled
		if time.Since(begun) < background.RetryLimit { // else the answer came too late, and nothing is promised
			testkit.Eventually(t, time.Second, func() bool { return q.InQueue() == 1 && proxy.Count(faults.Script(script.Cancel.SHA)) == 2 }, "taken out again")
		}
		next, _ := q.HandOver(h, stays)
		q.Unlock(next)
		q.RequireNothingLeft()
	})
}

// A wait that ends before the queue has answered knows from its first attempt that others have the lock.
func TestWaitEndsBeforeTheQueueAnswers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s)
	require.NoError(t, relock.NewRedisLock("k", c).Lock(t.Context()))
	proxy := faults.Start(t, s.Network, s.Address)
	proxy.On(faults.Script(script.Enqueue.SHA), faults.Every, faults.DropAnswer)
	slow := locktest.Sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, c)
	err := relock.NewRedisLock("k", slow, relock.WithBlockTimeout(time.Second)).Lock(t.Context())
	require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
}

// A block timeout that is shorter than a round trip ends the call in time. The
// error says which limit it was, not that the server did not answer.
func TestBlockTimeoutShorterThanARoundTrip(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	proxy := faults.Start(t, s.Network, s.Address)
	proxy.On(faults.Any, faults.Every, faults.Delay(2*time.Second))
	c := locktest.NewTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
	short := relock.WithBlockTimeout(time.Millisecond)
	for name, lock := range map[string]relock.Mutex{
		"RedisLock": relock.NewRedisLock("a", c, short), "fair RedisLock": relock.NewRedisLock("b", c, short, relock.WithFair()),
		"ReentrantLock": relock.NewReentrantLock("c", c, short), "RWLock": relock.NewRWLock("d", c, short), "MultiLock": relock.NewMultiLock([]string{"e", "f"}, c, short),
	} {
		start := time.Now()
		err := lock.Lock(t.Context())
		require.ErrorContains(t, err, "block timeout of 1ms ended before the server's first answer", name)
		require.Less(t, time.Since(start), time.Second, name)
		require.True(t, relock.IsRetryableErr(err), name)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "no context has ended")
	}
}
