package routes_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// ofCluster is two clients of a Cluster with three masters, and the name of a
// lock at each.
type ofCluster struct {
	*testing.T
	*redistest.Cluster

	clients [2]*relock.Client
	names   []string
}

func newOfCluster(t *testing.T, c *redistest.Cluster) *ofCluster {
	t.Helper()
	of := &ofCluster{T: t, Cluster: c}
	prefix := relock.WithKeyPrefix("test:" + uuid.NewString() + ":")
	for i := range of.clients {
		of.clients[i] = locktest.ClusterClient(t, c, prefix)
	}
	for _, s := range c.Masters(t) {
		of.names = append(of.names, c.NameAt(t, s, t.Name()))
	}
	return of
}

// requireFree waits until no lock is held: the last try may still release.
func (c *ofCluster) requireFree() {
	c.Helper()
	for _, name := range c.names {
		key := locktest.KeyOf(c.clients[0], name)
		testkit.Eventually(c, testkit.Patience,
			func() bool { return c.MasterOf(c, key).Do(c, "EXISTS", key) == int64(0) }, "is free")
	}
}

// What needs more than one server, or more than the lock itself, works on a
// Cluster as on one server.
func TestKindsOnACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1, "--cluster-node-timeout", "15000")
	run := func(name string, test func(*ofCluster)) {
		t.Run(name, func(t *testing.T) { test(newOfCluster(t, c)) })
	}
	run("multi", multiLockOverSlots)
	run("multi moved", multiLockOverAMovedSlot)
	run("list", listOfAllMasters)
	run("replicas", replicasOfAMaster)
	run("force", forceUnlockOfAWaitingClient)
}

// A MultiLock over the slots of all masters excludes the holders of each key.
// It takes all of them or none.
func multiLockOverSlots(c *ofCluster) {
	c.names = append(c.names, c.names[0]+"x") // another slot, maybe of the same master
	at := func(name string) *redistest.Server { return c.MasterOf(c, name) }
	requireAllOrNone(c, c.names, c.clients, at, c.requireFree)
}

// A slot of a MultiLock moves while it is held, and again while it is taken.
func multiLockOverAMovedSlot(c *ofCluster) {
	one, other := c.clients[0], c.clients[1]
	slot, from, to := c.SlotOf(c, c.names[0]), c.Masters(c)[0], c.Masters(c)[1]
	multi := relock.NewMultiLock(c.names, one)
	h := locktest.Take(c, multi.Acquire)
	held := locktest.Take(c, relock.NewRedisLock(c.names[0]+"x", other).Acquire) // it knows the slots now
	c.MoveSlot(c, slot, to)
	until := h.ValidUntil()
	locktest.RenewNow(h)
	testkit.Eventually(c, testkit.Patience, func() bool { return h.ValidUntil().After(until) }, "renewed")
	_, err := relock.NewMultiLock(c.names, other).Acquire(c.Context())
	require.ErrorIs(c, err, relock.ErrLockAcquiredByOthers)
	require.NoError(c, h.Unlock(c.Context()))
	c.requireFree()
	require.NoError(c, relock.NewMultiLock(c.names, other).Do(c.Context(), locktest.Nothing))

	move := c.BeginMove(c, slot, from)
	require.NoError(c, multi.Do(c.Context(), locktest.Nothing), "all are free, also in the half moved slot")
	h = locktest.Take(c, relock.NewRedisLock(c.names[0], other).Acquire)
	_, err = multi.Acquire(c.Context())
	require.ErrorIs(c, err, relock.ErrLockAcquiredByOthers)
	move.Finish(c)
	require.NoError(c, h.Unlock(c.Context()))
	require.NoError(c, held.Unlock(c.Context()))
	c.requireFree()
}

// List and Ping go to all masters.
func listOfAllMasters(c *ofCluster) {
	requireListed(c, c.clients[0], c.clients[1], c.names)
	hung := c.MasterOf(c, c.names[1])
	hung.Pause(c)
	defer hung.Resume(c)
	ctx, cancel := context.WithTimeout(c.Context(), 200*time.Millisecond)
	defer cancel()
	require.Error(c, c.clients[0].Ping(ctx))
}

// WithReplicas waits for a replica of the master of each key.
func replicasOfAMaster(c *ofCluster) {
	for _, name := range c.names {
		require.NoError(c, relock.NewRedisLock(name, c.clients[0], locktest.OneReplica).Do(c.Context(), locktest.Nothing))
	}
	cut := c.MasterOf(c, c.names[0])
	c.CutReplication(c, cut)
	defer c.RestoreReplication(c)
	for i, name := range c.names {
		err := relock.NewRedisLock(name, c.clients[0], relock.WithReplicas(1, 2*time.Second)).Do(c.Context(),
			locktest.Nothing)
		if i == 0 {
			require.ErrorIs(c, err, relock.ErrReplicas)
		} else {
			require.NoError(c, err, "its master has a replica")
		}
	}
}

// Inspect and ForceUnlock find the master of a lock. A holder whose client
// waits for the lock, too, learns of it immediately.
func forceUnlockOfAWaitingClient(c *ofCluster) {
	for _, name := range c.names {
		holder, operator := c.clients[0], c.clients[1]
		h := locktest.Take(c, relock.NewRedisLock(name, holder, relock.WithWatchdog(time.Minute)).Acquire)
		next := testkit.Async(c, func() error {
			return relock.NewRedisLock(name, holder, relock.WithBlock()).Do(c.Context(), locktest.Nothing)
		})
		locktest.AwaitSubscribed(c, c.MasterOf(c, name), locktest.KeyOf(holder, name), holder)
		info := locktest.Inspect(c, operator, name)
		require.Equal(c, relock.StateHeld, info.State)
		require.Equal(c, 1, info.Waiting)
		watch := testkit.NewStopwatch(c)
		require.NoError(c, operator.ForceUnlock(c.Context(), name, "test"))
		require.ErrorIs(c, testkit.EndedWithin(c, h.Context(), testkit.Patience), relock.ErrLockLost)
		watch.Within(locktest.NotifyLimit)
		require.NoError(c, testkit.ResultWithin(c, next, testkit.Patience))
	}
	c.requireFree()
}

// A RedLock over three Clusters survives the loss of one, and of two it does
// not.
func TestRedLockOverClusters(t *testing.T) {
	t.Parallel()
	var clusters []*redistest.Cluster
	var clients [2][]*relock.Client
	prefix := relock.WithKeyPrefix("test:" + uuid.NewString() + ":")
	for range 3 {
		c := redistest.StartCluster(t, 1, 0)
		clusters = append(clusters, c)
		for i := range clients {
			clients[i] = append(clients[i],
				locktest.ClusterClient(t, c, prefix, relock.WithCommandTimeout(locktest.FaultPatience)))
		}
	}
	lock := func(i int, opts ...relock.LockOption) locktest.AnyLock {
		return locktest.NewPatientRedLock("k", clients[i], opts...)
	}
	for _, killed := range []int{-1, 1} {
		if killed >= 0 {
			clusters[killed].Servers[0].Kill(t)
		}
		h := locktest.Take(t, lock(0, relock.WithBlockTimeout(testkit.Patience)).Acquire)
		_, err := lock(1).Acquire(t.Context())
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		waits := testkit.Async(t, func() error {
			return lock(1, relock.WithBlockTimeout(testkit.Patience)).Do(t.Context(), locktest.Nothing)
		})
		require.NoError(t, h.Unlock(t.Context()))
		require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
	}
	clusters[2].Servers[0].Kill(t)
	_, err := lock(0).Acquire(t.Context())
	require.ErrorIs(t, err, relock.ErrQuorum)
}
