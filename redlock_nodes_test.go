package relock

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/testkit"
)

// A minority of the nodes may be down, silent or held by others: the lock works, and Lock does not wait for them.
func TestRedLockWithAMinorityAway(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 5)
	b := newRedBench(t, servers)
	l := b.lock(b.clients)
	b.meet(l)
	b.proxies[0].Refuse()
	b.proxies[3].Stall()
	fastest := time.Hour
	for i := 0; i < 50 && fastest >= 90*time.Millisecond; i++ { // a busy machine may hold many of them up; one that waits for the silent node is never as quick
		start := time.Now()
		h := acquireWithQuorum(t, l)
		fastest = min(fastest, time.Since(start))
		require.NoError(t, h.Unlock(t.Context()))
	}
	require.Less(t, fastest, 90*time.Millisecond)
	h := acquireWithQuorum(t, l)
	time.Sleep(3 * redLease / 2)
	require.NoError(t, h.Err(), "a quorum is renewed")
	require.NoError(t, h.Extend(t.Context(), redLease))
	start := time.Now()
	require.NoError(t, h.Unlock(t.Context()))
	require.Less(t, time.Since(start), redLease/2)
	b.proxies[0].Accept()
	b.proxies[3].Resume()
	b.requireFree(2 * redLease)
}

// A call that shares the nodes with somebody else does not wait long for one that is silent: it would keep from them what it got.
func TestRedLockSharedNodesBesideASilentOne(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	l := b.patient()
	b.meet(l)
	b.holdRaw(time.Minute, "", "another", "")
	b.proxies[2].Stall()
	fastest := time.Hour
	for i := 0; i < 5 && fastest >= l.target.Settings.Lease/10; i++ { // a busy machine may hold some of them up
		start := time.Now()
		require.ErrorIs(t, l.TryLock(t.Context()), ErrLockAcquiredByOthers)
		fastest = min(fastest, time.Since(start))
	}
	require.Less(t, fastest, l.target.Settings.Lease/10)
	b.requireHeldBy(1)
	b.proxies[2].Resume()
	b.servers[1].Do(t, "DEL", b.prefix+"{k}")
	b.requireFree(testkit.Patience)
}

// acquireWithQuorum tries again where a node more than the absent ones was too busy to answer in time.
func acquireWithQuorum(t *testing.T, l *RedLock) (h Hold) {
	t.Helper()
	err := ErrQuorum
	testkit.Eventually(t, testkit.Patience, func() bool {
		h, err = l.Acquire(t.Context())
		return !errors.Is(err, ErrQuorum)
	}, "a quorum")
	require.NoError(t, err)
	return h
}

// withoutTheThird is a hold of three nodes of which the third does not answer yet.
func (b *redBench) withoutTheThird(l *RedLock) Hold {
	b.Helper()
	b.proxies[2].Stall()
	h, err := l.Acquire(b.Context())
	require.NoError(b, err)
	require.Len(b, membersOf(h), 2)
	return h
}

// What a node grants later than the others becomes part of the hold, or is given back when that is over.
func TestRedLockLateGrants(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	l := b.patient()
	b.meet(l)
	h := b.withoutTheThird(l)
	b.proxies[2].Resume()
	testkit.Eventually(t, testkit.Patience, func() bool { return len(membersOf(h)) == 3 }, "the third one joins")
	require.Equal(t, 3, b.holding())
	require.NoError(t, h.Unlock(t.Context()))
	b.requireFree(time.Second)

	h = b.withoutTheThird(l)
	require.NoError(t, h.Unlock(t.Context()))
	b.proxies[2].Resume()
	require.True(t, b.proxies[2].Await(redReleases, 3, testkit.Patience), "given back")
	b.requireFree(time.Second)
}

// A node that grants after the belief in the hold has ended revives nothing, though the timer of the part that ended it is late: meanwhile
// others had the lock, maybe.
func TestRedLockGrantAfterTheEnd(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	l := b.patient()
	b.meet(l)
	h := b.withoutTheThird(l)
	first := membersOf(h)[0].Lease()
	first.Set(func(s *lease.State) { s.ValidUntil = time.Now().Add(50 * time.Millisecond) }) // its timer comes much later
	require.NoError(t, h.Err())
	time.Sleep(time.Until(h.ValidUntil()) + time.Millisecond)
	b.proxies[2].Resume()
	testkit.Eventually(t, testkit.Patience, func() bool { return len(membersOf(h)) == 3 }, "the late grant")
	require.ErrorIs(t, h.Err(), ErrLockLost)
	require.Error(t, h.Context().Err())
	b.requireFree(testkit.Patience)
}

// A node that is lost leaves the hold as it is while there is a quorum. It does not come back to it.
func TestRedLockLosesNodes(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 5)
	var log logBuffer
	b := newRedBench(t, servers, log.option())
	h, err := b.lock(b.clients).Acquire(t.Context())
	require.NoError(t, err)
	testkit.Eventually(t, time.Second, func() bool { return len(membersOf(h)) == 5 }, "all are there")
	for i, lost := range []int{1, 2} {
		servers[lost].Do(t, "DEL", b.prefix+"{k}")
		testkit.Eventually(t, 2*redLease, func() bool { return log.count("a part of a hold was lost") == i+1 }, "said")
		require.NoError(t, h.Err())
	}
	time.Sleep(redLease)
	require.NoError(t, h.Err())
	require.Equal(t, 3, b.holding())
	servers[0].Do(t, "DEL", b.prefix+"{k}")
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 2*redLease), ErrLockLost)
	require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
	b.requireFree(time.Second)
	testkit.Eventually(t, testkit.Patience, func() bool { return log.count("relock: lock lost") > 0 }, "said")
	require.Equal(t, 1, log.count("relock: lock lost"))
}

// The hold is valid until so many nodes' leases end that no quorum is left.
func TestRedLockBelief(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 5)
	b := newRedBench(t, servers)
	start := time.Now()
	h, err := NewRedLock("k", b.clients, WithMaxLease(redLease), WithExpiry(redLease)).Acquire(t.Context())
	require.NoError(t, err)
	end := time.Now()
	length := redLease - lease.Drift(redLease)
	require.False(t, h.ValidUntil().Before(start.Add(length)))
	require.False(t, h.ValidUntil().After(end.Add(length)))
	testkit.Eventually(t, time.Second, func() bool { return len(membersOf(h)) == 5 }, "all are there")
	var latest time.Time
	for _, one := range membersOf(h) {
		latest = testkit.Later(latest, one.ValidUntil())
	}
	for i, one := range membersOf(h) {
		require.Equal(t, i >= 3, h.ValidUntil().After(latest), "with %d of 5 extended", i)
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, one.Extend(t.Context(), redLease))
	}
	require.ErrorIs(t, h.Extend(t.Context(), 2*redLease), ErrInvalid, "above the largest lease")
	until := h.ValidUntil()
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 5*time.Second), ErrLockLost)
	require.False(t, time.Now().Before(until))
}

// Extend and Unlock say when too few nodes have answered.
func TestRedLockWithoutAQuorumAfterwards(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 3)
	b := newRedBench(t, servers, WithCommandTimeout(300*time.Millisecond))
	h, err := b.lock(b.clients).Acquire(t.Context())
	require.NoError(t, err)
	b.proxies[0].Stall()
	b.proxies[1].Stall()
	err = h.Extend(t.Context(), redLease)
	require.ErrorIs(t, err, ErrQuorum)
	var node *NodeError
	require.ErrorAs(t, err, &node)
	require.NoError(t, h.Err())
	err = h.Unlock(t.Context())
	require.ErrorIs(t, err, ErrUnconfirmed)
	require.ErrorAs(t, err, &node)
	b.proxies[0].Resume()
	b.proxies[1].Resume()
	b.requireFree(2 * redLease)
}

// A part that was lost is not the hold: an Extend that fails for want of a quorum does not say that the hold is over, and may be tried again.
func TestRedLockExtendBesideALostPart(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 3)
	for name, lose := range map[string]func(*redBench){
		"lost":   func(b *redBench) { servers[2].Do(b, "DEL", b.prefix+"{k}") },
		"closed": func(b *redBench) { _ = b.clients[2].Close() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newRedBench(t, servers, WithCommandTimeout(redLease/4))
			h, err := b.lock(b.clients).Acquire(t.Context())
			require.NoError(t, err)
			testkit.Eventually(t, testkit.Patience, func() bool { return len(membersOf(h)) == 3 }, "all nodes grant it")
			lose(b)
			there := func(one *lease.Hold) bool { return one.IsOf(b.clients[2].engine) && one.Lease().State().Err == nil }
			testkit.Eventually(t, testkit.Patience, func() bool { return !slices.ContainsFunc(membersOf(h), there) }, "the loss is found")
			b.proxies[1].Stall()
			err = h.Extend(t.Context(), redLease)
			require.ErrorIs(t, err, ErrQuorum)
			require.ErrorContains(t, err, "node 2: ")
			for _, loss := range []error{ErrLockLost, ErrNotHeld, ErrClosed} {
				require.NotErrorIs(t, err, loss)
			}
			require.True(t, IsRetryableErr(err))
			require.NoError(t, h.Err())
			b.proxies[1].Resume()
			_ = h.Unlock(t.Context()) // of the two nodes that are left, one may have been silent for too long
			b.requireFree(2 * redLease)
		})
	}
}

// With a majority away there is a clear error in time, which names the nodes.
func TestRedLockWithAMajorityAway(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 5)
	b := newRedBench(t, servers)
	l := b.lock(b.clients)
	for _, i := range []int{0, 2} {
		b.proxies[i].Refuse()
	}
	b.proxies[4].Stall()
	start := time.Now()
	err := l.Lock(t.Context())
	require.Less(t, time.Since(start), redLease)
	require.ErrorIs(t, err, ErrQuorum)
	require.NotErrorIs(t, err, ErrLockAcquiredByOthers)
	require.True(t, IsRetryableErr(err), "%v", err)
	for _, text := range []string{"node 0: ", "node 2: ", "node 4: "} {
		require.ErrorContains(t, err, text)
	}
	t.Log(err)
	waiting := testkit.Async(t, func() error { return b.lock(b.clients, WithBlock()).Lock(t.Context()) })
	select {
	case err := <-waiting:
		require.FailNow(t, "did not wait", "%v", err)
	case <-time.After(200 * time.Millisecond):
	}
	b.proxies[0].Accept()
	require.NoError(t, testkit.ResultWithin(t, waiting, 10*time.Second))
	b.proxies[4].Resume()
}

// What will not pass by itself is an error at once where it keeps the lock from a quorum, and only there.
func TestRedLockNodesThatRefuse(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 3)
	b := newRedBench(t, servers)
	deny := func(i int) { servers[i].Do(t, "ACL", "SETUSER", "default", "-info") }
	deny(0)
	require.NoError(t, b.lock(b.clients).Do(t.Context(), nothing), "without one node")
	b.proxies[1].Refuse()
	err := b.lock(b.clients).Lock(t.Context())
	require.ErrorIs(t, err, ErrQuorum)
	require.True(t, IsRetryableErr(err), "%v", err)
	require.ErrorContains(t, err, "node 0: ")
	b.proxies[1].Accept()
	deny(1)
	start := time.Now()
	err = b.lock(b.clients, WithBlock()).Lock(t.Context())
	require.Less(t, time.Since(start), redLease)
	require.ErrorIs(t, err, ErrQuorum)
	require.ErrorIs(t, err, ErrDenied)
	require.False(t, IsRetryableErr(err))
	b.requireFree(time.Second)
}

// A node that was just started is not counted: it may have forgotten a lock.
func TestRedLockDoesNotCountANewServer(t *testing.T) {
	t.Parallel()
	servers := newRedServers(t, 3)
	b := newRedBench(t, servers)
	l, other := b.lock(b.clients), b.lock(b.others())
	h, err := l.Acquire(t.Context())
	require.NoError(t, err)
	testkit.Eventually(t, time.Second, func() bool { return b.holding() == 3 }, "all have it")
	for _, i := range []int{0, 1} {
		servers[i].Kill(t)
		servers[i].Boot(t) // empty
	}
	err = other.Lock(t.Context())
	require.ErrorIs(t, err, ErrQuorum)
	require.ErrorContains(t, err, "node 0: the server was started")
	require.True(t, IsRetryableErr(err))
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 5*time.Second), ErrLockLost)
	require.NoError(t, b.lock(b.others(), WithBlock()).Lock(t.Context()), "as soon as they count again")
}
