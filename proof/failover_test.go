package proof

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

const (
	prefix    = "proof:" // of the keys of all clients
	competing = 4        // processes, or clients of a lock
)

// downAfter is when a master counts as down. A machine that stalls must not
// cause a failover.
const downAfter = time.Second

// newSet starts servers whose masters are replaced. It returns a function that
// makes clients with the same prefix, and the names of two locks at one master.
type newSet func(t testing.TB) (set locktest.FailingSet, newClient func() *relock.Client, locks [2]string)

func newSentinelSet(t testing.TB) (locktest.FailingSet, func() *relock.Client, [2]string) {
	s := redistest.StartSentinels(t, downAfter)
	return s, func() *relock.Client { return clientOfSet(t, s) }, [2]string{"unfair", "fair"}
}

func newClusterSet(t testing.TB) (locktest.FailingSet, func() *relock.Client, [2]string) {
	c := redistest.StartCluster(t, 3, 2) // one is left after a failover
	locks := [2]string{c.NameAt(t, c.Servers[0], "unfair"), c.NameAt(t, c.Servers[0], "fair")}
	return c, func() *relock.Client { return clientOfSet(t, c) }, locks
}

// lostReleases are the ways in which a failover loses releases that the old
// master has answered: a planned one, after which that goes on taking writes
// for a while, and the death of a master whose replicas lag.
func lostReleases(set locktest.FailingSet) map[string]func(*redistest.Server, testing.TB) {
	return map[string]func(*redistest.Server, testing.TB){
		"planned": func(s *redistest.Server, t testing.TB) { set.TakeOver(t, s) },
		"killed": func(s *redistest.Server, t testing.TB) {
			set.CutReplication(t, s)
			time.Sleep(lag)
			s.Kill(t)
		},
	}
}

// lag is how far the replicas are behind when their master is killed.
const lag = 50 * time.Millisecond

// clientOfSet returns a client of a set with the prefix of all.
func clientOfSet(t testing.TB, set locktest.FailingSet, opts ...relock.ClientOption) *relock.Client {
	opts = append(opts, relock.WithKeyPrefix(prefix))
	if c, ok := set.(*redistest.Cluster); ok {
		return locktest.ClusterClient(t, c, opts...)
	}
	return locktest.SentinelClient(t, set.(*redistest.Sentinels), opts...)
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
		l := locktest.NewFailoverLoad(t, set, locks, newClient, 1)
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

// Failovers lose releases that the old master has answered. The locks are
// granted again when the leases of these holds have ended, and not later.
func TestLostReleasesEndWithTheirLeases(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
	together(t, map[string]newSet{
		"Sentinels": newSentinelSet, "Cluster": newClusterSet,
	}, func(t *testing.T, start newSet) {
		set, newClient, locks := start(t)
		// The old master grants nothing meanwhile: it has too few replicas.
		l := locktest.NewFailoverLoad(t, set, locks, newClient, 2, relock.WithWatchdog(lease))
		for range pick(10, 1) {
			for _, end := range lostReleases(set) {
				watch, before := testkit.NewStopwatch(t), len(l.BothAfterCopy)
				l.FailOver(end)
				watch.Check(l.BothAfterCopy[before], lease+time.Second)
			}
		}
		l.Stop()
		l.RequireNoOverlap()
	})
}

// Masters are replaced while clients wait for a fair lock. It is released as
// soon as a replica takes writes, before most clients are back, or 1 s or 3 s
// later: before a silent client loses its turn, and after that. The waiters are
// served in the order in which they came.
func TestFairOrderAfterAFailover(t *testing.T) {
	t.Parallel()
	later := []time.Duration{0, time.Second, 3 * time.Second}
	rows := map[string]fairFailure{}
	for name, f := range failures() {
		rows[name] = fairFailure{f, later[:pick(3, 1)]}
	}
	rows["Sentinels/killed"] = fairFailure{failures()["Sentinels/killed"], later}
	together(t, rows, func(t *testing.T, f fairFailure) {
		set, newClient, locks := f.set(t)
		o := newFairOrder(t, set, locks[1], newClient)
		for range pick(5, 1) {
			for _, pause := range f.pauses {
				old := set.MasterOf(t, prefix+locks[1])
				o.require(func(relock.Hold) {
					f.end(old, t)
					locktest.AwaitPromotion(t, set, old, "probe:{"+locks[1]+"}")
					<-time.After(pause)
				})
				set.Return(t, old)
			}
		}
	})
}

// fairFailure is a failure, and how long after a promotion locks are released.
type fairFailure struct {
	failure
	pauses []time.Duration
}

// The same when an operator replaces the master, and its successor right after
// that.
func TestFairOrderAfterPlannedFailovers(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, downAfter)
	o := newFairOrder(t, s,
		"fair", func() *relock.Client { return locktest.SentinelClient(t, s, relock.WithKeyPrefix(prefix)) })
	for range pick(10, 1) {
		old := s.MasterOf(t, "")
		o.require(func(h relock.Hold) {
			s.FailOver(t)
			o.awaitAt(s.FailOver(t), h)
		})
		s.Return(t, old)
	}
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

// Without WithReplicas, beside a client that reaches the old master only, and
// learns nothing of its failover. Its holds overlap with others, and end within
// a lease after the old master took its last write. How many overlaps there are
// is a figure.
func TestClientThatIsCutOffInAFailover(t *testing.T) {
	t.Parallel()
	sets := map[string]newSet{"Sentinels": newSentinelSet, "Cluster": newClusterSet}
	together(t, sets, func(t *testing.T, start newSet) {
		set, newClient, locks := start(t)
		l := &cutOff{FailoverLoad: locktest.NewFailoverLoad(t, set, locks, newClient, 0), set: set, lock: locks[0]}
		c := clientOfSet(t, set, relock.WithDialer(l.way.dial))
		for range pick(5, 1) {
			for _, end := range lostReleases(set) {
				l.failOver(c, end)
			}
		}
		l.Stop()
		l.report()
	})
}

// A hold that a failover loses ends although its client sends nothing and its
// lease is not renewed: the client looks for the master each 10 s.
func TestIdleHolderLearnsOfAFailover(t *testing.T) {
	t.Parallel()
	together(t, map[string]newSet{
		"Sentinels": newSentinelSet, "Cluster": newClusterSet,
	}, func(t *testing.T, start newSet) {
		set, newClient, locks := start(t)
		c, first := newClient(), set.MasterOf(t, locks[0])
		set.CutReplication(t, first)
		h := locktest.Take(t, relock.NewRedisLock(locks[0], c, relock.WithExpiry(time.Hour)).Acquire)
		set.TakeOver(t, first)
		set.AwaitSuccessor(t, first)
		watch := testkit.NewStopwatch(t)
		require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), patience), relock.ErrLockLost)
		watch.Within(13 * time.Second) // and a load, a check, and the reason
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
