package proof

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

// A server clock that jumps forward makes the server forget locks, see
// TestForgottenLockIsLostAtTheNextRenewal.

const clockJump = 120 * time.Second

// A server clock that jumps back keeps the locks of crashed clients for longer.
// Waiters return at their deadlines. The next holder depends on the server's
// clock.
func TestServerClockBackKeepsTheLocksOfTheDead(t *testing.T) {
	t.Parallel()
	const lease, wait = 10 * time.Second, time.Second // enough for an answer
	s, clock := redistest.StartWithClock(t)
	for _, kind := range serverKinds {
		dead := clientOf(t, s)
		_ = kind.hold(t, dead, relock.WithWatchdog(lease))
		require.NoError(t, dead.Close(), "as a process that ends")
	}
	clock.Advance(t, -clockJump)
	c := clientOf(t, s)
	for _, kind := range serverKinds {
		require.Greater(t, keyLeft(t, s, kind.name), clockJump)
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		watch := testkit.NewStopwatch(t)
		_, err := kind.lock(kind.name, c, relock.WithBlock(), relock.WithPollInterval(10*time.Millisecond)).Acquire(ctx)
		watch.Within(wait+900*time.Millisecond, "the end of a wait has nothing to do with the server's clock")
		watch.Net() // stops it
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
	}
	clock.Advance(t, clockJump+lease+time.Second)
	for _, kind := range serverKinds {
		require.NoError(t, kind.hold(t, c).Unlock(t.Context()))
	}
}

// A live holder does not notice that the server's clock jumps back. Its
// validity follows its own clock, renewals are answered, and the later expiry
// is not shortened. Then the clock jumps forward by more than a lease, and the
// key expires. The next renewal finds that, as renewals that found more than a
// lease left have extended nothing.
func TestServerClockBackLeavesTheHolderAlone(t *testing.T) {
	t.Parallel()
	const lease = 5 * time.Second // a machine that stalls must not cost a hold
	s, clock := redistest.StartWithClock(t)
	c := clientOf(t, s)
	var holds []relock.Hold
	for _, kind := range serverKinds {
		holds = append(holds, kind.hold(t, c, relock.WithWatchdog(lease)))
	}
	granted := time.Now()
	clock.Advance(t, -clockJump)
	for time.Since(granted) <= lease {
		requireRenewed(t, testkit.Patience, holds...)
		for _, h := range holds {
			require.NoError(t, h.Err())
			require.Less(t, time.Until(h.ValidUntil()), lease, "the validity does not follow the server's clock")
			require.Greater(t, keyLeft(t, s, h.Key()), clockJump-lease, "a renewal has shortened the expiry")
		}
	}
	clock.Advance(t, clockJump)
	for _, h := range holds {
		until := h.ValidUntil()
		locktest.RenewNow(h)
		requireLost(t, h)
		t.Logf("%s: found lost %v before its valid until", h.Key(), time.Until(until).Round(time.Millisecond))
		require.False(t, keyThere(t, s, h.Key()))
	}
}

// The validity counts from the newest granted request. It outlasts the key by
// at most the server's clock's move forward since then. Back and forward again
// between two requests costs nothing. A jump forward after a request that had
// nothing to extend costs that jump at most.
func TestValidityOutlastsTheKeyByTheJumpAtMost(t *testing.T) {
	t.Parallel()
	const lease, pause = 10 * time.Second, 300 * time.Millisecond
	s, clock := redistest.StartWithClock(t)
	c := clientOf(t, s)
	for _, kind := range serverKinds {
		h := kind.hold(t, c, relock.WithExpiry(lease))
		clock.Advance(t, -clockJump)
		clock.Advance(t, clockJump)
		require.Negative(t, outlives(t, s, h), "back and forward again")

		clock.Advance(t, -clockJump)
		first := h.ValidUntil()
		time.Sleep(pause)
		require.NoError(t, h.Extend(t.Context(), lease)) // finds more than that left
		gained := h.ValidUntil().Sub(first)
		require.GreaterOrEqual(t, gained, pause)
		require.Negative(t, outlives(t, s, h), "back")

		clock.Advance(t, time.Second)
		require.Negative(t, outlives(t, s, h), "the key still has what the first jump gave it")
		clock.Advance(t, clockJump-time.Second)
		beyond := outlives(t, s, h)
		require.LessOrEqual(t, beyond, gained, "the key is there until the expiry of the first request")
		t.Logf("%s: the validity outlasts the key by %v after jumps of %v and back",
			kind.name, beyond.Round(time.Millisecond), -clockJump)
		require.NoError(t, h.Unlock(t.Context()))
	}
}

// outlives is by how much a validity is longer than the remaining lease of the
// key. It is negative if the validity is shorter.
func outlives(t *testing.T, s *redistest.Server, h relock.Hold) time.Duration {
	t.Helper()
	until := h.ValidUntil()
	asked := time.Now()
	left := keyLeft(t, s, h.Key())
	return until.Sub(asked) - left
}

// Replicas are sent the time at which a key expires. So after a failover the
// clock of the new master decides: the difference is a jump. A lock is free
// immediately if that clock is ahead by more than the lease.
func TestClockOfTheNewMasterDecides(t *testing.T) {
	t.Parallel()
	together(t, map[string]time.Duration{
		"ahead": clockJump, "behind": -clockJump,
	}, func(t *testing.T, jump time.Duration) {
		const lease = time.Minute
		master := redistest.StartTCP(t, "--repl-diskless-sync-delay", "0")
		replica, clock := redistest.StartWithClock(t)
		clock.Advance(t, jump)
		replica.Follow(t, master)
		one := locktest.Take(t, relock.NewRedisLock("k", clientOf(t, master),
			relock.WithExpiry(lease), relock.WithReplicas(1, 10*time.Second), relock.WithBlock()).Acquire)
		master.Kill(t)
		replica.Do(t, "REPLICAOF", "NO", "ONE")
		two, err := relock.NewRedisLock("k", clientOf(t, replica)).TryAcquire(t.Context())
		require.NoError(t, one.Err())
		if jump > 0 {
			require.NoError(t, err, "two holds are valid together")
			require.NoError(t, two.Err())
			return
		}
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		require.Greater(t, keyLeft(t, replica, "k"), clockJump)
	})
}

// A server clock that runs up to one percent faster than the holder's does not
// end a key before its validity. At three percent it does, which shows that
// this test can detect it. Nobody waits: the server is given the time at which
// the validity ends. The lease is so long that a slow answer changes nothing.
func TestServerClockRunsFast(t *testing.T) {
	t.Parallel()
	const lease = 24 * time.Hour
	s, clock := redistest.StartWithClock(t)
	for percent, there := range map[time.Duration]bool{1: true, 3: false} {
		c := clientOf(t, s)
		for _, kind := range serverKinds {
			h := kind.hold(t, c, relock.WithExpiry(lease))
			left := time.Until(h.ValidUntil())
			clock.Advance(t, left+left*percent/100)
			require.Equal(t, there, keyThere(t, s, h.Key()), "%s at %d percent", kind.name, percent)
			clock.Advance(t, -clock.Offset())
		}
		s.Do(t, "FLUSHALL")
	}
}
