package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A renewal that finds its hold gone waits for no replica: nothing was kept
// that one would have to confirm.
func TestLossIsNoticedWithoutReplicas(t *testing.T) {
	t.Parallel()
	const timeout = 10 * time.Second
	for kind, newLock := range locktest.Kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := locktest.NewReplicated(t)
			c := locktest.NewTestClient(t, r.Master)
			h := locktest.Take(t, newLock("k", c, relock.WithReplicas(1, timeout), relock.WithWatchdog(4*timeout)).Acquire)
			r.Replica.Pause(t)
			defer r.Replica.Resume(t)
			r.Master.Do(t, "FLUSHALL")
			watch := testkit.NewStopwatch(t)
			leaseOf(h).RenewNow()
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrLockLost)
			watch.Within(timeout / 4)
		})
	}
}
