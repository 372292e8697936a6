package test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/etcd/test/internal/member"
	"github.com/relock-go/relock/internal/test/testkit"
)

// enableAuth makes users: root, "locker" who may use the default prefix, and
// "nobody".
func (c *cluster) enableAuth(t testing.TB) {
	t.Helper()
	ctx, admin := limited(t), c.client(t)
	must := func(_ any, err error) { t.Helper(); require.NoError(t, err) }
	must(admin.RoleAdd(ctx, "root"))
	must(admin.UserAdd(ctx, "root", "pass"))
	must(admin.UserGrantRole(ctx, "root", "root"))
	must(admin.RoleAdd(ctx, "locks"))
	must(admin.RoleGrantPermission(ctx, "locks", "relock/", clientv3.GetPrefixRangeEnd("relock/"),
		clientv3.PermissionType(clientv3.PermReadWrite)))
	must(admin.UserAdd(ctx, "locker", "pass"))
	must(admin.UserGrantRole(ctx, "locker", "locks"))
	must(admin.UserAdd(ctx, "nobody", "pass"))
	must(admin.AuthEnable(ctx))
}

// as returns a client of a user, whose requests pass through the faults.
func (c *cluster) as(t testing.TB, user string, f *faults) *clientv3.Client {
	t.Helper()
	return c.clientWith(t, clientv3.Config{Username: user, Password: "pass", DialOptions: f.dial()})
}

// A user without permission gets an error, and does not wait. Permission for
// the prefix is enough for every call.
func TestPermissions(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		c.enableAuth(t)
		allowed := c.clientWith(t, clientv3.Config{Username: "locker", Password: "pass"})
		opts = append(opts[:len(opts):len(opts)], etcdlock.WithTTL(brief))
		l := newLocker(t, allowed, opts...)
		hold := lock(t, l, "key")
		done := waiter(limited(t), newLocker(t, allowed, opts...), "key")
		time.Sleep(brief + time.Second)
		require.NoError(t, hold.Err())
		unlock(t, hold)
		r := await(t, done)
		require.NoError(t, r.err)
		unlock(t, r.hold)
		denied := newLocker(t, c.clientWith(t, clientv3.Config{Username: "nobody", Password: "pass"}), opts...)
		s := testkit.NewStopwatch(t)
		_, err := denied.Lock(limited(t), "key")
		require.ErrorIs(t, err, relock.ErrDenied)
		s.Within(time.Second)
		require.False(t, relock.IsRetryableErr(err))
		_, err = denied.TryLock(limited(t), "key")
		require.ErrorIs(t, err, relock.ErrDenied)
		require.NoError(t, denied.Close())
		hold = lock(t, l, "key")
		_, err = newLocker(t, allowed, opts...).TryLock(limited(t), "key")
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		require.NoError(t, hold.Extend(limited(t), 3*brief))
		unlock(t, hold)
		require.NoError(t, l.Close())
	})
}

// etcd does not say which key a user may not use. The error names what a lock
// needs, and that is enough.
func TestDeniedKeyIsNamed(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.enableAuth(t)
	root := c.clientWith(t, clientv3.Config{Username: "root", Password: "pass"})
	grant := func(prefix string) {
		_, err := root.RoleGrantPermission(limited(t), "narrow", prefix, clientv3.GetPrefixRangeEnd(prefix),
			clientv3.PermissionType(clientv3.PermReadWrite))
		require.NoError(t, err)
	}
	_, err := root.RoleAdd(limited(t), "narrow")
	require.NoError(t, err)
	_, err = root.UserGrantRole(limited(t), "nobody", "narrow")
	require.NoError(t, err)
	grant("relock/lock/key/")
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		l := newLocker(t, c.as(t, "nobody", newFaults()), opts...)
		for _, call := range []func(context.Context, string) (relock.Hold, error){l.TryLock, l.Lock} {
			_, err := call(limited(t), "key")
			require.ErrorIs(t, err, relock.ErrDenied)
			require.ErrorContains(t, err, `"relock/lock/key/"`)
			require.ErrorContains(t, err, `"relock/cancel/"`)
		}
	})
	grant("relock/cancel/")
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		l := newLocker(t, c.as(t, "nobody", newFaults()), opts...)
		unlock(t, lock(t, l, "key"))
	})
}

// Tokens of users expire before the streams that were opened with them. A
// waiter is woken as soon as any other, and is not denied. An Extend is not
// denied either.
func TestTokensExpire(t *testing.T) {
	t.Parallel()
	const life = time.Second
	c := newCluster(t, 1, func(config *member.Config) { config.AuthTokenTTL = uint(life / time.Second) })
	c.enableAuth(t)
	together(t, modes, func(t *testing.T, opts []etcdlock.Option) {
		key := modeOf(opts)
		opts = append(opts, etcdlock.WithTTL(30*time.Second)) // renewals would keep the token alive
		f, other := newFaults(), newLocker(t, c.as(t, "locker", newFaults()), opts...)
		l := newLocker(t, c.as(t, "locker", f), opts...)
		for range 2 {
			hold := lock(t, other, key)
			done := waiter(limited(t), l, key)
			f.quiet(t, "Txn", 2*life) // a refused watch is requested again after shorter pauses
			s, began := testkit.NewStopwatch(t), time.Now()
			unlock(t, hold)
			r := await(t, done)
			require.NoError(t, r.err)
			s.Check(r.at.Sub(began), time.Second, "it had to poll")
			require.NoError(t, r.hold.Extend(limited(t), time.Second))
			unlock(t, r.hold)
			time.Sleep(3 * life)
		}
		hold := lock(t, l, key)
		require.NoError(t, hold.Extend(limited(t), time.Second), "over the stream of an expired token")
		unlock(t, hold)
	})
}

// A denied release returns immediately, and is retried until it is allowed
// again.
func TestUnlockIsDenied(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.enableAuth(t)
	root := c.clientWith(t, clientv3.Config{Username: "root", Password: "pass"})
	l := newLocker(t, c.as(t, "locker", newFaults()), etcdlock.WithTTL(30*time.Second))
	hold := lock(t, l, "key")
	_, err := root.UserRevokeRole(limited(t), "locker", "locks")
	require.NoError(t, err)
	s := testkit.NewStopwatch(t)
	err = hold.Unlock(context.Background())
	require.ErrorIs(t, err, relock.ErrUnconfirmed)
	require.ErrorIs(t, err, relock.ErrDenied)
	s.Within(time.Second)
	_, err = root.UserGrantRole(limited(t), "locker", "locks")
	require.NoError(t, err)
	noKeys(t, root, "key")
}
