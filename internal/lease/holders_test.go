package lease_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A call that waits for its own client is logged once for each hold, and only
// if the hold was there before the call began to wait.
func TestOwnHoldIsLoggedOnce(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var log locktest.LogBuffer
		e := newEngine(t, &log, lease.Hooks{})
		waiting := lease.Waiting{Key: "k", Since: time.Now(), Kind: lockspec.Plain}
		warned := func(times int) bool {
			found := e.WarnOfOwnClient(waiting)
			require.Equal(t, times,
				log.Lines("relock: waiting for a lock that this client holds", "key=k kind=plain since="), log.String())
			return found
		}
		require.False(t, warned(0), "there is no hold")
		for hold := 1; hold <= 2; hold++ {
			time.Sleep(time.Second)
			h, other := e.take(t, lockspec.Plain, "k"), e.take(t, lockspec.Plain, "l")
			require.False(t, warned(hold-1), "the wait is older than the hold")
			time.Sleep(time.Second)
			waiting.Since = time.Now()
			require.True(t, warned(hold))
			require.True(t, warned(hold), "once")
			require.NoError(t, h.Unlock())
			require.False(t, warned(hold), "it has ended")
			require.NoError(t, other.Unlock())
		}
	})
}

// While renewals fail, the client warns of it every 30 s, for all holds
// together.
func TestFailedRenewalsAreLoggedTogether(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var log locktest.LogBuffer
		e := newEngine(t, &log, lease.Hooks{})
		var away atomic.Bool
		e.answer = func(driver.Request) (time.Duration, error) {
			if away.Load() {
				return 0, errors.New("away")
			}
			return 0, nil
		}
		for outage := 1; outage <= 2; outage++ {
			away.Store(false)
			for _, key := range []string{"a", "b", "c"} {
				e.take(t, lockspec.Plain, key, watched(9*time.Second))
			}
			away.Store(true)
			time.Sleep(15 * time.Second)
			require.Equal(t, outage,
				log.Lines("level=WARN", "relock: renewal failed, retrying", "kind=plain reason=away"), log.String())
			require.Equal(t, 3*outage, log.Lines("level=WARN", "relock: lock lost", "kind=plain reason="), log.String())
			time.Sleep(16 * time.Second)
		}
		require.Equal(t, 2+6, log.Lines("level=WARN"), log.String())
	})
}
