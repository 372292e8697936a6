package relock

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// A waiter gives up while it is the first in the queue: the next one is the first then.
func TestWaiterGivesUpInTheQueue(t *testing.T) {
	eachMode(t, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 3)
		var took []time.Duration
		for n := range 10 {
			h := q.wait(t.Context(), q.clients[0]).granted() // a wait that was given up may still be taken out
			ctx, cancel := context.WithCancel(t.Context())
			opts := []LockOption{WithPollInterval(leisure)}
			if n%2 == 1 {
				opts = append(opts, WithBlockTimeout(600*time.Millisecond))
			}
			first := q.wait(ctx, q.clients[1], opts...)
			testkit.Eventually(t, testkit.Patience, func() bool { return q.inQueue() == 1 || n%2 == 1 && first.isOver() }, "in the queue")
			second := q.wait(t.Context(), q.clients[2], WithPollInterval(leisure))
			if n%2 == 0 {
				q.awaitQueued(2)
				cancel()
				require.ErrorIs(t, first.end(), context.Canceled)
			} else {
				require.ErrorIs(t, first.end(), ErrLockAcquiredByOthers)
			}
			cancel()
			q.awaitQueued(1)
			q.awaitHeard(q.clients[2])
			next, d := q.handOver(h, second)
			took = append(took, d)
			q.unlock(next)
		}
		q.requireNothingLeft()
		t.Logf("median %v, longest %v", middle(took), took[len(took)-1])
		require.Less(t, middle(took), pushLimit)
	})
}

// isOver says whether the call has ended.
func (w *waiting) isOver() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// A waiter gives up while the lock is reserved for it: the next one gets it at once, not when the reservation ends.
func TestWaiterGivesUpWhatIsReservedForIt(t *testing.T) {
	eachMode(t, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 2)
		taught(t, q.server)
		proxy := faults.Start(t, q.server.Network, q.server.Address)
		slow := sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, q.clients[0])
		claim := faults.Script(script.Claim.SHA)
		var took, claimed []time.Duration
		for range 6 {
			h := q.wait(t.Context(), q.clients[0]).granted() // as above
			ctx, cancel := context.WithCancel(t.Context())
			first := q.waitNext(ctx, 0, slow, WithPollInterval(20*time.Millisecond), WithWatchdog(3*time.Second))
			second := q.waitNext(t.Context(), 1, q.clients[1], WithPollInterval(leisure))
			q.awaitHeard(q.clients[1])
			time.Sleep(12 * time.Millisecond) // no longer young
			n := proxy.Count(claim)
			proxy.On(claim, 1, faults.DropRequest)
			start := time.Now()
			q.unlock(h)
			require.True(t, proxy.Await(claim, n+1, testkit.Patience), "the first one claims")
			claimed = append(claimed, time.Since(start))
			start = time.Now()
			cancel()
			require.ErrorIs(t, first.end(), context.Canceled)
			next := second.granted()
			took = append(took, second.at.Sub(start))
			q.unlock(next)
		}
		q.requireNothingLeft()
		t.Logf("median %v, longest %v, until the first one claims %v", middle(took), took[len(took)-1], middle(claimed))
		require.Less(t, middle(took), pushLimit+middle(claimed), "as many messages as from the unlock to the claim, on the same busy machine")
	})
}

// A waiter gives up at the moment of the unlock: either it has the lock or an error, and the next one gets it soon.
func TestWaiterGivesUpAtTheUnlock(t *testing.T) {
	eachMode(t, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 3)
		var took []time.Duration
		granted, behind := 0, q.lock(q.clients[2], WithPollInterval(leisure))
		for n := range 80 {
			h := q.wait(t.Context(), q.clients[0]).granted() // a wait that was given up may still be taken out
			ctx, cancel := context.WithCancel(t.Context())
			var opts []LockOption
			if n%4 == 3 {
				opts = append(opts, WithBlockTimeout(20*time.Millisecond))
			}
			first := q.wait(ctx, q.clients[1], opts...)
			testkit.Eventually(t, testkit.Patience, func() bool { return q.inQueue() == 1 || first.isOver() }, "in the queue")
			second := &waiting{bench: q, ended: make(chan struct{})}
			q.async(context.Background(), func(ctx context.Context) error {
				second.hold, second.err = behind.Acquire(ctx)
				second.at = time.Now()
				close(second.ended)
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
			q.unlock(h)
			if first.end() == nil {
				granted++
				q.unlock(first.hold)
			} else {
				require.Nil(t, first.hold, "an error and a hold")
			}
			start := time.Now()
			q.unlock(second.granted())
			took = append(took, max(0, second.at.Sub(start)))
			cancel()
		}
		q.requireNothingLeft()
		t.Logf("%d of 80 granted; median %v, 76th %v, longest %v", granted, middle(took), took[75], took[79])
		require.Less(t, middle(took), pushLimit)
		require.Less(t, took[75], 3*pushLimit, "now and then a poll had to help")
	})
}

// A poll that was under way when a wait ended may put it back. It is taken out again.
func TestPollOfAWaitThatIsOver(t *testing.T) {
	eachMode(t, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 2)
		taught(t, q.server)
		proxy := faults.Start(t, q.server.Network, q.server.Address)
		polled := proxy.On(faults.Script(script.Poll.SHA), 1, faults.DelayRequest(350*time.Millisecond))
		c := sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, q.clients[0])
		h := q.take(q.clients[0])
		stays := q.waitNext(t.Context(), 0, q.clients[1])
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now() // no later than the poll is sent
		w := q.waitNext(ctx, 1, c)
		require.True(t, proxy.Await(faults.Script(script.Poll.SHA), 1, testkit.Patience))
		cancel()
		require.ErrorIs(t, w.end(), context.Canceled)
		q.awaitQueued(1)
		<-polled
		if time.Since(begun) < background.RetryLimit { // else the answer came too late, and nothing is promised
			testkit.Eventually(t, time.Second, func() bool { return q.inQueue() == 1 && proxy.Count(faults.Script(script.Cancel.SHA)) == 2 }, "taken out again")
		}
		next, _ := q.handOver(h, stays)
		q.unlock(next)
		q.requireNothingLeft()
	})
}

// A wait that ends before the queue has answered knows from its first attempt that others have the lock.
func TestWaitEndsBeforeTheQueueAnswers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	require.NoError(t, NewRedisLock("k", c).Lock(t.Context()))
	proxy := faults.Start(t, s.Network, s.Address)
	proxy.On(faults.Script(script.Enqueue.SHA), faults.Every, faults.DropAnswer)
	slow := sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, c)
	err := NewRedisLock("k", slow, WithBlockTimeout(time.Second)).Lock(t.Context())
	require.ErrorIs(t, err, ErrLockAcquiredByOthers)
}

// A block timeout that is shorter than a round trip ends the call in time. The
// error says which limit it was, not that the server did not answer.
func TestBlockTimeoutShorterThanARoundTrip(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	proxy := faults.Start(t, s.Network, s.Address)
	proxy.On(faults.Any, faults.Every, faults.Delay(2*time.Second))
	c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
	short := WithBlockTimeout(time.Millisecond)
	for name, lock := range map[string]Mutex{
		"RedisLock": NewRedisLock("a", c, short), "fair RedisLock": NewRedisLock("b", c, short, WithFair()),
		"ReentrantLock": NewReentrantLock("c", c, short), "RWLock": NewRWLock("d", c, short), "MultiLock": NewMultiLock([]string{"e", "f"}, c, short),
	} {
		start := time.Now()
		err := lock.Lock(t.Context())
		require.ErrorContains(t, err, "block timeout of 1ms ended before the server's first answer", name)
		require.Less(t, time.Since(start), time.Second, name)
		require.True(t, IsRetryableErr(err), name)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "no context has ended")
	}
}
