package driver_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// An answer that comes twice is never taken for the next command's: neither for a grant of a lock that somebody else has, nor for anything
// else.
func TestDoubledAnswerIsNoGrant(t *testing.T) {
	t.Parallel()
	for name, ctx := range map[string]func(testing.TB) context.Context{"bounded": testing.TB.Context, "unbounded": locktest.Unbounded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ctx := locktest.Taught(t, redistest.Start(t)), ctx(t)
			proxy := faults.Start(t, s.Network, s.Address)
			c := locktest.NewTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
			require.NoError(t, relock.NewRedisLock("others", locktest.Sibling(t, s, c)).Lock(ctx))
			requireTheirs := func() {
				require.ErrorIs(t, relock.NewRedisLock("others", c).TryLock(ctx), relock.ErrLockAcquiredByOthers)
			}
			for _, match := range []faults.Match{faults.Command("SET"), faults.Script(script.Release.SHA), faults.Command("SET")} {
				done := proxy.On(match, 1, faults.DoubleAnswer)
				l := relock.NewRedisLock("free", c)
				require.NoError(t, l.Lock(ctx))
				requireTheirs()
				require.NoError(t, l.Unlock(ctx))
				requireTheirs()
				<-done
			}
			refuses := relock.NewScript("return redis.error_reply('ERR no')")
			s.Do(t, "SCRIPT", "LOAD", locktest.Code(refuses).Source)
			done := proxy.On(faults.Script(locktest.Code(refuses).SHA), 1, faults.DoubleAnswer)
			_, err := c.Eval(ctx, refuses, nil)
			require.ErrorContains(t, err, "ERR no")
			<-done
			requireTheirs()
		})
	}
}

// What comes while a connection is idle is seen before it is used again, by callers and by the watchdog. So is its end.
func TestIdleConnectionThatSpeaks(t *testing.T) {
	t.Parallel()
	s := locktest.Taught(t, redistest.Start(t))
	proxy := faults.Start(t, s.Network, s.Address)
	c := locktest.NewTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
	other := locktest.Sibling(t, s, c)
	require.NoError(t, relock.NewRedisLock("others", other).Lock(t.Context()))
	h, err := relock.NewRedisLock("held", c).Acquire(t.Context())
	require.NoError(t, err)
	l := locktest.LeaseOf(h)
	for range 3 {
		until := h.ValidUntil()
		l.RenewNow()
		testkit.Eventually(t, testkit.Patience, func() bool { return h.ValidUntil().After(until) }, "renewed")
		require.NoError(t, relock.NewRedisLock("mine", c).Do(t.Context(), locktest.Nothing))
		proxy.Say("+OK\r\n")
		require.ErrorIs(t, relock.NewRedisLock("others", c).TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	}
	s.Do(t, "DEL", locktest.KeyOf(c, "held"))
	proxy.Say(strings.Repeat(":1\r\n", 100)) // each of which would be a renewal
	l.RenewNow()
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), lockspec.DefaultLease/4), relock.ErrLockLost)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
}
