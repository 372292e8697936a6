package relock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/relocktest"
)

// detachable are the locks whose holds can be detached.
var detachable = map[string]func(c *relock.Client, opts ...relock.LockOption) locktest.AnyLock{
	"plain": func(c *relock.Client, opts ...relock.LockOption) locktest.AnyLock {
		return relock.NewRedisLock("k", c, opts...)
	},
	"reentrant": func(c *relock.Client, opts ...relock.LockOption) locktest.AnyLock {
		return relock.NewReentrantLock("k", c, opts...)
	},
}

// eachDetachable runs the test for each kind and mode.
func eachDetachable(t *testing.T, test func(t *testing.T, s *redistest.Server, newLock func(c *relock.Client, opts ...relock.LockOption) locktest.AnyLock)) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range detachable {
		for mode, opts := range map[string][]relock.LockOption{"unfair": nil, "fair": {relock.WithFair()}} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				test(t, s, func(c *relock.Client, more ...relock.LockOption) locktest.AnyLock {
					return newLock(c, append(more, opts...)...)
				})
			})
		}
	}
}

func TestDetachAndResume(t *testing.T) {
	eachDetachable(t, func(t *testing.T, s *redistest.Server, newLock func(*relock.Client, ...relock.LockOption) locktest.AnyLock) {
		a := locktest.NewTestClient(t, s)
		b := locktest.Sibling(t, s, a)
		h := acquired(t, newLock(a, relock.WithFencing(), relock.WithExpiry(time.Second)))
		ctx := h.Context()

		token, err := relock.Detach(t.Context(), h, time.Minute)
		require.NoError(t, err)
		require.ErrorIs(t, context.Cause(ctx), relock.ErrDetached)
		require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrNotHeld)
		require.Greater(t, locktest.PTTL(t, s, a, "k"), 59*time.Second)
		require.ErrorIs(t, newLock(b).TryLock(t.Context()), relock.ErrLockAcquiredByOthers)

		resumed, err := b.Resume(t.Context(), token, relock.WithWatchdog(5*time.Second), relock.WithLabel("worker"))
		require.NoError(t, err)
		require.Equal(t, "k", resumed.Key())
		require.Equal(t, h.Fence(), resumed.Fence())
		require.NoError(t, resumed.Err())
		require.InDelta(t, 5*time.Second, locktest.PTTL(t, s, a, "k"), float64(time.Second))
		info, err := b.Inspect(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, "worker", info.Holder.Label)

		for _, c := range []*relock.Client{a, b} {
			_, err = c.Resume(t.Context(), token)
			require.ErrorIs(t, err, relock.ErrLockLost)
			require.NotContains(t, err.Error(), strings.TrimPrefix(token, "relock1."))
		}
		require.ErrorIs(t, newLock(a).TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
		require.NoError(t, resumed.Unlock(t.Context()))
		require.NoError(t, newLock(a).TryLock(t.Context()))
	})
}

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

func acquired(t testing.TB, l locktest.AnyLock) relock.Hold {
	t.Helper()
	h, err := l.Acquire(t.Context())
	require.NoError(t, err)
	return h
}

// A waiter gets the lock when the time of the token is over.
func TestDetachedLockBecomesFree(t *testing.T) {
	eachDetachable(t, func(t *testing.T, s *redistest.Server, newLock func(*relock.Client, ...relock.LockOption) locktest.AnyLock) {
		a := locktest.NewTestClient(t, s)
		b := locktest.Sibling(t, s, a)
		h := acquired(t, newLock(a))
		waiting := testkit.Async(t, func() error { return newLock(b, relock.WithBlock()).Lock(t.Context()) })
		testkit.Eventually(t, testkit.Patience, func() bool { return locktest.Inspect(t, b, "k").Waiting == 1 }, "nobody waits")
		token, err := relock.Detach(t.Context(), h, 300*time.Millisecond)
		require.NoError(t, err)
		require.Positive(t, locktest.PTTL(t, s, a, "k"))
		require.NoError(t, testkit.ResultWithin(t, waiting, testkit.Patience))
		_, err = a.Resume(t.Context(), token)
		require.ErrorIs(t, err, relock.ErrLockLost)
	})
}

func TestDetachRefuses(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	fresh := func() relock.Hold { return acquired(t, relock.NewRedisLock(fmt.Sprint(t.Name(), time.Now()), c)) }
	nested := relock.NewReentrantLock("nested", c)
	outer := acquired(t, nested)
	acquired(t, nested)
	local, err := relocktest.NewLocker().Lock(t.Context(), "k")
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		ctx  context.Context
		hold relock.Hold
		d    time.Duration
		want error
	}{
		"nil":           {t.Context(), nil, time.Minute, relock.ErrInvalid},
		"other backend": {t.Context(), local, time.Minute, relock.ErrInvalid},
		"short":         {t.Context(), fresh(), time.Millisecond, relock.ErrInvalid},
		"context":       {nil, fresh(), time.Minute, relock.ErrInvalid},
		"cancelled":     {ended, fresh(), time.Minute, context.Canceled},
		"two levels":    {t.Context(), outer, time.Minute, relock.ErrInvalid},
		"several keys":  {t.Context(), acquired(t, relock.NewMultiLock([]string{"a", "b"}, c)), time.Minute, relock.ErrInvalid},
		"write lock":    {t.Context(), acquired(t, relock.NewRWLock("rw", c)), time.Minute, relock.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := relock.Detach(tt.ctx, tt.hold, tt.d)
			require.ErrorIs(t, err, tt.want)
			if tt.hold != nil {
				require.NoError(t, tt.hold.Err(), "the hold stays as it was")
				require.NoError(t, tt.hold.Unlock(t.Context()))
			}
		})
	}
}
