package test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/etcd/test/internal/member"
)

// Three operations a transaction are enough for every request of a lock.
func TestThreeOperationsATransaction(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, func(config *member.Config) { config.MaxTxnOps = 3 })
	admin := c.client(t)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		f := newFaults()
		l, other := newLocker(t, c.faulty(t, f), opts...), newLocker(t, c.client(t), opts...)
		hold := lock(t, l, "key")
		done := waiter(limited(t), other, "key")
		soon(t, "it waits", func() bool { return f.count("Txn") > 0 && (!isFair(opts) || len(keysOf(t, admin, "key")) == 2) })
		require.NoError(t, hold.Extend(limited(t), time.Hour))
		unlock(t, hold)
		r := await(t, done)
		require.NoError(t, r.err)
		unlock(t, r.hold)
		f.on("Txn", 1, dropAnswer)
		unlock(t, lock(t, l, "key")) // with a key that keeps late requests out
		f.clear()
		f.on("Txn", 1, dropAnswer)
		_, err := l.TryLock(limited(t), "key")
		require.Error(t, err)
		f.clear()
		noKeys(t, admin, "key")
		require.NoError(t, l.Close())
		require.Empty(t, keys(t, admin))
	})
}
