package relock_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/relocktest"
)

// A Mutex from a Locker locks what the Locker locks.
func TestFromLocker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, l := t.Context(), relocktest.NewLocker()
		m, other := relock.FromLocker(l, "k"), relock.FromLocker(l, "k")
		require.ErrorIs(t, m.Unlock(ctx), relock.ErrNotHeld)
		require.NoError(t, m.Lock(ctx))
		for _, try := range []error{m.TryLock(ctx), other.TryLock(ctx), m.TryDo(ctx, unreached(t))} {
			require.ErrorIs(t, try, relock.ErrLockAcquiredByOthers)
			require.Equal(t, "lock", asError(t, try).Op)
		}
		require.ErrorIs(t, other.Unlock(ctx), relock.ErrNotHeld, "it is not the other's")

		waits := testkit.Async(t, func() error { return other.Lock(ctx) })
		synctest.Wait()
		require.Equal(t, 1, l.Waiting("k"))
		require.NoError(t, m.Unlock(ctx))
		require.NoError(t, <-waits)
		require.NoError(t, other.Unlock(ctx))
		require.ErrorIs(t, other.Unlock(ctx), relock.ErrNotHeld)

		own := errors.New("own")
		require.Equal(t, own, m.Do(ctx, func(context.Context) error { return own }))
		require.Equal(t, own, m.TryDo(ctx, func(context.Context) error { return own }))
	})
}

func unreached(t *testing.T) func(context.Context) error {
	return func(context.Context) error { t.Error("was run"); return nil }
}

// A wait ends with its context.
func TestFromLockerWaitEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := relocktest.NewLocker()
		defer l.Busy("k")()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start, err := time.Now(), relock.FromLocker(l, "k").Lock(ctx)
		locktest.RequireIs(t, err, context.DeadlineExceeded, relock.ErrLockAcquiredByOthers)
		require.Equal(t, time.Hour, time.Since(start))
	})
}

// The Mutex stays taken after a loss, until its Unlock: that Unlock is of the
// lost hold, and ends no other one.
func TestFromLockerAfterALoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, l := t.Context(), relocktest.NewLocker()
		m := relock.FromLocker(l, "k")
		require.NoError(t, m.Lock(ctx))
		require.True(t, l.Lose("k"))
		require.ErrorIs(t, m.TryLock(ctx), relock.ErrLockAcquiredByOthers)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		require.ErrorIs(t, m.Lock(short), context.DeadlineExceeded)

		next := testkit.Async(t, func() error { return m.Lock(ctx) })
		synctest.Wait()
		require.Empty(t, next)
		require.ErrorIs(t, m.Unlock(ctx), relock.ErrLockLost)
		require.NoError(t, <-next)
		require.ErrorIs(t, relock.FromLocker(l, "k").TryLock(ctx), relock.ErrLockAcquiredByOthers)
		require.NoError(t, m.Unlock(ctx))
	})
}

// A wait for the Unlock of a lost hold ends with the client.
func TestFromLockerWaitEndsWithClose(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	m := relock.FromLocker(locktest.NewLocker(t, c, relock.WithFencing()), "k")
	require.NoError(t, m.Lock(t.Context()))
	s.Do(t, "DEL", locktest.KeyOf(c, "k"))
	first := s.Do(t, "GET", locktest.KeyOf(c, "k")+":f")
	waits := testkit.Async(t, func() error { return m.Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool {
		return !reflect.DeepEqual(first, s.Do(t, "GET", locktest.KeyOf(c, "k")+":f")) && s.Do(t, "EXISTS", locktest.KeyOf(c, "k")) == int64(0)
	}, "the call gets the lock, and gives it back as the Mutex is taken")
	require.NoError(t, c.Close())
	require.ErrorIs(t, testkit.ResultWithin(t, waits, testkit.Patience), relock.ErrClosed)
}

// A grant that a taken Mutex has no use for is not kept for the minimum hold.
// A level is no such grant: its outer hold is used.
func TestFromLockerKeepsNoUnusedGrant(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	exists := func() any { return s.Do(t, "EXISTS", locktest.KeyOf(c, "k")) }
	ctx := t.Context()
	m := relock.FromLocker(locktest.NewLocker(t, c, relock.WithMinHold(time.Minute)), "k")
	require.NoError(t, m.Lock(ctx))
	s.Do(t, "DEL", locktest.KeyOf(c, "k"))
	require.ErrorIs(t, m.TryLock(ctx), relock.ErrLockAcquiredByOthers, "the Mutex is taken")
	require.Equal(t, int64(0), exists())
	_ = m.Unlock(ctx)

	require.NoError(t, m.Do(ctx, func(ctx context.Context) error {
		require.NoError(t, m.Lock(ctx))
		require.ErrorIs(t, m.TryLock(ctx), relock.ErrLockAcquiredByOthers)
		return m.Unlock(ctx)
	}))
	require.Equal(t, int64(1), exists())
}

// Do nests, as the Locker does. Lock inside of a Do takes the Mutex.
func TestFromLockerNests(t *testing.T) {
	t.Parallel()
	m := relock.FromLocker(relocktest.NewLocker(), "k")
	require.NoError(t, m.Do(t.Context(), func(ctx context.Context) error {
		require.NoError(t, m.TryDo(ctx, locktest.Nothing))
		require.NoError(t, m.Lock(ctx))
		require.ErrorIs(t, m.TryLock(ctx), relock.ErrLockAcquiredByOthers)
		require.NoError(t, m.Unlock(ctx))
		return m.TryDo(ctx, locktest.Nothing)
	}))
}

// A nil Locker is found at the first call.
func TestFromNoLocker(t *testing.T) {
	t.Parallel()
	m := relock.FromLocker(nil, "k")
	for what, err := range map[string]error{
		"Lock": m.Lock(t.Context()), "TryLock": m.TryLock(t.Context()), "Unlock": m.Unlock(t.Context()),
		"Do": m.Do(t.Context(), unreached(t)), "TryDo": m.TryDo(t.Context(), unreached(t)),
	} {
		require.ErrorIs(t, err, relock.ErrInvalid, what)
		require.ErrorContains(t, err, "locker: is nil", what)
	}
}

// tryOnce and lockOnce take the lock and release it.
func tryOnce(ctx context.Context, l relock.Locker) error {
	h, err := l.TryLock(ctx, "k")
	if err != nil {
		return err
	}
	return h.Unlock(ctx)
}

func lockOnce(ctx context.Context, l relock.Locker) error {
	h, err := l.Lock(ctx, "k")
	if err != nil {
		return err
	}
	return h.Unlock(ctx)
}
