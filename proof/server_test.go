package proof

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A re-entry, an inner Unlock and an Extend find a loss too, before a renewal
// does. None of them creates the key again.
func TestNoOperationRevivesAForgottenLock(t *testing.T) {
	t.Parallel()
	for name, find := range map[string]func(ctx context.Context, l *relock.ReentrantLock, h relock.Hold) error{
		"re-entry":     func(ctx context.Context, l *relock.ReentrantLock, _ relock.Hold) error { return l.TryLock(ctx) },
		"inner Unlock": func(ctx context.Context, l *relock.ReentrantLock, _ relock.Hold) error { return l.Unlock(ctx) },
		"Extend": func(ctx context.Context, _ *relock.ReentrantLock, h relock.Hold) error {
			return h.Extend(ctx, time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			l := relock.NewReentrantLock("k", clientOf(t, s), relock.WithWatchdog(time.Minute))
			ctx := relock.ContextWithOwner(t.Context(), "me")
			h, err := l.Acquire(ctx)
			require.NoError(t, err)
			require.NoError(t, l.Lock(ctx))
			s.Kill(t)
			s.BootAndLoad(t)
			require.ErrorIs(t, find(ctx, l, h), relock.ErrLockLost)
			require.False(t, keyThere(t, s, "k"))
			require.ErrorIs(t, h.Err(), relock.ErrLockLost, "the other hold is lost too")
			require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
			require.False(t, keyThere(t, s, "k"))
		})
	}
}

// A server that is killed and restarted with its data restores keys with their
// absolute expiry. Holds whose validity outlasts the outage stay.
func TestLockSurvivesARestartWithData(t *testing.T) {
	t.Parallel()
	for _, fsync := range []string{"always", "everysec"} {
		t.Run(fsync, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, appendOnly(fsync)...)
			s.Do(t, "SET", "something", "else") // makes the file
			var log locktest.LogBuffer
			c := serverClient(t, s.Network, s.Address, log.Debug())
			var all []survivor
			for _, kind := range serverKinds {
				all = append(all, newSurvivor(t, s, c, kind))
			}
			s.Kill(t)
			for _, one := range all {
				locktest.RenewNow(one.watched)
			}
			testkit.Eventually(t, testkit.Patience, func() bool {
				return strings.Count(log.String(), "renewal failed") >= len(all)
			}, "the renewals fail")
			s.BootAndLoad(t)
			for _, one := range all {
				one.checkExpiry(t, s)
				testkit.Eventually(t, testkit.Patience, func() bool { return one.watched.ValidUntil().After(one.until) }, "renewed")
			}
			for _, one := range all {
				one.release(t, s)
			}
		})
	}
}

const (
	survivorLease = 6 * testkit.Patience // watched: only a renewal that failed is soon repeated
	survivorFixed = time.Minute
)

// survivor is a watched lock and a fixed one, which nothing renews.
type survivor struct {
	fixedName      string
	watched, fixed relock.Hold
	sent, got      time.Time // of the fixed one
	until          time.Time // the watched one is valid at first
}

func newSurvivor(t *testing.T, s *redistest.Server, c *relock.Client, kind serverKind) survivor {
	t.Helper()
	one := survivor{fixedName: "fixed " + kind.name, sent: time.Now()}
	var err error
	one.fixed, err = kind.lock(one.fixedName, c, relock.WithExpiry(survivorFixed)).TryAcquire(t.Context())
	require.NoError(t, err)
	one.got = time.Now()
	size := s.LogSize(t)
	one.watched = kind.hold(t, c, relock.WithWatchdog(survivorLease))
	one.until = one.watched.ValidUntil()
	// everysec writes immediately, unless the disk is slow
	testkit.Eventually(t, testkit.Patience, func() bool { return s.LogSize(t) > size }, "the file has the lock")
	return one
}

func (one survivor) checkExpiry(t *testing.T, s *redistest.Server) {
	t.Helper()
	const rounding = 2 * time.Millisecond
	asked := time.Now()
	left := keyLeft(t, s, one.fixedName)
	require.GreaterOrEqual(t, left, survivorFixed-time.Since(one.sent)-rounding)
	require.LessOrEqual(t, left, survivorFixed-asked.Sub(one.got)+rounding, "the time of the outage counts")
	require.LessOrEqual(t, one.fixed.ValidUntil().Sub(asked), left)
}

func (one survivor) release(t *testing.T, s *redistest.Server) {
	t.Helper()
	for _, h := range []relock.Hold{one.watched, one.fixed} {
		require.NoError(t, h.Err())
		require.NoError(t, h.Unlock(t.Context()))
		require.False(t, keyThere(t, s, h.Key()))
	}
}
