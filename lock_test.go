package relock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

func TestLockTakesAndUnlockFrees(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	other := locktest.Sibling(t, s, c)
	l := relock.NewRedisLock("k", c)
	require.NoError(t, l.Validate())

	require.NoError(t, l.Lock(t.Context()))
	require.InDelta(t, 30*time.Second, locktest.Pttl(t, s, c, "k"), float64(time.Second), "the default lease is 30s")
	require.ErrorIs(t, relock.NewRedisLock("k", other).TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	require.NoError(t, relock.NewRedisLock("another", other).Lock(t.Context()), "another name is another lock")

	require.NoError(t, l.Unlock(t.Context()))
	locktest.RequireFree(t, s, c, "k")
	require.NoError(t, relock.NewRedisLock("k", other).TryLock(t.Context()))
}

func TestErrorsSayWhatAndWhere(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewRedisLock("orders:42", c)
	require.EqualError(t, l.Unlock(t.Context()), `relock: unlock "orders:42": not held`)
	require.NoError(t, l.Lock(t.Context()))
	err := relock.NewRedisLock("orders:42", c).Lock(t.Context())
	require.EqualError(t, err, `relock: lock "orders:42": lock is held by others`)
	var e *relock.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "lock", e.Op)
	require.Equal(t, "orders:42", e.Key)
}

// Every hold has a value of its own, also two of one goroutine on one object.
func TestEveryHoldIsNew(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewRedisLock("k", c)
	seen := map[string]bool{}
	for range 5 {
		require.NoError(t, l.Lock(t.Context()))
		seen[string(s.Do(t, "GET", locktest.KeyOf(c, "k")).([]byte))] = true
		require.NoError(t, l.Unlock(t.Context()))
	}
	require.Len(t, seen, 5)
}

func TestTryLockDoesNotWait(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s, relock.WithBlock())
	require.NoError(t, relock.NewRedisLock("k", c).Lock(t.Context()))
	start := time.Now()
	require.ErrorIs(t, relock.NewRedisLock("k", c).TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	_, err := relock.NewRedisLock("k", c).TryAcquire(t.Context())
	require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
	require.ErrorIs(t, relock.NewRedisLock("k", c).TryDo(t.Context(), locktest.Nothing), relock.ErrLockAcquiredByOthers)
	require.Less(t, time.Since(start), 2*time.Second)
}

func TestBlockingLockWaitsForUnlock(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := locktest.NewTestClient(t, s)
			holder := newLock("k", c, relock.WithOwner("holder"))
			require.NoError(t, holder.Lock(t.Context()))
			waiter := newLock("k", locktest.Sibling(t, s, c), relock.WithBlock())
			result := testkit.Async(t, func() error { return waiter.Lock(t.Context()) })
			select {
			case err := <-result:
				require.FailNow(t, "did not wait", "%v", err)
			case <-time.After(120 * time.Millisecond):
			}
			require.NoError(t, holder.Unlock(t.Context()))
			require.NoError(t, testkit.ResultWithin(t, result, time.Second))
		})
	}
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	cause := errors.New("my cause")
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			c := locktest.NewTestClient(t, s)
			require.NoError(t, newLock("k", c, relock.WithOwner("holder")).Lock(t.Context()))

			t.Run("block timeout", func(t *testing.T) {
				start := time.Now()
				err := newLock("k", c, relock.WithBlockTimeout(limit)).Lock(t.Context())
				require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
				require.NotErrorIs(t, err, context.DeadlineExceeded, "no context has ended")
				require.True(t, relock.IsRetryableErr(err))
				require.GreaterOrEqual(t, time.Since(start), limit)
				require.Less(t, time.Since(start), 2*limit)
			})
			t.Run("deadline", func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				err := newLock("k", c, relock.WithBlock()).Lock(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers, "the last reason seen")
				require.False(t, relock.IsRetryableErr(err))
			})
			t.Run("cancel with a cause", func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				result := testkit.Async(t, func() error { return newLock("k", c, relock.WithBlock()).Lock(ctx) })
				time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
				err := testkit.ResultWithin(t, result, time.Second)
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, cause)
			})
			t.Run("context over before", func(t *testing.T) {
				s := redistest.Start(t) // where nothing of the calls before comes late
				c := locktest.NewTestClient(t, s)
				ctx, cancel := context.WithCancelCause(t.Context())
				cancel(cause)
				before := locktest.CommandCount(t, s)
				for _, call := range []func(context.Context) error{
					newLock("k", c, relock.WithBlock()).Lock, newLock("k", c).TryLock,
					func(ctx context.Context) error { return newLock("k", c).Do(ctx, locktest.Nothing) },
				} {
					err := call(ctx)
					require.ErrorIs(t, err, context.Canceled)
					require.ErrorIs(t, err, cause)
					require.NotErrorIs(t, err, relock.ErrLockAcquiredByOthers)
				}
				require.LessOrEqual(t, locktest.CommandCount(t, s)-before, int64(1), "the counting itself")
			})
		})
	}
}

// A waiter looks again no sooner than the poll interval, whatever it is told.
// Where no message can reach a waiter it polls, as often as it was told to.
func TestPollIsNeverFaster(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "deaf", "on", ">pw", "~*", "&*", "+@all", "-subscribe")
	c := locktest.NewTestClient(t, s)
	require.NoError(t, relock.NewRedisLock("k", c).Lock(t.Context()))
	deaf, err := relock.NewClient(s.Network, s.Address, "pw", relock.WithUsername("deaf"), relock.WithKeyPrefix(locktest.Prefix(c)), relock.WithPollInterval(40*time.Millisecond))
	require.NoError(t, err)
	defer func() { require.NoError(t, deaf.Close()) }()
	s.Do(t, "CONFIG", "RESETSTAT")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	start := time.Now()
	waits := testkit.Async(t, func() error { return relock.NewRedisLock("k", deaf, relock.WithBlock()).Lock(ctx) })
	polls := 0
	testkit.Eventually(t, 4*time.Second, func() bool {
		polls = locktest.Calls(t, s, "evalsha")
		return polls >= 40
	}, "polls")
	require.LessOrEqual(t, polls, 1+int(time.Since(start)/(40*time.Millisecond)))
	cancel()
	require.ErrorIs(t, testkit.ResultWithin(t, waits, 10*time.Second), context.Canceled)
}

func TestUnlockOfNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := locktest.NewTestClient(t, s)
			l := newLock("k", c)
			require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld, "never locked")
			require.NoError(t, l.Lock(t.Context()))
			require.NoError(t, l.Unlock(t.Context()))
			require.NoError(t, newLock("k", locktest.Sibling(t, s, c)).Lock(t.Context()))
			err := l.Unlock(t.Context())
			require.ErrorIs(t, err, relock.ErrNotHeld, "twice")
			require.NotErrorIs(t, err, relock.ErrLockLost)
			locktest.RequireHeld(t, s, c, "k")
		})
	}
}

func TestLocksThatWereNotMade(t *testing.T) {
	t.Parallel()
	for _, l := range []locktest.AnyLock{
		&relock.RedisLock{}, relock.NewRedisLock("k", nil), relock.NewRedisLock("k", &relock.Client{}),
		&relock.ReentrantLock{}, relock.NewReentrantLock("k", nil), relock.NewReentrantLock("k", &relock.Client{}),
	} {
		require.ErrorIs(t, l.Validate(), relock.ErrInvalid)
		require.ErrorIs(t, l.Lock(t.Context()), relock.ErrInvalid)
		require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrInvalid)
		require.ErrorIs(t, l.Do(t.Context(), locktest.Nothing), relock.ErrInvalid)
		require.ErrorIs(t, l.TryDo(t.Context(), locktest.Nothing), relock.ErrInvalid)
		_, err := l.Acquire(t.Context())
		require.ErrorIs(t, err, relock.ErrInvalid)
		require.Error(t, l.Unlock(t.Context()))
	}
}

func TestCallsThatAreMistakes(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLock("k", locktest.NewTestClient(t, s))
			require.ErrorIs(t, l.Lock(nil), relock.ErrInvalid) //nolint:staticcheck // the mistake is meant
			require.ErrorIs(t, l.Do(t.Context(), nil), relock.ErrInvalid)
		})
	}
}

func TestUnlockByAnotherGoroutine(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewRedisLock("k", c)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, <-testkit.Async(t, func() error { return l.Unlock(t.Context()) }))
	locktest.RequireFree(t, s, c, "k")
}

func TestUnlockWithEndedContext(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := locktest.NewTestClient(t, s)
			ctx, cancel := context.WithCancel(t.Context())
			l := newLock("k", c)
			require.NoError(t, l.Lock(ctx))
			cancel()
			require.NoError(t, l.Unlock(ctx))
			locktest.RequireFree(t, s, c, "k")
		})
	}
}

// An Unlock after the lease has ended leaves the next holder alone.
func TestUnlockAfterExpiryWhileAnotherHolds(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := locktest.NewTestClient(t, s)
			l := newLock("k", c, relock.WithExpiry(1800*time.Millisecond))
			require.NoError(t, l.Lock(t.Context()))
			next := newLock("k", locktest.Sibling(t, s, c), relock.WithBlock(), relock.WithOwner("next"))
			require.NoError(t, next.Lock(t.Context()))
			err := l.Unlock(t.Context())
			require.ErrorIs(t, err, relock.ErrLockLost)
			require.ErrorIs(t, err, relock.ErrNotHeld)
			require.Greater(t, locktest.Pttl(t, s, c, "k"), 20*time.Second, "the next holder's lease is whole")
			require.NoError(t, next.Unlock(t.Context()))
		})
	}
}

func TestBlockingLockUnderItsOwnHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewRedisLock("k", c)
	blocking := relock.NewRedisLock("k", c, relock.WithBlock())
	err := l.Do(t.Context(), func(ctx context.Context) error {
		require.ErrorIs(t, blocking.Lock(ctx), relock.ErrInvalid, "it would wait for itself")
		require.ErrorIs(t, blocking.TryLock(ctx), relock.ErrLockAcquiredByOthers)
		h, ok := relock.HoldFromContext(ctx, "k")
		require.True(t, ok)
		require.ErrorIs(t, blocking.Lock(h.Context()), relock.ErrInvalid)
		return nil
	})
	require.NoError(t, err)
}

// The object stays taken after a loss, until its Unlock: who waits for it under the lost hold waits for itself.
func TestBlockingLockUnderItsLostHold(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	l := relock.NewRedisLock("k", c, relock.WithBlock(), relock.WithExpiry(300*time.Millisecond))
	result := testkit.Async(t, func() error {
		return l.Do(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return l.Lock(context.WithoutCancel(ctx))
		})
	})
	require.ErrorIs(t, testkit.ResultWithin(t, result, 5*time.Second), relock.ErrInvalid)
}

// Two processes of one host, each with goroutines: an unprotected read and write loses no update.
func TestExclusionBetweenClients(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := locktest.NewTestClient(t, s)
			clients := []*relock.Client{c, locktest.Sibling(t, s, c)}
			var inside atomic.Int32
			counter := 0
			var group sync.WaitGroup
			for i := range 8 {
				group.Go(func() {
					l := newLock("k", clients[i%2], relock.WithBlock(), relock.WithPollInterval(time.Millisecond))
					for range 10 {
						err := l.Do(t.Context(), func(context.Context) error {
							if inside.Add(1) != 1 {
								t.Error("two are inside")
							}
							counter++
							inside.Add(-1)
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			group.Wait()
			require.Equal(t, 80, counter)
		})
	}
}
