package proof

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// hungLease is so short that a renewal that waits for a hung server is late.
const hungLease = 4 * time.Second

// One master of a Cluster hangs, and is marked as failed or not. It costs the
// holds at other masters nothing: none is lost, and all are renewed in time.
// New locks are granted there. Short holds at the hung master end by their
// validity, and long ones outlive the outage.
func TestOneMasterHangs(t *testing.T) {
	t.Parallel()
	together(t, map[string][]string{
		"failed":  {"--cluster-require-full-coverage", "no"},
		"pending": {"--cluster-node-timeout", "120000"},
	}, func(t *testing.T, args []string) {
		s := redistest.StartCluster(t, 3, 0, args...)
		c := locktest.ClusterClient(t, s)
		hung := s.Servers[1]
		short, atHung := takeMany(t, c, hung, "short", 300, hungLease)
		long, longAtHung := takeMany(t, c, hung, "long", 60, 2*time.Minute)
		names := make(map[string]string) // of a lock at each other server
		for _, one := range []*redistest.Server{s.Servers[0], s.Servers[2]} {
			names[one.Address] = s.NameAt(t, one, "new")
		}
		watch := testkit.NewStopwatch(t)
		hung.Pause(t)
		least, slowest := hungLease, time.Duration(0)
		for end := time.Now().Add(pick(20*time.Second, hungLease+time.Second/2)); time.Now().
			Before(end); time.Sleep(10 * time.Millisecond) {
			for _, h := range short {
				require.NoError(t, h.Err())
				least = min(least, time.Until(h.ValidUntil()))
			}
			for at, name := range names {
				start := time.Now()
				h, err := relock.NewRedisLock(name, c).Acquire(t.Context())
				require.NoError(t, err, at)
				require.NoError(t, h.Unlock(t.Context()))
				slowest = max(slowest, time.Since(start))
			}
		}
		for _, h := range atHung {
			require.ErrorIs(t, h.Err(), relock.ErrLockLost)
		}
		hung.Resume(t)
		s.AwaitWhole(t)
		t.Logf("%d holds at other masters, each valid for at least %v more; slowest new lock there %v; "+
			"%d holds ended at the hung one",
			len(short), least.Round(time.Millisecond), slowest.Round(time.Millisecond), len(atHung))
		watch.Check(hungLease-least, 2*hungLease/3, "without a renewal")
		unlockAll(t, append(short, append(long, longAtHung...)...))
	})
}

// takeMany acquires locks with a watchdog. It returns the holds at other
// servers, and those at one server.
func takeMany(
	t *testing.T, c *relock.Client, at *redistest.Server, begin string, n int, lease time.Duration,
) (others, there []relock.Hold) {
	t.Helper()
	for i := range n {
		h, err := relock.NewRedisLock(fmt.Sprint(begin, i), c, relock.WithWatchdog(lease)).Acquire(t.Context())
		require.NoError(t, err)
		if _, err := at.Try(t, "GET", locktest.KeyOf(c, h.Key())); err == nil {
			there = append(there, h)
		} else {
			others = append(others, h)
		}
	}
	require.NotEmpty(t, there)
	return others, there
}

// unlockAll releases holds. Those at a server that has only just answered again
// may need more than one try.
func unlockAll(t *testing.T, holds []relock.Hold) {
	t.Helper()
	for _, h := range holds {
		testkit.Eventually(t, patience, func() bool {
			err := h.Unlock(context.Background())
			require.NotErrorIs(t, err, relock.ErrLockLost, h.Key())
			return err == nil
		}, "released")
	}
}
