package relock_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A token is used once, however many try.
func TestResumeOnce(t *testing.T) {
	eachDetachable(t, func(t *detaching) {
		token := detached(t, t.a, t.take(t.a), time.Minute)
		var won atomic.Int32
		var group sync.WaitGroup
		for range 8 {
			c := locktest.Sibling(t, t.s, t.a)
			group.Go(func() {
				if h, err := c.Resume(t.Context(), token); err == nil {
					won.Add(1)
					require.NoError(t, h.Err())
				} else {
					require.ErrorIs(t, err, relock.ErrLockLost)
				}
			})
		}
		group.Wait()
		require.EqualValues(t, 1, won.Load())
	})
}

// The minimum hold goes on, by the server's clock.
func TestMinimumHoldTravels(t *testing.T) {
	eachDetachable(t, func(t *detaching) {
		start := time.Now()
		token := detached(t, t.a, t.take(t.a, relock.WithMinHold(time.Minute)), 20*time.Millisecond)
		require.Greater(t, locktest.PTTL(t, t.s, t.a, "k"), 30*time.Second, "longer than the token was asked for")
		t.s.Do(t, "PEXPIRE", locktest.KeyOf(t.a, "k"), 40_000) // as if 20 s had passed
		require.NoError(t, resumed(t, t.b, token, relock.WithExpiry(time.Hour)).Unlock(t.Context()))
		info := locktest.Inspect(t, t.b, "k")
		require.Equal(t, relock.StateKept, info.State)
		require.Less(t, info.Remaining, 40*time.Second)
		require.Greater(t, info.Remaining, 40*time.Second-time.Since(start)-100*time.Millisecond)
	})
}

// A minimum hold that is over keeps nothing.
func TestMinimumHoldIsOverAtResume(t *testing.T) {
	eachDetachable(t, func(t *detaching) {
		token := detached(t, t.a, t.take(t.a, relock.WithMinHold(time.Second)), time.Minute)
		t.s.Do(t, "PEXPIRE", locktest.KeyOf(t.a, "k"), 59_000)
		require.NoError(t, resumed(t, t.a, token).Unlock(t.Context()))
		locktest.RequireFree(t, t.s, t.a, "k")
	})
}

// The owner that resumes a reentrant lock adds levels to it.
func TestResumedReentrantLock(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	token := detached(t, c, locktest.Take(t, relock.NewReentrantLock("k", c).Acquire), time.Minute)
	require.Equal(t, "detached", locktest.Inspect(t, c, "k").Holder.Owner)
	ctx := relock.ContextWithOwner(t.Context(), "worker")
	h, err := c.Resume(ctx, token)
	require.NoError(t, err)
	lock := relock.NewReentrantLock("k", c)
	require.NoError(t, lock.TryLock(ctx))
	require.Equal(t, 2, lock.HoldCount(ctx))
	require.Equal(t, "worker", locktest.Inspect(t, c, "k").Holder.Owner)
	require.ErrorIs(t, second(c.Detach(t.Context(), h, time.Minute)), relock.ErrInvalid, "it has two levels")
	require.NoError(t, lock.Unlock(ctx))
	require.NoError(t, h.Unlock(ctx))
	require.NoError(t, lock.TryLock(t.Context()))
	require.NoError(t, lock.Unlock(t.Context()))

	// An owner with a lost hold has to unlock that first.
	lost := locktest.Take(t, relock.NewReentrantLock("k", c, relock.WithMaxHold(shortHold)).Acquire)
	require.ErrorIs(t, testkit.EndedWithin(t, lost.Context(), testkit.Patience), relock.ErrMaxHold)
	other := relock.ContextWithOwner(t.Context(), "other")
	h, err = relock.NewReentrantLock("k", c, relock.WithBlock()).Acquire(other)
	require.NoError(t, err)
	token, err = c.Detach(other, h, time.Minute)
	require.NoError(t, err)
	_, err = c.Resume(t.Context(), token)
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.NotErrorIs(t, err, relock.ErrLockLost, "the token is good")
	require.ErrorIs(t, lost.Unlock(t.Context()), relock.ErrMaxHold)
	require.NoError(t, resumed(t, c, token).Unlock(t.Context()))
}

func TestResumeRefuses(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t), relock.WithFencing())
	token := detached(t, c, locktest.Take(t, relock.NewRedisLock("k", c).Acquire), time.Minute)
	for name, tt := range map[string]struct {
		token string
		opt   relock.LockOption
	}{
		"empty": {"", nil}, "no token": {"relock2.", nil}, "text": {"relock2.%%", nil}, "another text": {"relock2.e30", nil},
		"cut":       {token[:len(token)-9], nil},
		"WithBlock": {token, relock.WithBlock()}, "WithFair": {token, relock.WithFair()},
		"WithFencing": {token, relock.WithFencing()},
		"WithMinHold": {token, relock.WithMinHold(time.Second)}, "WithQueueLimit": {token, relock.WithQueueLimit(3)},
	} {
		t.Run(name, func(t *testing.T) {
			var opts []relock.LockOption
			if tt.opt != nil {
				opts = append(opts, tt.opt)
			}
			_, err := c.Resume(t.Context(), tt.token, opts...)
			require.ErrorIs(t, err, relock.ErrInvalid)
			if tt.token != "" {
				require.NotContains(t, err.Error(), tt.token)
			}
		})
	}
	var none *relock.Client
	require.ErrorIs(t, second(none.Resume(t.Context(), token)), relock.ErrInvalid)
	require.ErrorIs(t, second(c.Resume(nil, token)), relock.ErrInvalid) //nolint:staticcheck // that is what is tested
	require.NoError(t, resumed(t, c, token).Unlock(t.Context()))
}
