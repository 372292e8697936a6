package relocktest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// While the server is down, no call gets a free lock, and a caller may repeat
// what has failed.
func TestDown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b bench) {
		up, again := b.Down(), b.Down()
		_, err := b.TryLock(b.Context(), "job")
		require.True(b, relock.IsRetryableErr(err), err)
		require.NotErrorIs(b, err, relock.ErrLockAcquiredByOthers)
		require.Equal(b, relock.OutcomeUnavailable, relock.OutcomeOf(err))

		ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
		defer cancel()
		_, err = b.Lock(ctx, "job")
		require.ErrorIs(b, err, context.DeadlineExceeded)
		require.ErrorIs(b, err, errDown)

		served := b.waiter("job")
		up()
		up()
		synctest.Wait()
		require.Equal(b, 1, b.Waiting("job"), "the other Down goes on")
		again()
		b.unlock(served())
	})
}

// A watched hold goes on until its lease ends, and is lost then.
func TestDownLosesHolds(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b bench) {
		h := b.lock("job")
		time.Sleep(15 * time.Second) // renewed after 10
		up := b.Down()
		require.Positive(b, h.Remaining())
		require.LessOrEqual(b, h.Remaining(), 25*time.Second)
		require.NoError(b, h.Err())
		begun := time.Now()
		require.ErrorIs(b, lost(h), relock.ErrLockLost)
		require.InDelta(b, 25, time.Since(begun).Seconds(), 0.5)
		require.ErrorIs(b, h.Unlock(b.Context()), relock.ErrLockLost)
		up()
		b.unlock(b.lock("job"))
	}, relock.WithWatchdog(30*time.Second))
}

// A hold whose lease has not ended is renewed again. One whose lease has ended
// is lost, whether or not its timer has fired.
func TestDownForAMoment(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b bench) {
		h := b.lock("job")
		up := b.Down()
		time.Sleep(20 * time.Second)
		require.True(b, relock.IsRetryableErr(h.Extend(b.Context(), time.Hour)))
		up()
		time.Sleep(time.Hour)
		require.NoError(b, h.Err())
		b.unlock(h)
	}, relock.WithWatchdog(30*time.Second))
}

// An Unlock is not confirmed, and nobody gets the lock before the server is
// back.
func TestUnlockWhileDown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b bench) {
		h := b.lock("job")
		served := b.waiter("job")
		up := b.Down()
		err := h.Unlock(b.Context())
		require.ErrorIs(b, err, relock.ErrUnconfirmed)
		require.False(b, relock.IsRetryableErr(err))
		synctest.Wait()
		require.Equal(b, 1, b.Waiting("job"))
		up()
		b.unlock(served())
	})
}

// failures keeps what a test would have failed with.
type failures []string

func (f *failures) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// forgetful acquires a lock and leaves it.
func forgetful(b bench, key string) relock.Hold { return b.lock(key) }

// The text names each lock that is held, and the function that acquired it,
// also when the lock was given to it later.
func TestRequireFree(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b bench) {
		var failed failures
		defer b.Busy("others")()
		b.RequireFree(failed.add)
		require.Empty(b, failed)

		two := forgetful(b, "two")
		release := b.Busy("one")
		served := b.waiter("one")
		release()
		one := served()
		b.RequireFree(failed.add)
		require.Len(b, failed, 1)
		require.Contains(b, failed[0], `locks are held: ["one" "two"]`)
		require.Contains(b, failed[0], "relocktest.forgetful\n")
		require.Contains(b, failed[0], "bench.waiter.func1\n")

		b.unlock(one)
		b.unlock(two)
		b.RequireFree(failed.add)
		require.Len(b, failed, 1)
	})
}

// A hold whose fixed lease has ended is not held.
func TestRequireFreeAfterLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b bench) {
		b.lock("job")
		time.Sleep(time.Minute)
		b.RequireFree(func(format string, args ...any) { b.Errorf(format, args...) })
	}, relock.WithExpiry(time.Minute))
}

// A handler has three outcomes: busy, the server is away, and done.
func TestHandlerInAllBranches(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b bench) {
		handle := func() string {
			err := relock.TryDo(b.Context(), b, "order", func(context.Context) error { return nil })
			switch {
			case errors.Is(err, relock.ErrLockAcquiredByOthers):
				return "busy"
			case relock.IsRetryableErr(err):
				return "away"
			}
			return fmt.Sprint(err)
		}
		release := b.Busy("order")
		require.Equal(b, "busy", handle())
		release()
		up := b.Down()
		require.Equal(b, "away", handle())
		up()
		require.Equal(b, "<nil>", handle())
	})
}
