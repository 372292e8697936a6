package semaphore_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A semaphore grants as many permits as it has. One that is returned, or whose
// call was not run, is free again.
func TestSemaphoreGrantsPermits(t *testing.T) {
	b := locktest.NewBench(t)
	s, same := relock.NewSemaphore("k", 2, b.Client), relock.NewSemaphore("k", 2, b.Other)
	first, second := locktest.Take(t, s.Acquire), locktest.Take(t, same.TryAcquire)
	require.NoError(t, first.Err())
	require.NoError(t, first.Extend(t.Context(), time.Minute))
	require.Greater(t, first.Remaining(), 50*time.Second)
	require.Zero(t, first.Fence())
	for _, acquire := range []func(context.Context) (relock.Hold, error){s.Acquire, s.TryAcquire, same.Acquire} {
		_, err := acquire(t.Context())
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		require.EqualError(t, err,
			`relock: lock "k": lock is held by others: none of 2 permits is free (one attempt; see WithBlock)`)
	}
	err := s.TryDo(t.Context(), func(context.Context) error { panic("it was run") })
	require.True(t, relock.NotRun(err))
	require.NoError(t, second.Unlock(t.Context()))
	require.ErrorIs(t, second.Unlock(t.Context()), relock.ErrNotHeld)
	err = s.Do(t.Context(), func(ctx context.Context) error {
		h, ok := relock.HoldFromContext(ctx, "k")
		require.True(t, ok)
		require.NoError(t, h.Err())
		return s.TryDo(ctx, locktest.Nothing) // a nested call takes another permit
	})
	require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
	_, err = b.Client.Detach(t.Context(), first, time.Minute)
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.ErrorContains(t, err, "a semaphore cannot be detached")
	require.NoError(t, first.Unlock(t.Context()))
	b.RequireFree("k")
	b.RequireNothingLeft("k")
}

// Other kinds are a conflict, which names what was found.
func TestSemaphoreConflicts(t *testing.T) {
	b := locktest.NewBench(t)
	fair := relock.NewSemaphore("fair", 2, b.Client, relock.WithFair())
	rw := relock.NewRWLock("rw", b.Client)
	for _, acquire := range []func(context.Context) (relock.Hold, error){
		fair.Acquire, rw.RAcquire, relock.NewRedisLock("plain", b.Client).Acquire,
	} {
		defer func(h relock.Hold) { require.NoError(t, h.Unlock(context.Background())) }(locktest.Take(t, acquire))
	}
	for text, lock := range map[string]func(context.Context) (relock.Hold, error){
		"held as a Semaphore, requested as an RWLock":   relock.NewRWLock("fair", b.Other).RAcquire,
		"held as a Semaphore, requested as a RedisLock": relock.NewRedisLock("fair", b.Other).Acquire,
		"held as an RWLock, requested as a Semaphore":   relock.NewSemaphore("rw", 2, b.Other, relock.WithFair()).Acquire,
		"held as a RedisLock, requested as a Semaphore": relock.NewSemaphore("plain", 2, b.Other).Acquire,
	} {
		_, err := lock(t.Context())
		require.ErrorIs(t, err, relock.ErrKeyConflict)
		require.ErrorContains(t, err, text)
	}
}

// permitLoad is goroutines of several clients that take permits again and
// again, for a moment each.
type permitLoad struct {
	testing.TB
	start time.Time
	group sync.WaitGroup

	mu    sync.Mutex
	spans []locktest.Span
}

// begin starts a goroutine that takes a permit so many times.
func (l *permitLoad) begin(s *relock.Semaphore, times int) {
	l.group.Go(func() {
		for range times {
			h, err := s.Acquire(l.Context())
			if err != nil {
				l.Error(err)
				return
			}
			from := time.Now()
			time.Sleep(rand.N(2 * time.Millisecond)) //nolint:gosec // no secret
			until, lost := time.Now(), h.Err()
			if err := h.Unlock(context.Background()); err != nil || lost != nil {
				l.Error(err, lost)
			}
			l.mu.Lock()
			l.spans = append(l.spans, locktest.Span{From: int64(from.Sub(l.start)), Until: int64(until.Sub(l.start))})
			l.mu.Unlock()
		}
	})
}

// Goroutines of four clients want more permits than there are. Never more hold
// one than there are, and at times all are held.
func TestSemaphoreExclusion(t *testing.T) {
	const limit, clients, goroutines, times = 5, 4, 6, 30
	t.Parallel()
	for mode, opts := range map[string][]relock.LockOption{
		"unfair": {relock.WithBlock()}, "fair": {relock.WithBlock(), relock.WithFair()},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			l := &permitLoad{TB: t, start: time.Now()}
			first := locktest.NewTestClient(t, server)
			for n := range clients {
				c := first
				if n > 0 {
					c = locktest.Sibling(t, server, first)
				}
				for range goroutines {
					l.begin(relock.NewSemaphore("k", limit, c, opts...), times)
				}
			}
			l.group.Wait()
			require.Len(t, l.spans, clients*goroutines*times)
			require.Equal(t, limit, locktest.MostTogether(l.spans))
			locktest.RequireNoQueues(t, server, first, "k")
			require.Equal(t, int64(0), server.Do(t, "EXISTS", locktest.KeyOf(first, "k")))
		})
	}
}

// The permits of a client that is gone are free when their leases end, and each
// waiter gets one then.
func TestSemaphorePermitsOfACrash(t *testing.T) {
	const lease = time.Second
	b := locktest.NewBench(t)
	dead := locktest.Sibling(t, b.Server, b.Client)
	var valid time.Time
	for range 3 {
		h := locktest.Take(t, relock.NewSemaphore("k", 3, dead, relock.WithExpiry(lease)).Acquire)
		valid = h.ValidUntil()
	}
	var granted []<-chan error
	for range 3 {
		s := relock.NewSemaphore("k", 3, b.Other, relock.WithBlock())
		granted = append(granted, testkit.Async(t, func() error {
			_, err := s.Acquire(t.Context())
			return err
		}))
	}
	testkit.Eventually(t, testkit.Patience,
		func() bool { return locktest.Inspect(t, b.Client, "k").Waiting == 3 }, "they wait")
	require.NoError(t, dead.Close())
	for _, one := range granted {
		locktest.RequireGranted(t, one)
	}
	require.False(t, time.Now().Before(valid), "while they were valid for the client")
}

// ForceUnlock ends more holds than one request does. Each holder learns of it.
func TestSemaphoreForcedWithManyHolders(t *testing.T) {
	const limit = 600
	b := locktest.NewBench(t)
	s := relock.NewSemaphore("k", limit, b.Client)
	var held []relock.Hold
	for range limit {
		held = append(held, locktest.Take(t, s.Acquire))
	}
	require.NoError(t, b.Other.ForceUnlock(t.Context(), "k", "test"))
	b.RequireFree("k")
	for _, h := range held {
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
	}
	require.ErrorIs(t, b.Other.ForceUnlock(t.Context(), "k", "test"), relock.ErrNotHeld)
}

// The holder of a permit that was ended by force learns of it at its Unlock,
// also while the permit is kept for its minimum hold.
func TestForcedPermitThatIsKept(t *testing.T) {
	b := locktest.NewBench(t)
	h := locktest.Take(t, relock.NewSemaphore("k", 1, b.Client, relock.WithMinHold(time.Minute)).Acquire)
	require.NoError(t, b.Client.ForceUnlock(t.Context(), "k", "test"))
	require.Equal(t, relock.StateKept, locktest.Inspect(t, b.Client, "k").State)
	err := h.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrLockLost)
	require.ErrorIs(t, err, relock.ErrForced)
	_, err = relock.NewSemaphore("k", 1, b.Other).TryAcquire(t.Context())
	require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
}

// A fair semaphore serves waiters of all clients in order of arrival. A lower
// limit waits until fewer permits are taken.
func TestSemaphoreOrder(t *testing.T) {
	b := locktest.NewBench(t)
	opts := []relock.LockOption{relock.WithBlock(), relock.WithFair()}
	held := []relock.Hold{
		locktest.Take(t, relock.NewSemaphore("k", 2, b.Client, opts...).Acquire),
		locktest.Take(t, relock.NewSemaphore("k", 2, b.Client, opts...).Acquire),
	}
	type got struct {
		n int
		h relock.Hold
	}
	order := make(chan got, 9)
	for n := range 4 {
		c, limit := b.Client, 2
		if n%2 == 1 {
			c = b.Other
		}
		if n == 2 {
			limit = 1
		}
		s := relock.NewSemaphore("k", limit, c, opts...)
		go func() {
			h, err := s.Acquire(t.Context())
			if err != nil {
				t.Error(err)
			}
			order <- got{n, h}
		}()
		testkit.Eventually(t, testkit.Patience,
			func() bool { return locktest.Inspect(t, b.Client, "k").Waiting == n+1 }, "it waits")
	}
	info := locktest.Inspect(t, b.Client, "k")
	require.Equal(t, 2, info.Permits)
	next := func() got {
		select {
		case one := <-order:
			return one
		case <-time.After(testkit.Patience):
			require.FailNow(t, "nobody is served")
			return got{}
		}
	}
	require.NoError(t, held[0].Unlock(t.Context()))
	zero := next()
	require.Equal(t, 0, zero.n)
	require.NoError(t, held[1].Unlock(t.Context()))
	one := next()
	require.Equal(t, 1, one.n)
	require.NoError(t, zero.h.Unlock(t.Context()))
	_, err := relock.NewSemaphore("k", 9, b.Client, relock.WithFair()).TryAcquire(t.Context())
	require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers, "nobody overtakes the waiter of a lower limit")
	require.Equal(t, 1, locktest.Inspect(t, b.Client, "k").Permits)
	require.Empty(t, order, "one permit is taken, which is its limit")
	require.NoError(t, one.h.Unlock(t.Context()))
	two, three := next(), next() // both were handed their permits together
	require.Equal(t, 5, two.n+three.n)
	require.NoError(t, two.h.Unlock(t.Context()))
	require.NoError(t, three.h.Unlock(t.Context()))
	b.RequireNothingLeft("k")
}

// A client usually holds some of the permits that its other calls wait for. So
// neither the log nor the error names its own client.
func TestSemaphoreOfItsOwnClientIsNoWarning(t *testing.T) {
	const lease = 300 * time.Millisecond // a request has a third of it, also on a busy machine
	var log locktest.LogBuffer
	b := locktest.NewBench(t, log.Option())
	h := locktest.Take(t, relock.NewSemaphore("k", 1, b.Client, relock.WithWatchdog(time.Minute)).Acquire)
	_, err := relock.NewSemaphore("k", 1, b.Client, relock.WithWatchdog(lease), relock.WithBlockTimeout(4*lease)).
		Acquire(t.Context())
	require.EqualError(t, err, `relock: lock "k": lock is held by others: none of 1 permits is free`)
	require.NoError(t, h.Unlock(t.Context()))
	require.Empty(t, log.String())
}
