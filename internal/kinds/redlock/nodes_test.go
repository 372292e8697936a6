package redlock_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A minority of the nodes may be down or silent: the lock works, and Lock does
// not wait for them.
func TestRedLockWithAMinorityAway(t *testing.T) {
	b := newRed(t, 5)
	l := b.Patient()
	b.Connect(l)
	b.Proxies[0].Refuse()
	b.Proxies[3].Stall()
	var took []time.Duration
	for range 5 {
		watch := testkit.NewStopwatch(t)
		h := acquireWithQuorum(t, l)
		took = append(took, watch.Net())
		require.NoError(t, h.Unlock(t.Context()))
	}
	require.Less(t, locktest.Median(took), 90*time.Millisecond)
	h := acquireWithQuorum(t, l)
	locktest.RenewGroup(t, h)
	require.NoError(t, h.Err(), "a quorum is renewed")
	require.NoError(t, h.Extend(t.Context(), locktest.RedLease))
	watch := testkit.NewStopwatch(t)
	require.NoError(t, h.Unlock(t.Context()))
	watch.Within(locktest.RedLease / 2)
	b.Proxies[0].Accept()
	b.Proxies[3].Resume()
	b.RequireFree(2 * locktest.RedLease)
}

// A call that shares the nodes with another holder does not wait long for a
// silent one: it would keep from others what it got.
func TestRedLockSharedNodesBesideASilentOne(t *testing.T) {
	b := newRed(t, 3)
	l := b.Patient()
	b.Connect(l)
	b.StoreHolds(time.Minute, "", "another", "")
	b.Proxies[2].Stall()
	const limit = locktest.FaultLease / 10
	watch := testkit.NewStopwatch(t)
	require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	watch.Within(limit)
	b.RequireHeldBy(1)
	b.Proxies[2].Resume()
	b.Servers[1].Do(t, "DEL", b.Prefix+"{k}")
	b.RequireFree(testkit.Patience)
}

// acquireWithQuorum tries again if a node more than the absent ones was too
// busy to reply in time.
func acquireWithQuorum(t *testing.T, l locktest.AnyLock) (h relock.Hold) {
	t.Helper()
	err := relock.ErrQuorum
	testkit.Eventually(t, testkit.Patience, func() bool {
		h, err = l.Acquire(t.Context())
		return !errors.Is(err, relock.ErrQuorum)
	}, "a quorum")
	require.NoError(t, err)
	return h
}

// A node that grants later than the others joins the hold. It is released if
// the hold is over.
func TestRedLockLateGrants(t *testing.T) {
	b := newRed(t, 3)
	l := b.Patient()
	b.Connect(l)
	h := b.WithoutTheThird(l)
	b.Proxies[2].Resume()
	awaitMembers(t, h, 3)
	require.Equal(t, 3, b.HeldNodes())
	require.NoError(t, h.Unlock(t.Context()))
	b.RequireFree(time.Second)

	h = b.WithoutTheThird(l)
	require.NoError(t, h.Unlock(t.Context()))
	b.Proxies[2].Resume()
	require.True(t, b.Proxies[2].Await(locktest.RedReleases, 3, testkit.Patience), "released")
	b.RequireFree(time.Second)
}

// A node that is lost leaves the hold as it is while there is a quorum. It does
// not come back to it.
func TestRedLockLosesNodes(t *testing.T) {
	var log locktest.LogBuffer
	b := newRed(t, 5, log.Option())
	h := locktest.Take(t, b.Patient().Acquire)
	awaitMembers(t, h, 5)
	for i, lost := range []int{1, 2} {
		b.Servers[lost].Do(t, "DEL", b.Prefix+"{k}")
		locktest.RenewNow(h)
		testkit.Eventually(t, testkit.Patience,
			func() bool { return log.Count("a member of a hold was lost") == i+1 }, "logged")
		require.Equal(t, 1,
			log.Lines("a member of a hold was lost", "key=k kind=quorum node="+strconv.Itoa(lost)+" reason="), log.String())
		require.NoError(t, h.Err())
	}
	locktest.RenewGroup(t, h)
	locktest.RenewGroup(t, h) // of all that are left
	require.NoError(t, h.Err())
	require.Equal(t, 3, b.HeldNodes())
	b.Servers[0].Do(t, "DEL", b.Prefix+"{k}")
	locktest.RenewNow(h)
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrLockLost)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
	b.RequireFree(time.Second)
	testkit.Eventually(t, testkit.Patience, func() bool { return log.Count("relock: lock lost") > 0 }, "logged")
	require.Equal(t, 1, log.Count("relock: lock lost"))
}

// Extend and Unlock report that too few nodes have replied.
func TestRedLockWithoutAQuorumAfterwards(t *testing.T) {
	b := newRed(t, 3, relock.WithCommandTimeout(2*time.Second))
	h := locktest.Take(t, b.Patient().Acquire)
	b.Proxies[0].Stall()
	b.Proxies[1].Stall()
	err := h.Extend(t.Context(), locktest.RedLease)
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

// A lost member is not the hold: an Extend that gets no quorum does not report
// that the hold is over, and may be tried again.
func TestRedLockExtendBesideALostMember(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]func(*locktest.RedBench){
		"lost":   func(b *locktest.RedBench) { b.Servers[2].Do(b, "DEL", b.Prefix+"{k}") },
		"closed": func(b *locktest.RedBench) { require.NoError(b, b.Clients[2].Close()) },
	}, func(t *testing.T, _ string, lose func(*locktest.RedBench)) {
		b := redOn(t, 3, relock.WithCommandTimeout(2*time.Second))
		h := locktest.Take(t, b.Patient().Acquire)
		awaitMembers(t, h, 3)
		lose(b)
		locktest.RenewNow(h)
		testkit.Eventually(t, testkit.Patience, func() bool { return b.Clients[2].Stats().Held == 0 }, "the loss is found")
		b.Proxies[1].Stall()
		err := h.Extend(t.Context(), locktest.RedLease)
		require.ErrorIs(t, err, relock.ErrQuorum)
		require.ErrorContains(t, err, "node 2: ")
		for _, loss := range []error{relock.ErrLockLost, relock.ErrNotHeld, relock.ErrClosed} {
			require.NotErrorIs(t, err, loss)
		}
		require.True(t, relock.IsRetryableErr(err))
		require.NoError(t, h.Err())
		b.Proxies[1].Resume()
		_ = h.Unlock(t.Context()) // of the two nodes that are left, one may have been silent for too long
		b.RequireFree(2 * locktest.FaultLease)
	})
}

// With a majority away there is a clear error in time, which names the nodes.
func TestRedLockWithAMajorityAway(t *testing.T) {
	b := newRed(t, 5)
	b.Proxies[0].Refuse()
	b.Proxies[2].Refuse()
	b.Proxies[4].Stall()
	watch := testkit.NewStopwatch(t)
	err := b.Lock(b.Clients).Lock(t.Context())
	watch.Within(locktest.RedLease)
	require.ErrorIs(t, err, relock.ErrQuorum)
	require.NotErrorIs(t, err, relock.ErrLockAcquiredByOthers)
	require.True(t, relock.IsRetryableErr(err), "%v", err)
	for _, text := range []string{"node 0: ", "node 2: ", "node 4: "} {
		require.ErrorContains(t, err, text)
	}
	waiting := testkit.Async(t, func() error { return b.Lock(b.Clients, relock.WithBlock()).Lock(t.Context()) })
	err, ended := testkit.Await(waiting, 200*time.Millisecond)
	require.False(t, ended, "did not wait: %v", err)
	b.Proxies[0].Accept()
	locktest.RequireGranted(t, waiting)
	b.Proxies[4].Resume()
}

// A lasting refusal is an error immediately if it keeps the lock from a quorum,
// and only then.
func TestRedLockNodesThatRefuse(t *testing.T) {
	b := newRed(t, 3)
	clients := asUser(b)
	permit(b, 0, "-info")
	require.NoError(t, locktest.NewPatientRedLock("k", clients).Do(t.Context(), locktest.Nothing), "without one node")
	b.Proxies[1].Refuse()
	err := locktest.NewPatientRedLock("k", clients).Lock(t.Context())
	require.ErrorIs(t, err, relock.ErrQuorum)
	require.True(t, relock.IsRetryableErr(err), "%v", err)
	require.ErrorContains(t, err, "node 0: ")
	b.Proxies[1].Accept()
	permit(b, 1, "-info")
	err = locktest.RequireAtOnce(t, locktest.NewPatientRedLock("k", clients, relock.WithBlock()).Lock)
	locktest.RequireIs(t, err, relock.ErrQuorum, relock.ErrDenied)
	b.RequireFree(time.Second)

	for _, s := range b.Servers[:2] {
		s.Do(t, "SET", b.Prefix+"{k}", "something else")
	}
	locktest.RequireIs(t, b.Patient(relock.WithBlock()).Lock(t.Context()), relock.ErrKeyConflict, relock.ErrQuorum)
}

// A node that was just started is not counted: it may have forgotten a lock.
func TestRedLockDoesNotCountANewServer(t *testing.T) {
	t.Parallel()
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	for _, s := range servers {
		locktest.AwaitUp(t, s)
	}
	b := locktest.NewRedBench(t, servers)
	others := b.Others()
	h := locktest.Take(t, b.Lock(b.Clients).Acquire)
	b.RequireHeldBy(3)
	for _, s := range servers[:2] {
		s.Kill(t)
		s.Boot(t) // empty
	}
	err := b.Lock(others).Lock(t.Context())
	require.ErrorIs(t, err, relock.ErrQuorum)
	require.ErrorContains(t, err, "node 0: the server was started")
	require.True(t, relock.IsRetryableErr(err))
	locktest.RequireEnds(t, h, relock.ErrLockLost)
	require.NoError(t, b.Lock(others, relock.WithBlock()).Lock(t.Context()), "as soon as they count again")
}
