package acquire_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/testkit"
)

// A minority of the nodes may be down, silent or held by others: the lock works, and Lock does not wait for them.
func TestRedLockWithAMinorityAway(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 5)
	b := locktest.NewRedBench(t, servers)
	l := b.Lock(b.Clients)
	b.Meet(l)
	b.Proxies[0].Refuse()
	b.Proxies[3].Stall()
	fastest := time.Hour
	for i := 0; i < 50 && fastest >= 90*time.Millisecond; i++ { // a busy machine may hold many of them up; one that waits for the silent node is never as quick
		start := time.Now()
		h := acquireWithQuorum(t, l)
		fastest = min(fastest, time.Since(start))
		require.NoError(t, h.Unlock(t.Context()))
	}
	require.Less(t, fastest, 90*time.Millisecond)
	h := acquireWithQuorum(t, l)
	time.Sleep(3 * locktest.RedLease / 2)
	require.NoError(t, h.Err(), "a quorum is renewed")
	require.NoError(t, h.Extend(t.Context(), locktest.RedLease))
	start := time.Now()
	require.NoError(t, h.Unlock(t.Context()))
	require.Less(t, time.Since(start), locktest.RedLease/2)
	b.Proxies[0].Accept()
	b.Proxies[3].Resume()
	b.RequireFree(2 * locktest.RedLease)
}

// A call that shares the nodes with somebody else does not wait long for one that is silent: it would keep from them what it got.
func TestRedLockSharedNodesBesideASilentOne(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
	l := b.Patient()
	b.Meet(l)
	b.HoldRaw(time.Minute, "", "another", "")
	b.Proxies[2].Stall()
	fastest := time.Hour
	for i := 0; i < 5 && fastest >= locktest.Target(l).Settings.Lease/10; i++ { // a busy machine may hold some of them up
		start := time.Now()
		require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
		fastest = min(fastest, time.Since(start))
	}
	require.Less(t, fastest, locktest.Target(l).Settings.Lease/10)
	b.RequireHeldBy(1)
	b.Proxies[2].Resume()
	b.Servers[1].Do(t, "DEL", b.Prefix+"{k}")
	b.RequireFree(testkit.Patience)
}

// acquireWithQuorum tries again where a node more than the absent ones was too busy to answer in time.
func acquireWithQuorum(t *testing.T, l *relock.RedLock) (h relock.Hold) {
	t.Helper()
	err := relock.ErrQuorum
	testkit.Eventually(t, testkit.Patience, func() bool {
		h, err = l.Acquire(t.Context())
		return !errors.Is(err, relock.ErrQuorum)
	}, "a quorum")
	require.NoError(t, err)
	return h
}

// What a node grants later than the others becomes part of the hold, or is given back when that is over.
func TestRedLockLateGrants(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
	l := b.Patient()
	b.Meet(l)
	h := b.WithoutTheThird(l)
	b.Proxies[2].Resume()
	testkit.Eventually(t, testkit.Patience, func() bool { return len(locktest.MembersOf(h)) == 3 }, "the third one joins")
	require.Equal(t, 3, b.Holding())
	require.NoError(t, h.Unlock(t.Context()))
	b.RequireFree(time.Second)

	h = b.WithoutTheThird(l)
	require.NoError(t, h.Unlock(t.Context()))
	b.Proxies[2].Resume()
	require.True(t, b.Proxies[2].Await(locktest.RedReleases, 3, testkit.Patience), "given back")
	b.RequireFree(time.Second)
}

// A node that grants after the belief in the hold has ended revives nothing, though the timer of the part that ended it is late: meanwhile
// others had the lock, maybe.
func TestRedLockGrantAfterTheEnd(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
	l := b.Patient()
	b.Meet(l)
	h := b.WithoutTheThird(l)
	first := locktest.MembersOf(h)[0].Lease()
	first.Set(func(s *lease.State) { s.ValidUntil = time.Now().Add(50 * time.Millisecond) }) // its timer comes much later
	require.NoError(t, h.Err())
	time.Sleep(time.Until(h.ValidUntil()) + time.Millisecond)
	b.Proxies[2].Resume()
	testkit.Eventually(t, testkit.Patience, func() bool { return len(locktest.MembersOf(h)) == 3 }, "the late grant")
	require.ErrorIs(t, h.Err(), relock.ErrLockLost)
	require.Error(t, h.Context().Err())
	b.RequireFree(testkit.Patience)
}

// A node that is lost leaves the hold as it is while there is a quorum. It does not come back to it.
func TestRedLockLosesNodes(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 5)
	var log locktest.LogBuffer
	b := locktest.NewRedBench(t, servers, log.Option())
	h, err := b.Lock(b.Clients).Acquire(t.Context())
	require.NoError(t, err)
	testkit.Eventually(t, time.Second, func() bool { return len(locktest.MembersOf(h)) == 5 }, "all are there")
	for i, lost := range []int{1, 2} {
		servers[lost].Do(t, "DEL", b.Prefix+"{k}")
		testkit.Eventually(t, 2*locktest.RedLease, func() bool { return log.Count("a part of a hold was lost") == i+1 }, "said")
		require.NoError(t, h.Err())
	}
	time.Sleep(locktest.RedLease)
	require.NoError(t, h.Err())
	require.Equal(t, 3, b.Holding())
	servers[0].Do(t, "DEL", b.Prefix+"{k}")
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 2*locktest.RedLease), relock.ErrLockLost)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
	b.RequireFree(time.Second)
	testkit.Eventually(t, testkit.Patience, func() bool { return log.Count("relock: lock lost") > 0 }, "said")
	require.Equal(t, 1, log.Count("relock: lock lost"))
}

// The hold is valid until so many nodes' leases end that no quorum is left.
func TestRedLockBelief(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 5)
	b := locktest.NewRedBench(t, servers)
	start := time.Now()
	h, err := relock.NewRedLock("k", b.Clients, relock.WithMaxLease(locktest.RedLease), relock.WithExpiry(locktest.RedLease)).Acquire(t.Context())
	require.NoError(t, err)
	end := time.Now()
	length := locktest.RedLease - lease.Drift(locktest.RedLease)
	require.False(t, h.ValidUntil().Before(start.Add(length)))
	require.False(t, h.ValidUntil().After(end.Add(length)))
	testkit.Eventually(t, time.Second, func() bool { return len(locktest.MembersOf(h)) == 5 }, "all are there")
	var latest time.Time
	for _, one := range locktest.MembersOf(h) {
		latest = testkit.Later(latest, one.ValidUntil())
	}
	for i, one := range locktest.MembersOf(h) {
		require.Equal(t, i >= 3, h.ValidUntil().After(latest), "with %d of 5 extended", i)
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, one.Extend(t.Context(), locktest.RedLease))
	}
	require.ErrorIs(t, h.Extend(t.Context(), 2*locktest.RedLease), relock.ErrInvalid, "above the largest lease")
	until := h.ValidUntil()
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 5*time.Second), relock.ErrLockLost)
	require.False(t, time.Now().Before(until))
}

// Extend and Unlock say when too few nodes have answered.
func TestRedLockWithoutAQuorumAfterwards(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 3)
	b := locktest.NewRedBench(t, servers, relock.WithCommandTimeout(300*time.Millisecond))
	h, err := b.Lock(b.Clients).Acquire(t.Context())
	require.NoError(t, err)
	b.Proxies[0].Stall()
	b.Proxies[1].Stall()
	err = h.Extend(t.Context(), locktest.RedLease)
	require.ErrorIs(t, err, relock.ErrQuorum)
	var node *relock.NodeError
	require.ErrorAs(t, err, &node)
	require.NoError(t, h.Err())
	err = h.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrUnconfirmed)
	require.ErrorAs(t, err, &node)
	b.Proxies[0].Resume()
	b.Proxies[1].Resume()
	b.RequireFree(2 * locktest.RedLease)
}

// A part that was lost is not the hold: an Extend that fails for want of a quorum does not say that the hold is over, and may be tried again.
func TestRedLockExtendBesideALostPart(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 3)
	for name, lose := range map[string]func(*locktest.RedBench){
		"lost":   func(b *locktest.RedBench) { servers[2].Do(b, "DEL", b.Prefix+"{k}") },
		"closed": func(b *locktest.RedBench) { _ = b.Clients[2].Close() },
	} {
		t.Run(name, func(t *testing.T) {
			b := locktest.NewRedBench(t, servers, relock.WithCommandTimeout(locktest.RedLease/4))
			h, err := b.Lock(b.Clients).Acquire(t.Context())
			require.NoError(t, err)
			testkit.Eventually(t, testkit.Patience, func() bool { return len(locktest.MembersOf(h)) == 3 }, "all nodes grant it")
			lose(b)
			there := func(one *lease.Hold) bool {
				return one.IsOf(locktest.Engine(b.Clients[2])) && one.Lease().State().Err == nil
			}
			testkit.Eventually(t, testkit.Patience, func() bool { return !slices.ContainsFunc(locktest.MembersOf(h), there) }, "the loss is found")
			b.Proxies[1].Stall()
			err = h.Extend(t.Context(), locktest.RedLease)
			require.ErrorIs(t, err, relock.ErrQuorum)
			require.ErrorContains(t, err, "node 2: ")
			for _, loss := range []error{relock.ErrLockLost, relock.ErrNotHeld, relock.ErrClosed} {
				require.NotErrorIs(t, err, loss)
			}
			require.True(t, relock.IsRetryableErr(err))
			require.NoError(t, h.Err())
			b.Proxies[1].Resume()
			_ = h.Unlock(t.Context()) // of the two nodes that are left, one may have been silent for too long
			b.RequireFree(2 * locktest.RedLease)
		})
	}
}

// With a majority away there is a clear error in time, which names the nodes.
func TestRedLockWithAMajorityAway(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 5)
	b := locktest.NewRedBench(t, servers)
	l := b.Lock(b.Clients)
	for _, i := range []int{0, 2} {
		b.Proxies[i].Refuse()
	}
	b.Proxies[4].Stall()
	start := time.Now()
	err := l.Lock(t.Context())
	require.Less(t, time.Since(start), locktest.RedLease)
	require.ErrorIs(t, err, relock.ErrQuorum)
	require.NotErrorIs(t, err, relock.ErrLockAcquiredByOthers)
	require.True(t, relock.IsRetryableErr(err), "%v", err)
	for _, text := range []string{"node 0: ", "node 2: ", "node 4: "} {
		require.ErrorContains(t, err, text)
	}
	t.Log(err)
	waiting := testkit.Async(t, func() error { return b.Lock(b.Clients, relock.WithBlock()).Lock(t.Context()) })
	select {
	case err := <-waiting:
		require.FailNow(t, "did not wait", "%v", err)
	case <-time.After(200 * time.Millisecond):
	}
	b.Proxies[0].Accept()
	require.NoError(t, testkit.ResultWithin(t, waiting, 10*time.Second))
	b.Proxies[4].Resume()
}

// What will not pass by itself is an error at once where it keeps the lock from a quorum, and only there.
func TestRedLockNodesThatRefuse(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 3)
	b := locktest.NewRedBench(t, servers)
	deny := func(i int) { servers[i].Do(t, "ACL", "SETUSER", "default", "-info") }
	deny(0)
	require.NoError(t, b.Lock(b.Clients).Do(t.Context(), locktest.Nothing), "without one node")
	b.Proxies[1].Refuse()
	err := b.Lock(b.Clients).Lock(t.Context())
	require.ErrorIs(t, err, relock.ErrQuorum)
	require.True(t, relock.IsRetryableErr(err), "%v", err)
	require.ErrorContains(t, err, "node 0: ")
	b.Proxies[1].Accept()
	deny(1)
	start := time.Now()
	err = b.Lock(b.Clients, relock.WithBlock()).Lock(t.Context())
	require.Less(t, time.Since(start), locktest.RedLease)
	require.ErrorIs(t, err, relock.ErrQuorum)
	require.ErrorIs(t, err, relock.ErrDenied)
	require.False(t, relock.IsRetryableErr(err))
	b.RequireFree(time.Second)
}

// A node that was just started is not counted: it may have forgotten a lock.
func TestRedLockDoesNotCountANewServer(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 3)
	b := locktest.NewRedBench(t, servers)
	l, other := b.Lock(b.Clients), b.Lock(b.Others())
	h, err := l.Acquire(t.Context())
	require.NoError(t, err)
	testkit.Eventually(t, time.Second, func() bool { return b.Holding() == 3 }, "all have it")
	for _, i := range []int{0, 1} {
		servers[i].Kill(t)
		servers[i].Boot(t) // empty
	}
	err = other.Lock(t.Context())
	require.ErrorIs(t, err, relock.ErrQuorum)
	require.ErrorContains(t, err, "node 0: the server was started")
	require.True(t, relock.IsRetryableErr(err))
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 5*time.Second), relock.ErrLockLost)
	require.NoError(t, b.Lock(b.Others(), relock.WithBlock()).Lock(t.Context()), "as soon as they count again")
}
