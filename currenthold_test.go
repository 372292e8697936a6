package relock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/relocktest"
)

// CurrentHold is the newest hold, whatever its name and its backend.
func TestCurrentHold(t *testing.T) {
	t.Parallel()
	_, ok := relock.CurrentHold(nil) //nolint:staticcheck // a nil context carries nothing
	require.False(t, ok)
	_, ok = relock.CurrentHold(t.Context())
	require.False(t, ok)

	current := func(ctx context.Context) string {
		h, ok := relock.CurrentHold(ctx)
		require.True(t, ok)
		return h.Key()
	}
	c := clientOf(t, redistest.Shared(t))
	require.NoError(t, relock.NewRedisLock("outer", c).Do(t.Context(), func(outer context.Context) error {
		require.Equal(t, "outer", current(outer))
		require.NoError(t, relock.Do(outer, relocktest.NewLocker(), "inner", func(inner context.Context) error {
			require.Equal(t, "inner", current(inner))
			h, ok := relock.HoldFromContext(inner, "outer")
			require.True(t, ok)
			require.Equal(t, "outer", h.Key())
			return nil
		}))
		require.Equal(t, "outer", current(outer))
		return nil
	}))
}

// own is a Locker of somebody else's, whose holds carry themselves.
type own struct{ relock.Locker }

type ownHold struct {
	relock.Hold
	ctx context.Context
}

func (h *ownHold) Context() context.Context { return h.ctx }

func (l own) Lock(ctx context.Context, key string) (relock.Hold, error) {
	inner, err := l.Locker.Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	h := &ownHold{Hold: inner}
	h.ctx = relock.ContextWithHold(inner.Context(), h)
	return h, nil
}

// A Locker of somebody else's carries its holds with ContextWithHold.
func TestContextWithHoldOfAnotherLocker(t *testing.T) {
	t.Parallel()
	h, err := own{relocktest.NewLocker()}.Lock(t.Context(), "k")
	require.NoError(t, err)
	got, ok := relock.HoldFromContext(h.Context(), "k")
	require.True(t, ok)
	require.Same(t, h, got)
	got, ok = relock.CurrentHold(h.Context())
	require.True(t, ok)
	require.Same(t, h, got)
	require.NoError(t, h.Unlock(t.Context()))
}

// A hold of Redis that is put into another context makes it the holder's.
func TestContextWithHoldOfRedis(t *testing.T) {
	t.Parallel()
	c := clientOf(t, redistest.Shared(t))
	l := relock.NewReentrantLock("k", c)
	h, err := l.Acquire(relock.ContextWithOwner(t.Context(), "somebody"))
	require.NoError(t, err)
	require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	ctx := relock.ContextWithHold(t.Context(), h)
	require.NoError(t, l.TryLock(ctx))
	got, ok := relock.CurrentHold(ctx)
	require.True(t, ok)
	require.Equal(t, h, got)
	require.NoError(t, got.Extend(ctx, time.Minute))
	require.NoError(t, l.Unlock(ctx))
	require.NoError(t, h.Unlock(ctx))
}
