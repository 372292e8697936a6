package relock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

func TestLockTakesAndUnlockFrees(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	other := sibling(t, s, c)
	l := NewRedisLock("k", c)
	require.NoError(t, l.Validate())

	require.NoError(t, l.Lock(t.Context()))
	require.InDelta(t, 30*time.Second, pttl(t, s, c, "k"), float64(time.Second), "the default lease is 30s")
	require.ErrorIs(t, NewRedisLock("k", other).TryLock(t.Context()), ErrLockAcquiredByOthers)
	require.NoError(t, NewRedisLock("another", other).Lock(t.Context()), "another name is another lock")

	require.NoError(t, l.Unlock(t.Context()))
	requireFree(t, s, c, "k")
	require.NoError(t, NewRedisLock("k", other).TryLock(t.Context()))
}

func TestErrorsSayWhatAndWhere(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewRedisLock("orders:42", c)
	require.EqualError(t, l.Unlock(t.Context()), `relock: unlock "orders:42": not held`)
	require.NoError(t, l.Lock(t.Context()))
	err := NewRedisLock("orders:42", c).Lock(t.Context())
	require.EqualError(t, err, `relock: lock "orders:42": lock is held by others (one attempt; see WithBlock)`)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "lock", e.Op)
	require.Equal(t, "orders:42", e.Key)
}

// Every hold has a value of its own, also two of one goroutine on one object.
func TestEveryHoldIsNew(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewRedisLock("k", c)
	seen := map[string]bool{}
	for range 5 {
		require.NoError(t, l.Lock(t.Context()))
		seen[string(s.Do(t, "GET", keyOf(c, "k")).([]byte))] = true
		require.NoError(t, l.Unlock(t.Context()))
	}
	require.Len(t, seen, 5)
}

func TestTryLockDoesNotWait(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s, WithBlock())
	require.NoError(t, NewRedisLock("k", c).Lock(t.Context()))
	start := time.Now()
	require.ErrorIs(t, NewRedisLock("k", c).TryLock(t.Context()), ErrLockAcquiredByOthers)
	_, err := NewRedisLock("k", c).TryAcquire(t.Context())
	require.ErrorIs(t, err, ErrLockAcquiredByOthers)
	require.ErrorIs(t, NewRedisLock("k", c).TryDo(t.Context(), nothing), ErrLockAcquiredByOthers)
	require.Less(t, time.Since(start), 2*time.Second)
}

func nothing(context.Context) error { return nil }

func TestBlockingLockWaitsForUnlock(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, s)
			holder := owned("holder", newLock("k", c))
			require.NoError(t, holder.Lock(t.Context()))
			waiter := newLock("k", sibling(t, s, c), WithBlock())
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

// anyLock is what every kind of lock has.
type anyLock interface {
	Mutex
	Acquire(context.Context) (Hold, error)
	TryAcquire(context.Context) (Hold, error)
	Validate() error
}

// kinds makes each kind of lock for tests of what they share.
var kinds = map[string]func(key string, c *Client, opts ...LockOption) anyLock{
	"RedisLock": func(key string, c *Client, opts ...LockOption) anyLock {
		return NewRedisLock(key, c, opts...)
	},
	"ReentrantLock": func(key string, c *Client, opts ...LockOption) anyLock {
		return NewReentrantLock(key, c, opts...)
	},
}

func TestWaitEnds(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	cause := errors.New("my cause")
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			c := newTestClient(t, s)
			require.NoError(t, owned("holder", newLock("k", c)).Lock(t.Context()))

			t.Run("block timeout", func(t *testing.T) {
				start := time.Now()
				err := newLock("k", c, WithBlockTimeout(limit)).Lock(t.Context())
				require.ErrorIs(t, err, ErrLockAcquiredByOthers)
				require.NotErrorIs(t, err, context.DeadlineExceeded, "no context has ended")
				require.True(t, IsRetryableErr(err))
				require.GreaterOrEqual(t, time.Since(start), limit)
				require.Less(t, time.Since(start), 2*limit)
			})
			t.Run("deadline", func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				err := newLock("k", c, WithBlock()).Lock(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, ErrLockAcquiredByOthers, "the last reason seen")
				require.False(t, IsRetryableErr(err))
			})
			t.Run("cancel with a cause", func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				result := testkit.Async(t, func() error { return newLock("k", c, WithBlock()).Lock(ctx) })
				time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
				err := testkit.ResultWithin(t, result, time.Second)
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, cause)
			})
			t.Run("context over before", func(t *testing.T) {
				s := redistest.Start(t) // where nothing of the calls before comes late
				c := newTestClient(t, s)
				ctx, cancel := context.WithCancelCause(t.Context())
				cancel(cause)
				before := commandCount(t, s)
				for _, call := range []func(context.Context) error{
					newLock("k", c, WithBlock()).Lock, newLock("k", c).TryLock,
					func(ctx context.Context) error { return newLock("k", c).Do(ctx, nothing) },
				} {
					err := call(ctx)
					require.ErrorIs(t, err, context.Canceled)
					require.ErrorIs(t, err, cause)
					require.NotErrorIs(t, err, ErrLockAcquiredByOthers)
				}
				require.LessOrEqual(t, commandCount(t, s)-before, int64(1), "the counting itself")
			})
		})
	}
}

// commandCount is how many commands the server has processed, this one not among them. The watchdog may add some.
func commandCount(t *testing.T, s *redistest.Server) int64 {
	t.Helper()
	return scripttest.InfoField(t, s, "stats", "total_commands_processed")
}

// A waiter looks again no sooner than the poll interval, whatever it is told.
// Where no message can reach a waiter it polls, as often as it was told to.
func TestPollIsNeverFaster(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "deaf", "on", ">pw", "~*", "&*", "+@all", "-subscribe")
	c := newTestClient(t, s)
	require.NoError(t, NewRedisLock("k", c).Lock(t.Context()))
	deaf, err := NewClient(s.Network, s.Address, "pw", WithUsername("deaf"), WithKeyPrefix(c.config.prefix), WithPollInterval(40*time.Millisecond))
	require.NoError(t, err)
	defer func() { require.NoError(t, deaf.Close()) }()
	s.Do(t, "CONFIG", "RESETSTAT")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	start := time.Now()
	waits := testkit.Async(t, func() error { return NewRedisLock("k", deaf, WithBlock()).Lock(ctx) })
	polls := 0
	testkit.Eventually(t, 4*time.Second, func() bool {
		polls = calls(t, s, "evalsha")
		return polls >= 40
	}, "polls")
	require.LessOrEqual(t, polls, 1+int(time.Since(start)/(40*time.Millisecond)))
	cancel()
	require.ErrorIs(t, testkit.ResultWithin(t, waits, 10*time.Second), context.Canceled)
}

func TestUnlockOfNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, s)
			l := newLock("k", c)
			require.ErrorIs(t, l.Unlock(t.Context()), ErrNotHeld, "never locked")
			require.NoError(t, l.Lock(t.Context()))
			require.NoError(t, l.Unlock(t.Context()))
			require.NoError(t, newLock("k", sibling(t, s, c)).Lock(t.Context()))
			err := l.Unlock(t.Context())
			require.ErrorIs(t, err, ErrNotHeld, "twice")
			require.NotErrorIs(t, err, ErrLockLost)
			requireHeld(t, s, c, "k")
		})
	}
}

func TestLocksThatWereNotMade(t *testing.T) {
	t.Parallel()
	for _, l := range []anyLock{
		&RedisLock{}, NewRedisLock("k", nil), NewRedisLock("k", &Client{}),
		&ReentrantLock{}, NewReentrantLock("k", nil), NewReentrantLock("k", &Client{}),
	} {
		require.ErrorIs(t, l.Validate(), ErrInvalid)
		require.ErrorIs(t, l.Lock(t.Context()), ErrInvalid)
		require.ErrorIs(t, l.TryLock(t.Context()), ErrInvalid)
		require.ErrorIs(t, l.Do(t.Context(), nothing), ErrInvalid)
		require.ErrorIs(t, l.TryDo(t.Context(), nothing), ErrInvalid)
		_, err := l.Acquire(t.Context())
		require.ErrorIs(t, err, ErrInvalid)
		require.Error(t, l.Unlock(t.Context()))
	}
}

func TestCallsThatAreMistakes(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLock("k", newTestClient(t, s))
			require.ErrorIs(t, l.Lock(nil), ErrInvalid) //nolint:staticcheck // the mistake is meant
			require.ErrorIs(t, l.Do(t.Context(), nil), ErrInvalid)
		})
	}
}

func TestUnlockByAnotherGoroutine(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewRedisLock("k", c)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, <-testkit.Async(t, func() error { return l.Unlock(t.Context()) }))
	requireFree(t, s, c, "k")
}

func TestUnlockWithEndedContext(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, s)
			ctx, cancel := context.WithCancel(t.Context())
			l := newLock("k", c)
			require.NoError(t, l.Lock(ctx))
			cancel()
			require.NoError(t, l.Unlock(ctx))
			requireFree(t, s, c, "k")
		})
	}
}

// An Unlock after the lease has ended leaves the next holder alone.
func TestUnlockAfterExpiryWhileAnotherHolds(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, s)
			l := newLock("k", c, WithExpiry(1800*time.Millisecond))
			require.NoError(t, l.Lock(t.Context()))
			next := owned("next", newLock("k", sibling(t, s, c), WithBlock()))
			require.NoError(t, next.Lock(t.Context()))
			err := l.Unlock(t.Context())
			require.ErrorIs(t, err, ErrLockLost)
			require.ErrorIs(t, err, ErrNotHeld)
			require.Greater(t, pttl(t, s, c, "k"), 20*time.Second, "the next holder's lease is whole")
			require.NoError(t, next.Unlock(t.Context()))
		})
	}
}

func TestBlockingLockUnderItsOwnHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	l := NewRedisLock("k", newTestClient(t, s))
	blocking := NewRedisLock("k", l.client, WithBlock())
	err := l.Do(t.Context(), func(ctx context.Context) error {
		require.ErrorIs(t, blocking.Lock(ctx), ErrInvalid, "it would wait for itself")
		require.ErrorIs(t, blocking.TryLock(ctx), ErrLockAcquiredByOthers)
		h, ok := HoldFromContext(ctx, "k")
		require.True(t, ok)
		require.ErrorIs(t, blocking.Lock(h.Context()), ErrInvalid)
		return nil
	})
	require.NoError(t, err)
}

// The object stays taken after a loss, until its Unlock: who waits for it under the lost hold waits for itself.
func TestBlockingLockUnderItsLostHold(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, redistest.Shared(t))
	l := NewRedisLock("k", c, WithBlock(), WithExpiry(300*time.Millisecond))
	result := testkit.Async(t, func() error {
		return l.Do(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return l.Lock(context.WithoutCancel(ctx))
		})
	})
	require.ErrorIs(t, testkit.ResultWithin(t, result, 5*time.Second), ErrInvalid)
}

// Two processes of one host, each with goroutines: an unprotected read and write loses no update.
func TestExclusionBetweenClients(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, s)
			clients := []*Client{c, sibling(t, s, c)}
			var inside atomic.Int32
			counter := 0
			var group sync.WaitGroup
			for i := range 8 {
				group.Go(func() {
					l := newLock("k", clients[i%2], WithBlock(), WithPollInterval(time.Millisecond))
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
