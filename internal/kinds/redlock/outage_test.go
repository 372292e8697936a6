package redlock_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

const unserved = "relock: no usable server for waiting calls"

// A RedLock over a server and its replicas is never granted. The error does not
// blame others, but names the replicas and their master.
func TestRedLockOverAMasterAndItsReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.StartTCP(t, "--repl-diskless-sync-delay", "0")
	servers := []*redistest.Server{master, redistest.StartTCP(t), redistest.StartTCP(t)}
	b := locktest.NewRedBench(t, servers)
	for _, replica := range servers[1:] {
		replica.Follow(t, master)
	}
	for _, s := range servers {
		locktest.AwaitUp(t, s)
	}
	testkit.Eventually(t, testkit.Patience,
		func() bool { return master.Info(t, "replication", "connected_slaves") == 2 }, "both replicate")
	role := "it is a replica of " + master.Address
	for n := range 20 {
		err := relock.NewRedLock(fmt.Sprint("k", n), b.Clients,
			relock.WithMaxLease(locktest.RedLease), relock.WithWatchdog(locktest.RedLease)).TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrQuorum)
		require.NotErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		require.ErrorContains(t, err, role)
		require.True(t, relock.IsRetryableErr(err), "a failover may be under way")
	}
	key := locktest.KeyOf(b.Clients[0], "k")
	master.Do(t, "SET", key, "relock/1|p|theirs|c9|host|1|label|1", "PX", 60_000)
	testkit.Eventually(t, testkit.Patience, func() bool {
		return servers[1].Do(t, "EXISTS", key) == int64(1) && servers[2].Do(t, "EXISTS", key) == int64(1)
	}, "the replicas have it")
	err := b.Lock(b.Clients).TryLock(t.Context())
	require.ErrorIs(t, err, relock.ErrQuorum)
	require.ErrorContains(t, err, "READONLY")
	require.ErrorContains(t, err, role)
}

// Nodes that keep a waiting call from a quorum are logged, each by its client.
// A minority that is away is not.
func TestRedLockWithoutAQuorumIsLogged(t *testing.T) {
	var logs [3]locktest.LogBuffer
	b := newRed(t, 3)
	for i, p := range b.Proxies {
		b.Clients[i] = b.Client(locktest.ServerOf(p), logs[i].Option())
		require.NoError(t, b.Clients[i].Ping(t.Context()))
	}
	b.Proxies[0].Refuse()
	held := locktest.Take(t, b.Lock(b.Others()).Acquire)
	ctx, cancel := context.WithTimeout(t.Context(), locktest.RedLease)
	defer cancel()
	require.ErrorIs(t, b.Lock(b.Clients, relock.WithBlock()).Lock(ctx), context.DeadlineExceeded)
	require.NoError(t, held.Unlock(t.Context()))
	require.Zero(t, logs[0].Lines(unserved), logs[0].String())

	b.Proxies[1].Refuse()
	call := testkit.Async(t, func() error {
		return b.Lock(b.Clients, relock.WithBlock()).Do(locktest.Unbounded(t), func(context.Context) error { return nil })
	})
	for i := range 2 {
		testkit.Eventually(t, testkit.Patience, func() bool { return logs[i].Lines("level=WARN", unserved) == 1 },
			"each logs its node")
		require.Equal(t, 1, logs[i].Lines(unserved, " waiting=1 ", "connection refused"), logs[i].String())
	}
	b.Proxies[1].Accept()
	require.NoError(t, testkit.ResultWithin(t, call, testkit.Patience))
	testkit.Eventually(t, testkit.Patience,
		func() bool { return logs[1].Lines("level=INFO", "have a usable server again") == 1 }, logs[1].String())
	testkit.Eventually(t, testkit.Patience,
		func() bool { return logs[0].Lines("level=INFO", "no call waits for the server") == 1 }, logs[0].String())
	require.Zero(t, logs[2].Lines(unserved), logs[2].String())
}
