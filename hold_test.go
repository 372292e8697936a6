package relock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

type userKey struct{}

func TestHoldContext(t *testing.T) {
	t.Parallel()
	locktest.EachKind(t, func(t *testing.T, _ *redistest.Server, c *relock.Client, newLock locktest.NewLock) {
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), userKey{}, "value"))
		h, err := newLock("k", c).Acquire(ctx)
		require.NoError(t, err)
		cancel()
		require.NoError(t, h.Context().Err(), "it is not cancelled with the context of Acquire")
		require.Equal(t, "value", h.Context().Value(userKey{}))
		require.Equal(t, h, carried(t, h.Context(), "k"))
		require.NoError(t, h.Err())

		require.NoError(t, h.Unlock(ctx))
		require.Equal(t, relock.ErrNotHeld, context.Cause(h.Context()))
		require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
		require.Zero(t, h.ValidUntil())
		require.Zero(t, h.Fence())
		require.Equal(t, "k", h.Key())
		err = h.Extend(t.Context(), time.Minute)
		require.ErrorIs(t, err, relock.ErrNotHeld)
		require.NotErrorIs(t, err, relock.ErrLockLost)

		h = locktest.Take(t, newLock("k", c).Acquire)
		require.NoError(t, h.Unlock(nil)) //nolint:staticcheck // the mistake is meant
		require.Equal(t, relock.ErrNotHeld, context.Cause(h.Context()), "its first use is after the end")
	})
}

func TestExtend(t *testing.T) {
	t.Parallel()
	locktest.EachKind(t, func(t *testing.T, s *redistest.Server, c *relock.Client, newLock locktest.NewLock) {
		h := locktest.Take(t, newLock("k", c, relock.WithExpiry(2*time.Second)).Acquire)
		require.NoError(t, h.Extend(t.Context(), 10*time.Second))
		require.Greater(t, locktest.PTTL(t, s, c, "k"), 9*time.Second)
		require.Greater(t, time.Until(h.ValidUntil()), 9*time.Second)

		require.NoError(t, h.Extend(t.Context(), time.Second))
		require.Greater(t, locktest.PTTL(t, s, c, "k"), 8*time.Second, "never shorter")
		until := h.ValidUntil()
		require.Greater(t, time.Until(until), 8*time.Second)

		for _, d := range []time.Duration{0, -1, -time.Second, 9 * time.Millisecond, 10500 * time.Microsecond, 1 << 62, 1<<63 - 1} {
			requireMistakes(t, h.Extend(t.Context(), d), "extend", "Extend")
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, h.Extend(ended, time.Minute), context.Canceled)
		require.NoError(t, h.Err(), "an error leaves the hold as it was")
		require.Equal(t, until, h.ValidUntil())
		require.Equal(t, 10*time.Second, locktest.LeaseOf(h).State().Length, "nothing was requested")

		s.Do(t, "DEL", locktest.KeyOf(c, "k"))
		require.ErrorIs(t, h.Extend(t.Context(), time.Minute), relock.ErrLockLost)
		require.ErrorIs(t, context.Cause(h.Context()), relock.ErrLockLost)
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
		require.ErrorIs(t, h.Extend(t.Context(), time.Minute), relock.ErrLockLost)
		locktest.RequireFree(t, s, c, "k")
	})
}

func TestMinHold(t *testing.T) {
	t.Parallel()
	locktest.EachKind(t, func(t *testing.T, s *redistest.Server, c *relock.Client, newLock locktest.NewLock) {
		kept := func(key string, minimum time.Duration) locktest.AnyLock {
			l := newLock(key, c, relock.WithExpiry(3*time.Second), relock.WithMinHold(minimum))
			require.NoError(t, l.Lock(t.Context()))
			time.Sleep(min(minimum, 20*time.Millisecond))
			require.NoError(t, l.Unlock(t.Context()))
			return l
		}
		kept("over", 10*time.Millisecond)
		locktest.RequireFree(t, s, c, "over")
		kept("longer than the lease", 15*time.Second)
		require.Greater(t, locktest.PTTL(t, s, c, "longer than the lease"), 12*time.Second)

		start := time.Now()
		l := kept("k", time.Second)
		require.LessOrEqual(t, locktest.PTTL(t, s, c, "k"), time.Second)
		require.ErrorIs(t, newLock("k", c).TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
		require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)
		require.NoError(t, newLock("k", locktest.Sibling(t, s, c), relock.WithBlock()).Lock(t.Context()))
		require.GreaterOrEqual(t, time.Since(start), time.Second)
		require.Less(t, time.Since(start), 4*time.Second)
	})
}

// The minimum is kept also if no release reaches the server before the lease
// has expired.
func TestMinHoldOutlivesTheLease(t *testing.T) {
	t.Parallel()
	locktest.EachKind(t, func(t *testing.T, s *redistest.Server, c *relock.Client, newLock locktest.NewLock) {
		other := locktest.Sibling(t, s, c)
		start := time.Now()
		require.NoError(t, newLock("k", c, relock.WithExpiry(600*time.Millisecond), relock.WithMinHold(1200*time.Millisecond)).Lock(t.Context()))
		require.NoError(t, c.Close()) // as a crash: nothing is released
		require.NoError(t, newLock("k", other, relock.WithBlock()).Lock(t.Context()))
		require.GreaterOrEqual(t, time.Since(start), 1200*time.Millisecond)
		require.Less(t, time.Since(start), 5*time.Second)
	})
}

func TestMaxHold(t *testing.T) {
	t.Parallel()
	locktest.EachKind(t, func(t *testing.T, s *redistest.Server, c *relock.Client, newLock locktest.NewLock) {
		h := locktest.Take(t, newLock("k", c, relock.WithMaxHold(500*time.Millisecond)).Acquire)
		locktest.RequireIs(t, testkit.EndedWithin(t, h.Context(), 5*time.Second), relock.ErrMaxHold, relock.ErrLockLost)
		require.ErrorIs(t, h.Err(), relock.ErrMaxHold)
		require.Zero(t, h.ValidUntil())
		testkit.Eventually(t, 5*time.Second, func() bool { return locktest.PTTL(t, s, c, "k") < 0 }, "it is released")
		locktest.RequireIs(t, h.Unlock(t.Context()), relock.ErrMaxHold, relock.ErrLockLost, relock.ErrNotHeld)
	})
}

// HoldCount returns the caller's levels, of this client.
func TestHoldCount(t *testing.T) {
	t.Parallel()
	s, mine := redistest.Shared(t), locktest.As(t, "me")
	c := locktest.NewTestClient(t, s)
	l := locktest.Owned("me", relock.NewReentrantLock("k", c, relock.WithWatchdog(3*time.Second)))
	require.Zero(t, l.HoldCount(mine))
	var h relock.Hold
	for n := range 3 {
		h = locktest.Take(t, l.Acquire)
		require.Equal(t, n+1, l.HoldCount(mine))
	}
	require.Zero(t, l.HoldCount(relock.ContextWithOwner(t.Context(), "other")))
	require.Zero(t, relock.NewReentrantLock("k", locktest.Sibling(t, s, c)).HoldCount(mine))
	require.NoError(t, l.Unlock(t.Context()))
	require.Equal(t, 2, l.HoldCount(mine))
	s.Do(t, "DEL", locktest.KeyOf(c, "k"))
	locktest.LeaseOf(h).RenewNow()
	testkit.Eventually(t, 5*time.Second, func() bool { return l.HoldCount(mine) == 0 }, "lost")
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost)
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost)
	require.Zero(t, l.HoldCount(relock.ContextWithOwner(t.Context(), "")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	goOn := locktest.Engine(c).Block(lease.OwnerKey{Lock: "k", ID: locktest.Engine(c).Identity.Named("busy"), Family: lockspec.ReentrantFamily})
	require.Zero(t, relock.NewReentrantLock("k", c).HoldCount(relock.ContextWithOwner(ctx, "busy")))
	goOn()
}

// The loss of a hold names the suspended machine, for all keys of a MultiLock
// too.
func TestSuspendSaysSo(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	var suspended atomic.Int64
	asleep := func() time.Duration { return time.Duration(suspended.Load()) }
	locktest.Engine(c).SetClocks(asleep, func(time.Time) (wall, awake time.Duration) { return asleep(), 0 })
	one := locktest.Take(t, relock.NewRedisLock("one", c).Acquire)
	several := locktest.Take(t, relock.NewMultiLock([]string{"a", "b"}, c).Acquire)
	suspended.Add(int64(time.Minute))
	for _, h := range []relock.Hold{one, several} {
		require.ErrorIs(t, h.Err(), relock.ErrLockLost)
		require.ErrorContains(t, h.Err(), ": lock lost (machine was suspended)")
		require.ErrorContains(t, h.Unlock(t.Context()), ": lock lost (machine was suspended)")
	}
	require.EqualValues(t, 3, c.Stats().Losses)
}

// A refused hold whose reason cannot be read in time says that the server no
// longer has it, not that it was not renewed.
func TestRefusedHoldWithoutAReason(t *testing.T) {
	t.Parallel()
	h := locktest.Take(t, relock.NewRedisLock("k", locktest.NewTestClient(t, redistest.Shared(t))).Acquire)
	locktest.LeaseOf(h).Refuse(time.Millisecond)
	<-h.Context().Done()
	require.ErrorContains(t, h.Err(), "lock lost (the server no longer has it)")
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
}

func TestTryLockDoesNotWait(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t), relock.WithBlock())
	require.NoError(t, relock.NewRedisLock("k", c).Lock(t.Context()))
	start := time.Now()
	for _, call := range []string{"TryLock", "TryAcquire", "TryDo"} {
		require.ErrorIs(t, firstCalls(relock.NewRedisLock("k", c))[call](t.Context()), relock.ErrLockAcquiredByOthers, call)
	}
	require.Less(t, time.Since(start), 2*time.Second)
}

// An Unlock after the lease has expired does not affect the next holder.
func TestUnlockAfterExpiryWhileAnotherHolds(t *testing.T) {
	t.Parallel()
	locktest.EachKind(t, func(t *testing.T, s *redistest.Server, c *relock.Client, newLock locktest.NewLock) {
		l := newLock("k", c, relock.WithExpiry(600*time.Millisecond))
		require.NoError(t, l.Lock(t.Context()))
		next := locktest.Owned("next", newLock("k", locktest.Sibling(t, s, c), relock.WithBlock()))
		require.NoError(t, next.Lock(t.Context()))
		locktest.RequireIs(t, l.Unlock(t.Context()), relock.ErrLockLost, relock.ErrNotHeld)
		require.Greater(t, locktest.PTTL(t, s, c, "k"), 20*time.Second, "the next holder's lease is whole")
		require.NoError(t, next.Unlock(t.Context()))
	})
}

func TestBlockingLockUnderItsOwnHold(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	blocking := relock.NewRedisLock("k", c, relock.WithBlock())
	require.NoError(t, relock.NewRedisLock("k", c).Do(t.Context(), func(ctx context.Context) error {
		require.ErrorIs(t, blocking.Lock(ctx), relock.ErrInvalid, "it would wait for itself")
		require.ErrorIs(t, blocking.TryLock(ctx), relock.ErrLockAcquiredByOthers)
		h := carried(t, ctx, "k")
		require.ErrorIs(t, blocking.Lock(h.Context()), relock.ErrInvalid)
		return nil
	}))
}

// After a loss the object stays locked until its Unlock. A call that waits for
// it under the lost hold waits for itself.
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

// A default that a kind cannot honour is ignored. TestTableOfOptions has it as
// a lock's own option, which is a mistake.
func TestOptionThatAKindCannotHonour(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t), relock.WithMaxLease(time.Second)) // below the lease
	for _, l := range []locktest.AnyLock{relock.NewRedisLock("k", c), relock.NewReentrantLock("k", c)} {
		require.NoError(t, l.Validate())
		require.NoError(t, errors.Join(l.Lock(t.Context()), l.Unlock(t.Context())))
	}
}

// A key of another program is a conflict, not a lock that is held, and is left
// unchanged. So is a lock of another kind.
func TestKeyConflict(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnOwn(t)
	require.NoError(t, relock.NewRedisLock("RedisLock", c).Lock(t.Context()))
	require.NoError(t, relock.NewReentrantLock("ReentrantLock", c).Lock(t.Context()))
	other := locktest.Sibling(t, s, c, relock.WithBlock())
	for name, create := range map[string][]any{
		"string":         {"SET", "hello"},
		"empty string":   {"SET", ""},
		"number":         {"SET", 7},
		"hash":           {"HSET", "field", "value"},
		"hash of counts": {"HSET", "client:1", "1"},
		"list":           {"RPUSH", "x"},
		"set":            {"SADD", "x"},
		"sorted set":     {"ZADD", 1, "x"},
		"stream":         {"XADD", "*", "f", "v"},
		"RedisLock":      nil,
		"ReentrantLock":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			if create != nil {
				setKey(t, s, c, name, create)
			}
			before := s.Content(t, locktest.KeyOf(c, name))
			for kind, newLock := range locktest.AllKinds {
				if kind == name || kind == "MultiLock" { // its own kind is held
					continue
				}
				for mode, opts := range map[string][]relock.LockOption{"unfair": nil, "fair": {relock.WithFair()}} {
					for call, f := range acquiringCalls(newLock(name, other, opts...)) {
						require.ErrorIs(t, locktest.RequireAtOnce(t, f), relock.ErrKeyConflict, "%s %s %s", mode, kind, call)
					}
				}
			}
			require.Equal(t, before, s.Content(t, locktest.KeyOf(c, name)))
			if create != nil {
				require.Equal(t, time.Duration(-1), locktest.PTTL(t, s, c, name), "it got an expiry")
			}
		})
	}
}

// setKey writes what is not a lock to the key of a lock.
func setKey(t testing.TB, s *redistest.Server, c *relock.Client, name string, create []any) {
	t.Helper()
	s.Do(t, create[0].(string), append([]any{locktest.KeyOf(c, name)}, create[1:]...)...)
}

// A key that was replaced under a hold is lost, and left unchanged.
func TestKeyReplacedUnderAHold(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	for name, newLock := range locktest.Kinds {
		l := newLock(name, c)
		for _, value := range [][]any{{"SET", "mine"}, {"RPUSH", "mine"}, {"HSET", "f", "v"}} {
			require.NoError(t, l.Lock(t.Context()))
			s.Do(t, "DEL", locktest.KeyOf(c, name))
			setKey(t, s, c, name, value)
			require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost, "%s, %v", name, value)
			require.Equal(t, time.Duration(-1), locktest.PTTL(t, s, c, name))
			s.Do(t, "DEL", locktest.KeyOf(c, name))
		}
	}
}
