package topology

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
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
	logged := func() *Sentinel {
		p := sentinelOf(t, s)
		p.limit = noFailover / 3 // each look takes that long, since one hangs
		p.logTo(log.Logger())
		return p
	}

	p := logged()
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
	_, err = logged().Master(t.Context())
	requireWait(t, err, log, one.Address+": permission denied", two.Address+": read", three.Address+": dial")

	two.Resume(t)
	two.Do(t, "SENTINEL", "REMOVE", redistest.SentinelName)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience/3)
	defer cancel()
	_, err = logged().Master(ctx)
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
	seeds := []string{alone.Address, master.Address, dead.Address}
	logged := func() *Cluster {
		p := clusterOf(t, seeds)
		p.logTo(log.Logger())
		return p
	}

	p := logged()
	_, err := p.Master(t.Context(), "k")
	requireWait(t, err, log, alone.Address+": it is no Cluster", master.Address+": read", dead.Address+": dial")
	alone.Do(t, "CONFIG", "SET", "requirepass", "another")
	log = &testkit.Log{}
	_, err = logged().Master(t.Context(), "k")
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
		s := newSearch()
		s.logTo(log.Logger())
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
