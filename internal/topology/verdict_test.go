package topology

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// requireWait requires that a new client waits, although one server said no,
// and that the log has the answer of each.
func requireWait(t testing.TB, err error, log *testkit.Log, answers ...string) {
	t.Helper()
	require.NotErrorIs(t, err, errs.ErrInvalid)
	require.NotErrorIs(t, err, errs.ErrDenied)
	require.True(t, lockspec.IsRetryable(err), err)
	for _, text := range answers {
		require.ErrorContains(t, err, text)
		testkit.Eventually(t, testkit.Patience, func() bool { return log.Lines("level=WARN", text) > 0 }, text)
	}
}

// One sentinel that does not know the master, or refuses the password, ends no
// wait while the others hang or are dead. Two of three do.
func TestSentinelThatSaysNoIsOutvoted(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, noFailover)
	one, two, three := s.Sentinels[0], s.Sentinels[1], s.Sentinels[2]
	one.Do(t, "SENTINEL", "REMOVE", redistest.SentinelName)
	two.Pause(t)
	three.Kill(t)
	log := &testkit.Log{}
	logged := func(c *SentinelConfig) { c.Logger = log.Logger() }

	p := sentinelOf(t, s, logged)
	_, err := p.Master(t.Context())
	requireWait(t, err, log, one.Address+": knows no master", two.Address+": read", three.Address+": dial")
	for range 3 {
		require.Error(t, p.Refresh(t.Context()))
	}
	require.Equal(t, 1, log.Lines("level=WARN"), "a line a minute")
	two.Resume(t)
	awaitMaster(t, p, s.Servers[0])

	one.Do(t, "ACL", "SETUSER", "default", "resetpass", ">another")
	two.Pause(t)
	log = &testkit.Log{}
	_, err = sentinelOf(t, s, logged).Master(t.Context())
	requireWait(t, err, log, one.Address+": permission denied", two.Address+": read", three.Address+": dial")

	two.Resume(t)
	two.Do(t, "SENTINEL", "REMOVE", redistest.SentinelName)
	_, err = sentinelOf(t, s, logged).Master(t.Context())
	require.False(t, lockspec.IsRetryable(err), err)
	require.ErrorContains(t, err, three.Address+": dial")
}

// A server that is no part of a Cluster ends no wait while the others hang or
// are dead, and neither does one with an old password.
func TestServerThatSaysNoIsOutvoted(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 1, 0)
	master := s.Servers[0]
	alone, dead := redistest.StartTCP(t), redistest.StartTCP(t)
	master.Pause(t)
	dead.Kill(t)
	log := &testkit.Log{}
	logged := func(c *ClusterConfig) { c.Logger = log.Logger() }
	seeds := []string{alone.Address, master.Address, dead.Address}

	p := clusterOf(t, seeds, logged)
	_, err := p.Master(t.Context(), "k")
	requireWait(t, err, log, alone.Address+": it is no Cluster", master.Address+": read", dead.Address+": dial")
	alone.Do(t, "CONFIG", "SET", "requirepass", "another")
	log = &testkit.Log{}
	_, err = clusterOf(t, seeds, logged).Master(t.Context(), "k")
	requireWait(t, err, log, alone.Address+": permission denied", master.Address+": read", dead.Address+": dial")
	require.NotContains(t, err.Error(), "+cluster|shards", "a permission is not what is missing")

	master.Resume(t)
	testkit.Eventually(t, testkit.Patience, func() bool {
		address, err := p.Master(t.Context(), "k")
		return err == nil && address == master.Address
	}, "the wait goes on")
	_, err = clusterOf(t, []string{alone.Address, redistest.StartTCP(t).Address, dead.Address}).Master(t.Context(), "k")
	require.False(t, lockspec.IsRetryable(err), err)
}

// A line a minute says that a wait goes on.
func TestOutvotedNoIsLoggedOnceAMinute(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		log := &testkit.Log{}
		s := newSearch(log.Logger())
		for _, lines := range []int{1, 1, 2} {
			s.mu.Lock()
			s.conclude(&lookError{outvoted: true})
			s.mu.Unlock()
			synctest.Wait()
			require.Equal(t, lines, log.Lines("level=WARN"))
			time.Sleep(warnPause / 2)
		}
		require.NoError(t, s.Close())
	})
}
