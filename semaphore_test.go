package relock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestSemaphoreThatWasNotMade(t *testing.T) {
	t.Parallel()
	for _, s := range []*relock.Semaphore{
		{}, relock.NewSemaphore("k", 1, nil), relock.NewSemaphore("k", 0, locktest.Unconnected(t)),
	} {
		require.ErrorIs(t, s.Validate(), relock.ErrInvalid)
		require.ErrorIs(t, second(s.Acquire(t.Context())), relock.ErrInvalid)
		require.ErrorIs(t, second(s.TryAcquire(t.Context())), relock.ErrInvalid)
		for _, do := range []func(context.Context, func(context.Context) error) error{s.Do, s.TryDo} {
			err := do(t.Context(), locktest.Nothing)
			require.ErrorIs(t, err, relock.ErrInvalid)
			require.True(t, relock.NotRun(err))
		}
	}
	s := relock.NewSemaphore("a \"name\"", 1, locktest.Unconnected(t))
	require.NoError(t, s.Validate())
	require.Equal(t, `semaphore "a \"name\""`, s.String())
	require.ErrorIs(t, s.Do(t.Context(), nil), relock.ErrInvalid)
}

// Inspect returns the holders of a semaphore, its waiters and the limit of the
// first one. A permit is reserved, or kept, if nobody holds one.
func TestInspectSemaphore(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	other := locktest.Sibling(t, s, c)
	testkit.Each(t, modes, func(t *testing.T, mode string, opts []relock.LockOption) {
		key := "semaphore " + mode
		require.Equal(t, relock.Info{Key: key, State: relock.StateFree}, locktest.Inspect(t, c, key))
		mine := locktest.Take(t, relock.NewSemaphore(key, 2, c, append(opts, relock.WithLabel("l"))...).Acquire)
		theirs := locktest.Take(t,
			relock.NewSemaphore(key, 2, other, append(opts, relock.WithMinHold(time.Minute))...).Acquire)
		ctx, cancel := context.WithCancel(t.Context())
		waits := testkit.Async(t, func() error {
			return second(relock.NewSemaphore(key, 1, other, append(opts, relock.WithBlock())...).Acquire(ctx))
		})
		awaitWaiting(t, c, key, 1)
		info := locktest.Inspect(t, c, key)
		require.Equal(t, []string{key}, list(t, c, key))
		require.Len(t, info.Readers, 2)
		labels := map[string]relock.Holder{info.Readers[0].Label: info.Readers[0], info.Readers[1].Label: info.Readers[1]}
		require.Equal(t, written(t, c, relock.Holder{Label: "l", Count: 1}, labels["l"].Since), labels["l"])
		require.Equal(t, written(t, other, relock.Holder{Count: 1}, labels[""].Since), labels[""])
		require.Equal(t, []relock.Waiter{
			{locktest.Engine(other).Identity.ID, info.Waiters[0].Age, "semaphore", mode == "fair"},
		}, info.Waiters)
		info.Readers, info.Waiters = nil, nil
		require.Greater(t, info.Remaining, 50*time.Second)
		require.Equal(t, relock.Info{
			Key: key, State: relock.StateHeld, Kind: relock.KindSemaphore, Fair: mode == "fair", Remaining: info.Remaining,
			Waiting: 1, Permits: 1,
		}, info)
		locktest.AwaitSubscribed(t, s, locktest.KeyOf(c, key), other)
		cancel()
		require.ErrorIs(t, testkit.ResultWithin(t, waits, testkit.Patience), context.Canceled)
		awaitWaiting(t, c, key, 0)

		require.NoError(t, mine.Unlock(t.Context()))
		require.NoError(t, theirs.Unlock(t.Context()))
		info = locktest.Inspect(t, c, key)
		require.Equal(t, relock.Info{
			Key: key, State: relock.StateKept, Kind: relock.KindSemaphore, Fair: mode == "fair", Remaining: info.Remaining,
		}, info)
	})
}

// ForceUnlock ends all holds of a semaphore. Each of their holders learns why,
// and waiters get the permits.
func TestForceUnlockSemaphore(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Patient(locktest.NewTestClient(t, s))
	other := locktest.Sibling(t, s, c)
	var holds []relock.Hold
	for range 3 {
		holds = append(holds, locktest.Take(t, relock.NewSemaphore("k", 3, c).Acquire))
	}
	waits := testkit.Async(t, func() error {
		return relock.NewSemaphore("k", 3, other, relock.WithBlock()).Do(t.Context(), locktest.Nothing)
	})
	awaitWaiting(t, c, "k", 1)
	require.NoError(t, other.ForceUnlock(t.Context(), "k", "it hangs"))
	require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
	locktest.RenewNow(holds[1])
	requireForced(t, testkit.EndedWithin(t, holds[1].Context(), testkit.Patience))
	for _, h := range holds {
		requireForced(t, h.Unlock(t.Context()))
	}
	require.ErrorIs(t, other.ForceUnlock(t.Context(), "k", ""), relock.ErrNotHeld)
}
