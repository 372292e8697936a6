package relock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// An outage that is longer than the leases costs one warning for each hold that
// is lost, and one for the renewals of all. Each has the kind of the lock and
// its label.
func TestOutageWarnsOnceForEachHold(t *testing.T) {
	t.Parallel()
	const holds = 20
	const lease = 6 * time.Second // two of them are left between a failed renewal and the loss
	s := redistest.Start(t)
	var log locktest.LogBuffer
	c := locktest.NewTestClient(t, s, log.Debug())
	var held []relock.Hold
	for kind, newLock := range locktest.Kinds {
		for n := range holds {
			l := newLock(fmt.Sprint(kind, n), c, relock.WithWatchdog(lease), relock.WithLabel("a report"))
			held = append(held, locktest.Take(t, l.Acquire))
		}
	}
	all := holds * len(locktest.Kinds)
	s.Pause(t)
	defer s.Resume(t)
	for _, h := range held {
		locktest.RenewNow(h) // in two batches at most, which fail before the loss
	}
	testkit.Eventually(t, testkit.Patience, func() bool { return log.Lines("relock: lock lost") == all }, "all are lost")
	testkit.Eventually(t, testkit.Patience,
		func() bool { return log.Lines("level=DEBUG", "relock: release given up") >= all }, "all releases end")
	require.Equal(t, all, log.Lines("level=WARN", "relock: lock lost", " kind=", ` label="a report" `))
	require.Equal(t, 1, log.Lines("level=WARN", "relock: renewal failed, retrying", " kind=", ` label="a report" `))
	require.GreaterOrEqual(t, log.Lines("level=DEBUG", "relock: renewal failed, retrying", " kind=", ` label="a report" `),
		all/2)
	require.Equal(t, all+1, log.Lines("level=WARN"), log.String())
}
