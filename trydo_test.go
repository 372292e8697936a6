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

// TryDo makes one attempt, whatever the Locker's Lock would do.
func TestTryDo(t *testing.T) {
	t.Parallel()
	double := relocktest.NewLocker()
	release := double.Busy("k")
	redis := lockerOf(t, clientOf(t, redistest.Shared(t)))
	held, err := redis.Lock(t.Context(), "k")
	require.NoError(t, err)
	for name, l := range map[string]relock.Locker{"in memory": double, "on Redis": redis} {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err := relock.TryDo(ctx, l, "k", unreached(t))
		require.NoError(t, ctx.Err(), "it waited: %s", name)
		cancel()
		var e *relock.Error
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers, name)
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, relock.Error{Op: "lock", Key: "k", Err: e.Err}, *e, name)
	}
	release()
	require.NoError(t, held.Unlock(t.Context()))
	for name, l := range map[string]relock.Locker{"in memory": double, "on Redis": redis} {
		ran := false
		require.NoError(t, relock.TryDo(t.Context(), l, "k", func(context.Context) error { ran = true; return nil }), name)
		require.True(t, ran, name)
		require.NoError(t, tryOnce(t.Context(), l), "the lock was not released: %s", name)
	}
}

// Mistakes are found before the lock is taken.
func TestTryDoMistakes(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, relock.TryDo(t.Context(), nil, "k", unreached(t)), relock.ErrInvalid)
	l := relocktest.NewLocker()
	require.ErrorIs(t, relock.TryDo(t.Context(), l, "k", nil), relock.ErrInvalid)
	require.NoError(t, tryOnce(t.Context(), l))
}
