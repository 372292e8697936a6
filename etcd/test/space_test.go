package test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
)

// A database without space is an outage; what is held is renewed, and unlocked.
func TestNoSpace(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		l, admin := newLocker(t, c.client(t), append(opts, etcdlock.WithTTL(brief))...), c.client(t)
		hold := lock(t, l, "key")
		fill(t, admin, etcdserverpb.AlarmRequest_ACTIVATE)
		_, err := l.TryLock(limited(t), "another")
		require.Error(t, err)
		require.True(t, relock.IsRetryableErr(err), "%v", err)
		time.Sleep(brief + time.Second)
		require.NoError(t, hold.Err())
		unlock(t, hold)
		done := waiter(limited(t), l, "another")
		fill(t, admin, etcdserverpb.AlarmRequest_DEACTIVATE)
		r := await(t, done)
		require.NoError(t, r.err)
		unlock(t, r.hold)
		require.Empty(t, keysOf(t, admin, "key"))
	})
}

// fill raises the alarm of a database without space, or takes it back.
func fill(t testing.TB, client *clientv3.Client, action etcdserverpb.AlarmRequest_AlarmAction) {
	t.Helper()
	alarm := &etcdserverpb.AlarmRequest{Action: action, Alarm: etcdserverpb.AlarmType_NOSPACE}
	_, err := etcdserverpb.NewMaintenanceClient(client.ActiveConnection()).Alarm(limited(t), alarm)
	require.NoError(t, err)
}

// A server without space returns that error also for the request that has
// filled it, though it was executed. A proxy may reject a request with the same
// code after its execution.
func TestExecutedThoughRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	for name, refused := range map[string]action{"no space": noSpace, "stream calmed down": calmed} {
		t.Run(name, func(t *testing.T) {
			inModes(t, func(t *testing.T, opts ...etcdlock.Option) { executedThoughRefused(t, c, refused, opts) })
		})
	}
}

func executedThoughRefused(t *testing.T, c *cluster, refused action, opts []etcdlock.Option) {
	admin, f := c.client(t), newFaults()
	l := newLocker(t, c.faulty(t, f), opts...)
	unlock(t, lock(t, l, "warm"))
	t.Run("TryLock leaves nothing", func(t *testing.T) {
		f.on("Txn", 1, refused)
		_, err := l.TryLock(limited(t), "tried")
		require.True(t, relock.IsRetryableErr(err), "%v", err)
		noKeys(t, admin, "tried")
		f.clear()
	})
	t.Run("Lock has the lock", func(t *testing.T) {
		f.on("Txn", 1, refused)
		unlock(t, lock(t, l, "key"))
		f.clear()
	})
	t.Run("Unlock has unlocked", func(t *testing.T) {
		hold := lock(t, l, "key")
		f.on("Txn", 1, refused)
		unlock(t, hold)
		f.clear()
	})
	t.Run("Extend leaves the hold as it is", func(t *testing.T) {
		hold := lock(t, l, "key")
		f.on("Txn", 1, refused)
		require.Error(t, hold.Extend(limited(t), 3*lease))
		f.clear()
		_, err := newLocker(t, c.client(t), opts...).TryLock(limited(t), "key")
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		require.NoError(t, hold.Extend(limited(t), 3*lease))
		require.NoError(t, hold.Err())
		unlock(t, hold)
	})
}

// A hold that had an indeterminate request is unlocked all the same. A late
// request is cleaned up once there is space for the key that keeps it out.
func TestIndeterminateUnlockWithoutSpace(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	admin := c.client(t)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		f := newFaults()
		l := newLocker(t, c.faulty(t, f), opts...)
		unlock(t, lock(t, l, "warm"))
		late := f.on("Txn", 1, delay)
		hold := lock(t, l, "key") // by a second copy
		fill(t, admin, etcdserverpb.AlarmRequest_ACTIVATE)
		unlock(t, hold)
		require.Empty(t, keysOf(t, admin, "key"))
		f.on("Txn", 0, refuse)
		sent := f.count("Txn")
		soon(t, "none of before is under way", func() bool { return f.count("Txn") > sent })
		fill(t, admin, etcdserverpb.AlarmRequest_DEACTIVATE)
		f.letGo(late)
		require.Len(t, keysOf(t, admin, "key"), 1)
		f.clear()
		noKeys(t, admin, "key")
		require.NoError(t, l.Close())
	})
}
