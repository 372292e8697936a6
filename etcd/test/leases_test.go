package test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
)

// lockMany locks so many keys, 32 at a time.
func lockMany(t testing.TB, l *etcdlock.Locker, n int) []relock.Hold {
	t.Helper()
	holds := make([]relock.Hold, n)
	onEach(n, func(i int) {
		hold, err := l.Lock(limited(t), fmt.Sprint("many", i))
		assert.NoError(t, err)
		holds[i] = hold
	})
	require.False(t, t.Failed())
	return holds
}

func unlockMany(t testing.TB, holds []relock.Hold) {
	t.Helper()
	onEach(len(holds), func(i int) { assert.NoError(t, holds[i].Unlock(t.Context())) })
	require.False(t, t.Failed())
}

// onEach calls f for 0 to n-1 on 32 goroutines.
func onEach(n int, f func(i int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	group.Wait()
}

// attached returns the keys of each lease of the server.
func attached(t testing.TB, admin *clientv3.Client) map[clientv3.LeaseID][]string {
	t.Helper()
	leases, err := admin.Leases(limited(t))
	require.NoError(t, err)
	all := map[clientv3.LeaseID][]string{}
	for _, one := range leases.Leases {
		resp, err := admin.TimeToLive(limited(t), one.ID, clientv3.WithAttachedKeys())
		require.NoError(t, err)
		all[one.ID] = nil
		for _, key := range resp.Keys {
			all[one.ID] = append(all[one.ID], string(key))
		}
	}
	return all
}

// A server that authenticates users checks all keys of a lease when another one
// is put under it. So a Locker with many holds has several leases. A lease ends
// with its last hold, if another one is in use.
func TestManyHoldsHaveSeveralLeases(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		c.enableAuth(t)
		root, f := c.as(t, "root", newFaults()), newFaults()
		l := newLocker(t, c.as(t, "locker", f), append(opts, etcdlock.WithTTL(brief))...)
		first := lock(t, l, "first")
		holds := lockMany(t, l, 2*most+most/2)
		leases := attached(t, root)
		require.Len(t, leases, 3)
		for _, keys := range leases {
			require.LessOrEqual(t, len(keys), most)
		}
		f.audited(t)
		for _, hold := range append(holds, first) {
			require.NoError(t, hold.Err())
		}
		unlockMany(t, holds)
		soon(t, "the lease of the first hold and the newest one are left", func() bool { return len(attached(t, root)) == 2 })
		require.NoError(t, first.Err())
		unlock(t, first)
		soon(t, "the newest lease is left", func() bool { return len(attached(t, root)) == 1 })
		unlock(t, lock(t, l, "first"))
		require.NoError(t, l.Close())
		require.Empty(t, attached(t, root))
	})
}

// A lease that was full is used again: another one costs the next call a
// request. Claims stay with one lease, so that renewals find the others unused.
func TestFullLeaseIsUsedAgain(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		f := newFaults()
		l := newLocker(t, c.faulty(t, f), append(opts, etcdlock.WithTTL(time.Hour))...)
		for range 3 {
			unlockMany(t, lockMany(t, l, most+10))
		}
		require.Equal(t, 2, f.count("LeaseGrant"))
		lockMany(t, l, 6)
		var inUse int
		for _, keys := range attached(t, c.client(t)) {
			if len(keys) > 0 {
				inUse++
			}
		}
		require.Equal(t, 1, inUse)
	})
}

// A lease that ends takes only its own holds with it.
func TestLossOfOneOfSeveralLeases(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		admin, f := c.client(t), newFaults()
		l := newLocker(t, c.faulty(t, f), append(opts, etcdlock.WithTTL(brief))...)
		holds := map[string]relock.Hold{}
		for _, hold := range lockMany(t, l, most+most/2) {
			holds[hold.Key()] = hold
		}
		lost := 0
		for id, keys := range attached(t, admin) {
			if len(keys) == most {
				require.True(t, revocations{}.revoke(t, admin, id))
				lost = len(keys)
			}
		}
		require.Equal(t, most, lost)
		ended := func() (n int) {
			for _, hold := range holds {
				if hold.Err() != nil {
					n++
				}
			}
			return n
		}
		soon(t, "its holds are lost", func() bool { return ended() == lost })
		f.audited(t)
		require.Equal(t, lost, ended())
		other := newLocker(t, c.client(t), opts...)
		for key, hold := range holds {
			if hold.Err() == nil {
				_, err := other.TryLock(limited(t), key)
				require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
				unlock(t, hold)
				continue
			}
			require.ErrorIs(t, hold.Unlock(t.Context()), relock.ErrLockLost)
			unlock(t, lock(t, other, key))
		}
	})
}
