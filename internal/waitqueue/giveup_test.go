package waitqueue_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A waiter gives up, in the queue or at the moment of the unlock. Then it has
// either the lock or an error, and the next one gets the lock soon.
func TestWaiterGivesUp(t *testing.T) {
	type end struct {
		rounds int
		limit  time.Duration // else it is cancelled
		why    error         // in the queue, else at the unlock
	}
	modes := append([]mode{{Kind: "MultiLock"}, {Kind: "RWLock"}}, locktest.QueueModes...)
	locktest.EachCase(t, modes, map[string]end{
		"in the queue":                 {5, 0, context.Canceled},
		"in the queue, block timeout":  {3, 1500 * time.Millisecond, relock.ErrLockAcquiredByOthers},
		"at the unlock":                {40, 0, nil},
		"at the unlock, block timeout": {20, 20 * time.Millisecond, nil},
	}, func(t testing.TB, m mode, c end) {
		q := locktest.NewQueueBench(t, m, 3)
		opts := []relock.LockOption{patient}
		if c.limit > 0 {
			opts = append(opts, relock.WithBlockTimeout(c.limit))
		}
		var took []time.Duration
		for range c.rounds {
			h := q.Wait(t.Context(), q.Clients[0]).Granted() // an entry that was given up may still be there
			ctx, cancel := context.WithCancel(t.Context())
			first := q.Wait(ctx, q.Clients[1], opts...)
			testkit.Eventually(t, testkit.Patience,
				func() bool { return q.QueueLength() == 1 || first.HasEnded() }, "in the queue")
			second := q.Wait(t.Context(), q.Clients[2], patient)
			if c.why == nil {
				time.Sleep(rand.N(20 * time.Millisecond))
			} else if c.limit == 0 {
				q.AwaitQueued(2)
			}
			if c.limit == 0 {
				time.AfterFunc(rand.N(time.Millisecond), cancel)
				time.Sleep(rand.N(time.Millisecond))
			}
			if c.why != nil {
				require.ErrorIs(t, first.End(), c.why)
				q.AwaitQueued(1)
				q.AwaitSubscribed(q.Clients[2])
			}
			watch := testkit.NewStopwatch(t)
			q.Unlock(h)
			if first.End() == nil {
				watch = testkit.NewStopwatch(t)
				q.Unlock(first.Hold)
			} else {
				require.Nil(t, first.Hold, "an error and a hold")
			}
			next := second.Granted()
			took = append(took, watch.Net())
			q.Unlock(next)
			cancel()
		}
		q.RequireNothingLeft()
		requireMedian(t, took, locktest.NotifyLimit)
		require.Less(t, took[c.rounds*9/10-1], 3*locktest.NotifyLimit, "now and then a poll had to help")
	})
}

// A waiter gives up while the lock is reserved for it: the next one gets it
// immediately, not when the reservation ends.
func TestWaiterGivesUpWhatIsReservedForIt(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 2)
		slow, proxy := q.Behind()
		claim := faults.Script(script.Claim.SHA)
		var took []time.Duration
		for range 6 {
			h := q.Wait(t.Context(), q.Clients[0]).Granted() // an entry that was given up may still be there
			ctx, cancel := context.WithCancel(t.Context())
			first := q.WaitNext(ctx, 0, slow,
				relock.WithPollInterval(20*time.Millisecond), relock.WithWatchdog(3*time.Second), relock.WithFencing()) // it claims
			second := q.WaitSubscribed(1, q.Clients[1], patient)
			time.Sleep(12 * time.Millisecond) // no longer young
			n := proxy.Count(claim)
			proxy.On(claim, 1, faults.DropRequest)
			q.Unlock(h)
			require.True(t, proxy.Await(claim, n+1, testkit.Patience), "the first one claims")
			watch := testkit.NewStopwatch(t)
			cancel()
			require.ErrorIs(t, first.End(), context.Canceled)
			next := second.Granted()
			took = append(took, watch.Net())
			q.Unlock(next)
		}
		q.RequireNothingLeft()
		requireMedian(t, took, locktest.NotifyLimit)
	})
}

// A poll that was under way when a wait ended may put its entry back. It is
// cancelled again.
func TestPollOfAWaitThatIsOver(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 2)
		c, proxy := q.Behind()
		poll := faults.Script(script.Poll.SHA)
		polled := proxy.On(poll, 1, faults.DelayRequest(350*time.Millisecond))
		h := q.Take(q.Clients[0])
		stays := q.WaitNext(t.Context(), 0, q.Clients[1])
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now() // no later than the poll is sent
		w := q.WaitNext(ctx, 1, c)
		require.True(t, proxy.Await(poll, 1, testkit.Patience))
		cancel()
		require.ErrorIs(t, w.End(), context.Canceled)
		q.AwaitQueued(1)
		<-polled
		if time.Since(begun) < background.RetryLimit { // else the answer came too late, and nothing is promised
			require.True(t, proxy.Await(faults.Script(script.Cancel.SHA), 2, testkit.Patience), "cancelled again")
			q.AwaitQueued(1)
		}
		next, _ := q.HandOff(h, stays)
		q.UnlockLast(next)
	})
}

// waitWithALatePoll returns a wait behind so many entries, whose first poll the
// proxy keeps. Another one has come to the server.
func waitWithALatePoll(ctx context.Context, q *bench, before int) (*waiting, *faults.Proxy) {
	q.Helper()
	c, proxy := q.Behind()
	poll := faults.Script(script.Poll.SHA)
	proxy.On(poll, 1, faults.HoldOnly)
	w := q.WaitNext(ctx, before, c)
	require.True(q, proxy.Await(poll, 2, testkit.Patience), "a copy, or the next one")
	return w, proxy
}

// A poll without an answer, of which a copy was answered, may come after a wait
// has ended. The entry that it puts back is cancelled again, though the client
// polls no more.
func TestPollAfterTheWaitIsOver(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 2)
		h := q.Take(q.Clients[0])
		stays := q.WaitNext(t.Context(), 0, q.Clients[1])
		ctx, cancel := context.WithCancel(t.Context())
		w, proxy := waitWithALatePoll(ctx, q, 1)
		cancel()
		require.ErrorIs(t, w.End(), context.Canceled)
		q.AwaitQueued(1)
		require.Len(t, proxy.Release(), 1)
		q.AwaitQueued(1)
		next, _ := q.HandOff(h, stays)
		q.UnlockLast(next)
	})
}

// The same is true of a wait that has got the lock, by a message or by a
// request, and has released it.
func TestPollAfterTheHoldIsOver(t *testing.T) {
	locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m mode) {
		q := locktest.NewQueueBench(t, m, 1)
		h := q.Take(q.Clients[0])
		w, proxy := waitWithALatePoll(t.Context(), q, 0)
		next, _ := q.HandOff(h, w)
		q.Unlock(next)
		last := q.TakeReleased(q.Clients[0])
		require.Len(t, proxy.Release(), 1)
		watch := testkit.NewStopwatch(t)
		q.AwaitQueued(0)
		watch.Within(time.Second)
		q.UnlockLast(last)
	})
}

// An enqueue that the network delivers after its cancel, to a free lock, leaves
// nothing behind for longer than a second: no entry, and no hold that nobody
// wants. TestOneFaultInEachRequestOfAWaiter has those to a held lock.
func TestEnqueueThatComesAfterItsCancel(t *testing.T) {
	type held struct {
		how    faults.Action
		queued int // by a second attempt
	}
	s := locktest.NewServerWithScripts(t)
	locktest.EachCase(t, locktest.QueueModes, map[string]held{
		"held back": {faults.HoldOnly, 0}, "held back and cut": {faults.HoldAndCut, 1},
	}, func(t testing.TB, m mode, c held) {
		q := locktest.NewQueueBenchOn(t, s, m, 1)
		client, proxy := q.Behind()
		enqueue := faults.Script(script.Enqueue.SHA)
		proxy.On(enqueue, 1, c.how)
		h := q.Take(q.Clients[0])
		ctx, cancel := context.WithCancel(t.Context())
		w := q.Wait(ctx, client)
		require.True(t, proxy.Await(enqueue, 1, testkit.Patience))
		q.AwaitQueued(c.queued)
		cancel()
		require.ErrorIs(t, w.End(), context.Canceled)
		require.True(t, proxy.Await(faults.Script(script.Cancel.SHA), 1, testkit.Patience))
		q.AwaitQueued(0)
		q.Unlock(h)
		time.Sleep(100 * time.Millisecond)
		require.Len(t, proxy.Release(), 1)
		watch := testkit.NewStopwatch(t)
		q.RequireNothingLeft()
		watch.Within(time.Second)
	})
}

// A server goes away after it has executed a request. The second attempt finds
// no server, but the first has taken the lock. It is released when the server
// is back, and does not stay until its lease ends.
func TestServerGoesAwayBeforeItAnswers(t *testing.T) {
	modes := append([]mode{{Kind: "MultiLock"}, {Kind: "RWLock"}, {Kind: "RWLock", Fair: true}}, locktest.QueueModes...)
	locktest.EachCase(t, modes, map[string]func(locktest.AnyLock, context.Context) (relock.Hold, error){
		"one attempt": locktest.AnyLock.TryAcquire, "waiting": locktest.AnyLock.Acquire,
	}, func(t testing.TB, m mode, take func(locktest.AnyLock, context.Context) (relock.Hold, error)) {
		s := locktest.NewServerWithScripts(t)
		c, proxy := locktest.Behind(t, s, relock.WithExpiry(2*testkit.Patience))
		lock := m.Lock(c)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		executed := proxy.On(faults.Any, 1, faults.DropAnswer)
		ended := testkit.Async(t, func() error {
			_, err := take(lock, ctx)
			return err
		})
		select {
		case <-executed:
		case err := <-ended:
			require.NoError(t, err, "before it has sent anything")
		}
		exists := func(n int64) func() bool {
			return func() bool { return s.Do(t, "EXISTS", locktest.KeyOf(c, locktest.QueueKey)) == n }
		}
		testkit.Eventually(t, testkit.Patience, exists(1), "it is taken")
		proxy.Refuse()
		defer time.AfterFunc(500*time.Millisecond, cancel).Stop() // time for the second attempt
		require.Error(t, testkit.ResultWithin(t, ended, testkit.Patience))
		watch := testkit.NewStopwatch(t)
		proxy.Accept()
		testkit.Eventually(t, testkit.Patience, exists(0), "it is released")
		watch.Within(2 * time.Second)
	})
}

// A wait that ends before the queue has answered knows from its first attempt
// that others have the lock.
func TestWaitEndsBeforeTheQueueAnswers(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.PlainUnfair, 1)
	q.Take(q.Clients[0])
	// The wait ends first, not the request.
	slow, proxy := q.Behind(relock.WithCommandTimeout(testkit.Patience))
	proxy.On(faults.Script(script.Enqueue.SHA), faults.Every, faults.DropAnswer)
	require.ErrorIs(t, q.Wait(t.Context(), slow, relock.WithBlockTimeout(3*time.Second)).End(),
		relock.ErrLockAcquiredByOthers)
}

// A block timeout that is shorter than a round trip ends the call in time. The
// error says which limit it was, not that the server did not answer.
func TestBlockTimeoutShorterThanARoundTrip(t *testing.T) {
	t.Parallel()
	c, proxy := locktest.Behind(t, redistest.Shared(t))
	proxy.On(faults.Any, faults.Every, faults.Delay(2*time.Second))
	for name, newLock := range locktest.AllKinds {
		lock := newLock(name, c, relock.WithBlockTimeout(time.Millisecond))
		watch := testkit.NewStopwatch(t)
		err := lock.Lock(t.Context())
		watch.Within(locktest.NotifyLimit, name)
		require.ErrorContains(t, err, "block timeout of 1ms ended before the server's first answer", name)
		require.True(t, relock.IsRetryableErr(err), name)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "no context has ended")
	}
}
