package proof

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// downAfter is when a master counts as down. A machine that stalls must not
// cause a failover.
const downAfter = time.Second

// newSet starts servers whose masters are replaced. It returns a function that
// makes clients with the same prefix, and the names of two locks at one master.
type newSet func(t testing.TB) (set locktest.FailingSet, newClient func() *relock.Client, locks [2]string)

func newSentinelSet(t testing.TB) (locktest.FailingSet, func() *relock.Client, [2]string) {
	s := redistest.StartSentinels(t, downAfter)
	return s, func() *relock.Client { return locktest.SentinelClient(t, s, relock.WithKeyPrefix(prefix)) }, [2]string{"unfair", "fair"}
}

func newClusterSet(t testing.TB) (locktest.FailingSet, func() *relock.Client, [2]string) {
	c := redistest.StartCluster(t, 3, 2) // one is left after a failover
	locks := [2]string{c.NameAt(t, c.Servers[0], "unfair"), c.NameAt(t, c.Servers[0], "fair")}
	return c, func() *relock.Client { return locktest.ClusterClient(t, c, relock.WithKeyPrefix(prefix)) }, locks
}

// failure is a set and the way in which its masters fail.
type failure struct {
	set newSet
	end func(*redistest.Server, testing.TB)
}

func failures() map[string]failure {
	all := map[string]failure{}
	for name, set := range map[string]newSet{"Sentinels": newSentinelSet, "Cluster": newClusterSet} {
		for way, end := range locktest.MasterEnds {
			all[name+"/"+way] = failure{set, end}
		}
	}
	return all
}

// Masters fail under load, and are replaced. Every waiter gets its turn at the
// new master. With WithReplicas no two holds are valid together. The first
// grant comes soon after the new master is named, and has a replica. How soon
// is a figure of a run alone: beside other tests, what the machine may have
// added to a failover does not count.
func TestHandOffsWhileMastersDie(t *testing.T) {
	t.Parallel()
	together(t, failures(), func(t *testing.T, f failure) {
		set, newClient, locks := f.set(t)
		l := locktest.NewFailoverLoad(t, set, locks, newClient, relock.WithReplicas(1, 500*time.Millisecond))
		var copied, named []time.Duration // from then to the first grant, net
		for i := range pick(20, 2) {
			start, watch := time.Now(), testkit.NewStopwatch(t)
			l.FailOver(f.end)
			added := time.Since(start) - watch.Net()
			copied, named = append(copied, l.AfterCopy[i]-added), append(named, l.AfterNamed[i]-added)
		}
		l.Stop()
		l.RequireNoOverlap()
		slices.Sort(copied)
		slices.Sort(named)
		require.Less(t, copied[pick(18, 0)], pick(300*time.Millisecond, time.Second))
		require.Less(t, named[pick(10, 0)], pick(300*time.Millisecond, time.Second))
	})
}

// The control: a lock that no replica has is lost with its master, and two
// holds are valid together. With WithReplicas it is not granted.
func TestFailoverWithoutReplicationOverlaps(t *testing.T) {
	t.Parallel()
	together(t, failures(), func(t *testing.T, f failure) {
		set, newClient, locks := f.set(t)
		locktest.RequireOverlap(t, set, locks[0], newClient, f.end)
	})
}

// A hung master costs the caller only the time of the failover, however long
// its command timeout is. Its holds end by their validity.
func TestMasterThatHangs(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, downAfter)
	c, err := relock.NewClientSentinel(redistest.SentinelName, s.Addresses(), "", relock.WithCommandTimeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	h, err := relock.NewRedisLock("kept", c, relock.WithReplicas(2, 5*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	first := s.Agreed(t)
	first.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := make(chan error, 1)
	go func() {
		_, err := relock.NewRedisLock("k", c, relock.WithBlock(), relock.WithExpiry(10*time.Minute)).Acquire(ctx)
		got <- err
	}()
	s.AwaitSuccessor(t, first)
	watch := testkit.NewStopwatch(t)
	require.NoError(t, <-got)
	watch.Within(5 * time.Second)
	require.NoError(t, h.Err())
	require.NoError(t, h.Unlock(t.Context()))
}
