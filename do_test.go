package relock_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

func TestDo(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := locktest.NewTestClient(t, s)
			l := newLock("k", c)
			run := func(fn func(context.Context) error) error { return l.Do(t.Context(), fn) }

			t.Run("fn's error comes back as it is", func(t *testing.T) {
				mine := errors.New("mine")
				require.Equal(t, mine, run(func(context.Context) error { return mine })) //nolint:testifylint // identity is meant
				locktest.RequireFree(t, s, c, "k")
			})
			t.Run("the context carries the hold and ends with Do", func(t *testing.T) {
				var kept context.Context
				require.NoError(t, run(func(ctx context.Context) error {
					h, ok := relock.HoldFromContext(ctx, "k")
					require.True(t, ok)
					require.NoError(t, h.Err())
					_, ok = relock.HoldFromContext(ctx, "other")
					require.False(t, ok)
					kept = ctx
					return ctx.Err()
				}))
				require.ErrorIs(t, context.Cause(kept), relock.ErrNotHeld)
			})
			t.Run("the context ends with the caller's", func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				mine := errors.New("mine")
				err := l.Do(ctx, func(ctx context.Context) error {
					cancel(mine)
					return testkit.EndedWithin(t, ctx, time.Second)
				})
				require.Equal(t, mine, err) //nolint:testifylint // identity is meant
				locktest.RequireFree(t, s, c, "k")
			})
			t.Run("a panic unlocks and goes on", func(t *testing.T) {
				require.PanicsWithValue(t, "boom", func() { _ = run(func(context.Context) error { panic("boom") }) })
				locktest.RequireFree(t, s, c, "k")
			})
			t.Run("Goexit unlocks", func(t *testing.T) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					_ = run(func(context.Context) error { runtime.Goexit(); return nil })
				}()
				<-done
				locktest.RequireFree(t, s, c, "k")
			})
			t.Run("fn is not run when others hold", func(t *testing.T) {
				h, err := newLock("k", locktest.Sibling(t, s, c)).Acquire(t.Context())
				require.NoError(t, err)
				err = run(func(context.Context) error { t.Error("was run"); return nil })
				require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
				var e *relock.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, "lock", e.Op)
				require.NoError(t, h.Unlock(t.Context()))
			})
			t.Run("an Unlock by fn is not an error of Do", func(t *testing.T) {
				require.NoError(t, run(func(ctx context.Context) error {
					h, _ := relock.HoldFromContext(ctx, "k")
					return h.Unlock(ctx)
				}))
				require.NoError(t, l.TryDo(t.Context(), locktest.Nothing), "and the object is usable")
			})
		})
	}
}

func TestDoReportsALoss(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	mine := errors.New("mine")
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := locktest.NewTestClient(t, s)
			l := newLock("k", c, relock.WithExpiry(1800*time.Millisecond))
			err := l.Do(t.Context(), func(ctx context.Context) error {
				require.ErrorIs(t, testkit.EndedWithin(t, ctx, 4200*time.Millisecond), relock.ErrLockLost)
				return mine
			})
			require.ErrorIs(t, err, mine)
			require.ErrorIs(t, err, relock.ErrLockLost)

			err = newLock("k4", c, relock.WithExpiry(1800*time.Millisecond)).Do(t.Context(), func(ctx context.Context) error {
				require.ErrorIs(t, testkit.EndedWithin(t, ctx, 4200*time.Millisecond), relock.ErrLockLost)
				h, _ := relock.HoldFromContext(ctx, "k4")
				require.ErrorIs(t, h.Unlock(ctx), relock.ErrLockLost) // what is told here is not lost to Do
				return nil
			})
			require.ErrorIs(t, err, relock.ErrLockLost)
			closed := locktest.Sibling(t, s, c)
			err = newLock("k3", closed).Do(t.Context(), func(ctx context.Context) error {
				require.NoError(t, closed.Close())
				h, _ := relock.HoldFromContext(ctx, "k3")
				require.ErrorIs(t, h.Unlock(ctx), relock.ErrClosed)
				return mine
			})
			require.ErrorIs(t, err, mine)
			require.ErrorIs(t, err, relock.ErrClosed)

			err = newLock("k2", c).Do(t.Context(), func(context.Context) error {
				s.Do(t, "DEL", locktest.KeyOf(c, "k2")) // an operator
				return nil
			})
			require.ErrorIs(t, err, relock.ErrLockLost, "found by the release")
			var e *relock.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, "unlock", e.Op)
		})
	}
}
