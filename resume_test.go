package relock_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

// A token is used once, however many try.
func TestResumeOnce(t *testing.T) {
	eachDetachable(t, func(t *testing.T, s *redistest.Server, newLock func(*relock.Client, ...relock.LockOption) locktest.AnyLock) {
		a := locktest.NewTestClient(t, s)
		h := acquired(t, newLock(a))
		token, err := relock.Detach(t.Context(), h, time.Minute)
		require.NoError(t, err)
		var won atomic.Int32
		var group sync.WaitGroup
		for range 8 {
			c := locktest.Sibling(t, s, a)
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
	eachDetachable(t, func(t *testing.T, s *redistest.Server, newLock func(*relock.Client, ...relock.LockOption) locktest.AnyLock) {
		a := locktest.NewTestClient(t, s)
		start := time.Now()
		h := acquired(t, newLock(a, relock.WithMinHold(10*time.Second)))
		token, err := relock.Detach(t.Context(), h, 20*time.Millisecond)
		require.NoError(t, err)
		require.Greater(t, locktest.PTTL(t, s, a, "k"), 9*time.Second, "longer than the token was asked for")
		s.Do(t, "PEXPIRE", locktest.KeyOf(a, "k"), 6000) // as if 4 s had passed
		b := locktest.Sibling(t, s, a)
		resumed, err := b.Resume(t.Context(), token, relock.WithExpiry(time.Minute))
		require.NoError(t, err)
		require.NoError(t, resumed.Unlock(t.Context()))
		info := locktest.Inspect(t, b, "k")
		require.Equal(t, relock.StateKept, info.State)
		require.Less(t, info.Remaining, 6*time.Second)
		require.Greater(t, info.Remaining, 6*time.Second-time.Since(start)-100*time.Millisecond)
	})
}

// A minimum hold that is over keeps nothing.
func TestMinimumHoldIsOverAtResume(t *testing.T) {
	eachDetachable(t, func(t *testing.T, s *redistest.Server, newLock func(*relock.Client, ...relock.LockOption) locktest.AnyLock) {
		a := locktest.NewTestClient(t, s)
		token, err := relock.Detach(t.Context(), acquired(t, newLock(a, relock.WithMinHold(time.Second))), 10*time.Second)
		require.NoError(t, err)
		s.Do(t, "PEXPIRE", locktest.KeyOf(a, "k"), 9000)
		resumed, err := a.Resume(t.Context(), token)
		require.NoError(t, err)
		require.NoError(t, resumed.Unlock(t.Context()))
		locktest.RequireFree(t, s, a, "k")
	})
}

// The owner that resumes a reentrant lock adds levels to it.
func TestResumedReentrantLock(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	token, err := relock.Detach(t.Context(), acquired(t, relock.NewReentrantLock("k", c)), time.Minute)
	require.NoError(t, err)
	require.Equal(t, "detached", locktest.Inspect(t, c, "k").Holder.Owner)
	ctx := relock.ContextWithOwner(t.Context(), "worker")
	h, err := c.Resume(ctx, token)
	require.NoError(t, err)
	lock := relock.NewReentrantLock("k", c)
	require.NoError(t, lock.TryLock(ctx))
	require.Equal(t, 2, lock.HoldCount(ctx))
	require.Equal(t, "worker", locktest.Inspect(t, c, "k").Holder.Owner)
	_, err = relock.Detach(t.Context(), h, time.Minute)
	require.ErrorIs(t, err, relock.ErrInvalid, "it has two levels")
	require.NoError(t, lock.Unlock(ctx))
	require.NoError(t, h.Unlock(ctx))
	require.NoError(t, lock.TryLock(t.Context()))
	require.NoError(t, lock.Unlock(t.Context()))

	// An owner with a lost hold has to unlock that first.
	lost := acquired(t, relock.NewReentrantLock("k", c, relock.WithMaxHold(200*time.Millisecond)))
	<-lost.Context().Done()
	other := relock.ContextWithOwner(t.Context(), "other")
	h, err = relock.NewReentrantLock("k", c, relock.WithBlock()).Acquire(other)
	require.NoError(t, err)
	token, err = relock.Detach(other, h, time.Minute)
	require.NoError(t, err)
	_, err = c.Resume(t.Context(), token)
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.NotErrorIs(t, err, relock.ErrLockLost, "the token is good")
	require.ErrorIs(t, lost.Unlock(t.Context()), relock.ErrMaxHold)
	h, err = c.Resume(t.Context(), token)
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
}

func TestResumeRefuses(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t), relock.WithFencing())
	token, err := relock.Detach(t.Context(), acquired(t, relock.NewRedisLock("k", c)), time.Minute)
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		token string
		opt   relock.LockOption
	}{
		"empty": {"", nil}, "no token": {"relock1.", nil}, "text": {"relock1.%%", nil}, "another text": {"relock1.e30", nil}, "cut": {token[:len(token)-9], nil},
		"WithBlock": {token, relock.WithBlock()}, "WithFair": {token, relock.WithFair()}, "WithFencing": {token, relock.WithFencing()},
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
	_, err = none.Resume(t.Context(), token)
	require.ErrorIs(t, err, relock.ErrInvalid)
	_, err = c.Resume(nil, token) //nolint:staticcheck // that is what is tested
	require.ErrorIs(t, err, relock.ErrInvalid)
	h, err := c.Resume(t.Context(), token)
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
}
