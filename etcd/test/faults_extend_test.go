package test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
)

// An Extend beyond the TTL moves the key to a separate lease, whatever happens
// to its answer.
func TestLongExtend(t *testing.T) {
	t.Parallel()
	const long = time.Minute
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		admin, actions := c.client(t), []action{pass, refuse, dropAnswer, silence, double}
		var holds []relock.Hold
		for _, a := range actions {
			f := newFaults()
			hold := lock(t, newLocker(t, c.faulty(t, f), append(opts, etcdlock.WithTTL(brief))...), fmt.Sprint("key", a))
			f.on("Txn", 1, a)
			err := hold.Extend(limited(t), long)
			if a == pass || a == double {
				require.NoError(t, err)
			}
			if err != nil {
				require.True(t, relock.IsRetryableErr(err), "%v", err)
				require.NoError(t, hold.Err())
				require.NoError(t, hold.Extend(limited(t), long), "%v", a)
			}
			require.Greater(t, time.Until(hold.ValidUntil()), long/2)
			holds = append(holds, hold)
		}
		time.Sleep(brief)
		for _, hold := range holds {
			require.NoError(t, hold.Err())
			require.NoError(t, hold.Extend(limited(t), brief))
			unlock(t, hold)
			noKeys(t, admin, hold.Key())
		}
		soon(t, "only the leases of the Lockers are left", func() bool { return countLeases(t, admin) == len(actions) })
	})
}

// A late Extend does not move a key that was moved or written since.
func TestLateExtend(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	f := newFaults()
	l, admin := newLocker(t, c.faulty(t, f), etcdlock.WithTTL(brief)), c.client(t)
	hold := lock(t, l, "key")
	late := f.on("Txn", 1, delay)
	require.Error(t, hold.Extend(limited(t), 2*brief))
	require.NoError(t, hold.Extend(limited(t), brief+time.Second))
	before, err := admin.Get(limited(t), "relock/lock/key/")
	require.NoError(t, err)
	f.letGo(late)
	after, err := admin.Get(limited(t), "relock/lock/key/")
	require.NoError(t, err)
	require.Equal(t, before.Kvs[0].Lease, after.Kvs[0].Lease)
	require.Equal(t, hold.Fence(), after.Kvs[0].CreateRevision)
	f.audited(t)
	require.NoError(t, hold.Err())
	unlock(t, hold)
}

// A late Extend does not change the next hold, whose key may have the same
// name.
func TestLateExtendLeavesTheNextHoldAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		f := newFaults()
		l, admin := newLocker(t, c.faulty(t, f), opts...), c.client(t)
		hold := lock(t, l, "key")
		late := f.on("Txn", 1, delay)
		require.Error(t, hold.Extend(limited(t), 3*lease))
		unlock(t, hold)
		if isFair(opts) {
			requireNumbersAreBack(t, l, admin, "key")
		}
		next := lock(t, l, "key")
		before, err := admin.Get(limited(t), keyOfHold(t, admin, next))
		require.NoError(t, err)
		f.letGo(late)
		after, err := admin.Get(limited(t), keyOfHold(t, admin, next))
		require.NoError(t, err)
		require.Equal(t, before.Kvs, after.Kvs)
		unlock(t, next)
	})
}

// While it is unknown to which lease the key was moved, the hold ends with
// either, and the key is deleted.
func TestNewLeaseEndsWhileAMoveIsIndeterminate(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		f := newFaults()
		l, admin := newLocker(t, c.faulty(t, f), append(opts, etcdlock.WithTTL(brief))...), c.client(t)
		hold, other := lock(t, l, "key"), lock(t, l, "other")
		f.on("Txn", 1, refuse)
		require.Error(t, hold.Extend(limited(t), brief+time.Second))
		revokeEmpty(t, admin)
		<-hold.Context().Done()
		require.ErrorIs(t, hold.Err(), relock.ErrLockLost)
		noKeys(t, admin, "key")
		require.NoError(t, other.Err(), "the lease that the key was attached to stays")
		unlock(t, other)
		require.NoError(t, l.Close())
	})
}

// A key that is deleted while a move is indeterminate is found missing by the
// next renewal, as others are.
func TestDeletedKeyIsFoundLostWhileAMoveIsIndeterminate(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		f := newFaults()
		l, admin := newLocker(t, c.faulty(t, f), append(opts, etcdlock.WithTTL(brief))...), c.client(t)
		hold := lock(t, l, "key")
		f.on("Txn", 1, silence)
		require.Error(t, hold.Extend(limited(t), brief+time.Second))
		time.Sleep(brief + 2*time.Second) // an indeterminate move alone loses no hold
		require.NoError(t, hold.Err())
		_, err := admin.Delete(limited(t), keysOf(t, admin, "key")[0])
		require.NoError(t, err)
		foundLost(t, hold, brief+time.Second)
	})
}

// A hold of a long lease misses its key as soon as any other does.
func TestDeletedKeyAfterALongExtendIsFoundLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		l, admin := newLocker(t, c.client(t), append(opts, etcdlock.WithTTL(brief))...), c.client(t)
		hold := lock(t, l, "key")
		for _, d := range []time.Duration{time.Hour, 2 * time.Hour} {
			require.NoError(t, hold.Extend(limited(t), d))
		}
		_, err := admin.Delete(limited(t), keysOf(t, admin, "key")[0])
		require.NoError(t, err)
		foundLost(t, hold, brief)
	})
}

// Close revokes all leases, even if the server fails or does not answer the
// first request.
func TestCloseGivesAllLeasesBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	admin := c.client(t)
	for _, a := range []action{refuse, dropAnswer, silence} {
		f := newFaults()
		l := newLocker(t, c.faulty(t, f))
		for _, key := range []string{"a", "b", "c"} {
			require.NoError(t, lock(t, l, key).Extend(limited(t), time.Hour))
		}
		f.on("LeaseRevoke", 1, a)
		require.NoError(t, l.Close())
		require.Empty(t, keys(t, admin))
		require.Zero(t, countLeases(t, admin))
	}
}

// A hold that is unlocked without a context ends all the same.
func TestUnlockWithoutAContext(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	l := newLocker(t, c.client(t))
	hold := lock(t, l, "key")
	require.NoError(t, hold.Unlock(nil)) //nolint:staticcheck // the mistake is meant
	require.ErrorIs(t, hold.Err(), relock.ErrNotHeld)
	require.Empty(t, keys(t, c.client(t)))
}

// A lease that is granted during Close is revoked, though it belongs to no
// hold.
func TestCloseDuringALongExtend(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	f := newFaults()
	l, admin := newLocker(t, c.faulty(t, f)), c.client(t)
	hold := lock(t, l, "key")
	late := f.on("LeaseGrant", 1, answerLate)
	done := make(chan error, 1)
	go func() { done <- hold.Extend(limited(t), time.Hour) }()
	soon(t, "the lease is granted", func() bool { return countLeases(t, admin) == 2 })
	require.NoError(t, l.Close())
	f.letGo(late)
	require.ErrorIs(t, <-done, relock.ErrClosed)
	require.Zero(t, countLeases(t, admin))
}

func countLeases(t testing.TB, client *clientv3.Client) int {
	t.Helper()
	leases, err := client.Leases(limited(t))
	require.NoError(t, err)
	return len(leases.Leases)
}

// revokeEmpty ends the leases under which no key stands.
func revokeEmpty(t testing.TB, client *clientv3.Client) {
	t.Helper()
	leases, err := client.Leases(limited(t))
	require.NoError(t, err)
	for _, lease := range leases.Leases {
		of, err := client.TimeToLive(limited(t), lease.ID, clientv3.WithAttachedKeys())
		require.NoError(t, err)
		if len(of.Keys) == 0 {
			_, err = client.Revoke(limited(t), lease.ID)
			require.NoError(t, err)
		}
	}
}

// The hold of this test has moved to a separate lease, and was lost with it. A
// late request that creates its key is kept out, or its key is deleted.
func TestLateRequestAfterTheLossOfAMovedHold(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		admin, f := c.client(t), newFaults()
		l := newLocker(t, c.faulty(t, f), append(opts, etcdlock.WithTTL(brief))...)
		unlock(t, lock(t, l, "warm"))
		remove := func(key *mvccpb.KeyValue) {
			_, err := admin.Delete(limited(t), string(key.Key))
			require.NoError(t, err)
		}
		for name, end := range map[string]func(private clientv3.LeaseID, key *mvccpb.KeyValue){
			"lease revoked": func(private clientv3.LeaseID, _ *mvccpb.KeyValue) {
				_, err := admin.Revoke(limited(t), private)
				require.NoError(t, err)
			},
			"key deleted": func(_ clientv3.LeaseID, key *mvccpb.KeyValue) { remove(key) },
			"key deleted, and made again": func(_ clientv3.LeaseID, key *mvccpb.KeyValue) {
				remove(key)
				// as a late copy
				_, err := admin.Put(limited(t), string(key.Key), string(key.Value), clientv3.WithLease(clientv3.LeaseID(key.Lease)))
				require.NoError(t, err)
			},
		} {
			t.Run(name, func(t *testing.T) {
				late := f.on("Txn", 1, delay)
				hold := lock(t, l, "key") // by a second copy
				key := onlyKey(t, admin)
				require.NoError(t, hold.Extend(limited(t), brief+time.Second))
				private := clientv3.LeaseID(onlyKey(t, admin).Lease)
				require.NotEqual(t, clientv3.LeaseID(key.Lease), private)
				cancelled := countCancelled(t, admin)
				end(private, key)
				<-hold.Context().Done()
				soon(t, "late requests are kept out", func() bool { return countCancelled(t, admin) > cancelled })
				require.Empty(t, keysOf(t, admin, "key"))
				f.letGo(late)
				require.Empty(t, keysOf(t, admin, "key"))
			})
		}
	})
}

func onlyKey(t testing.TB, client *clientv3.Client) *mvccpb.KeyValue {
	t.Helper()
	resp, err := client.Get(limited(t), "relock/lock/key/", clientv3.WithPrefix())
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1)
	return resp.Kvs[0]
}
