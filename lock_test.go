package relock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestTryLockDoesNotWait(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t), relock.WithBlock())
	require.NoError(t, relock.NewRedisLock("k", c).Lock(t.Context()))
	clock := testkit.NewStopwatch(t)
	for _, call := range []string{"TryLock", "TryAcquire", "TryDo"} {
		require.ErrorIs(t, firstCalls(relock.NewRedisLock("k", c))[call](t.Context()), relock.ErrLockAcquiredByOthers, call)
	}
	clock.Within(5 * promptness)
}

// An Unlock after the lease has expired does not affect the next holder.
func TestUnlockAfterExpiryWhileAnotherHolds(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, s *redistest.Server, c *relock.Client, newLock locktest.NewLock) {
		l := newLock("k", c, relock.WithExpiry(600*time.Millisecond))
		require.NoError(t, inTime(t, func() error { return l.Lock(t.Context()) }))
		next := locktest.Owned("next", newLock("k", locktest.Sibling(t, s, c), relock.WithBlock()))
		require.NoError(t, next.Lock(t.Context()))
		whole := func() bool { return locktest.PTTL(t, s, c, "k") > 20*time.Second }
		testkit.Eventually(t, testkit.Patience, whole, "granted by a message, it is claimed")
		locktest.RequireIs(t, l.Unlock(t.Context()), relock.ErrLockLost, relock.ErrNotHeld)
		require.True(t, whole(), "the next holder's lease is whole")
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
		return inTime(t, func() error {
			return l.Do(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				return l.Lock(context.WithoutCancel(ctx))
			})
		})
	})
	require.ErrorIs(t, testkit.ResultWithin(t, result, 2*testkit.Patience), relock.ErrInvalid)
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
// unchanged. The same is true of a lock of another kind.
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
				for mode, opts := range modes {
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
