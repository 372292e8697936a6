package test

import (
	"context"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
)

// keyOfHold is where etcd has a hold.
func keyOfHold(t testing.TB, client *clientv3.Client, hold relock.Hold) string {
	t.Helper()
	resp, err := client.Get(limited(t), "relock/lock/"+hold.Key()+"/",
		clientv3.WithPrefix(), clientv3.WithMinCreateRev(hold.Fence()), clientv3.WithMaxCreateRev(hold.Fence()))
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1)
	return string(resp.Kvs[0].Key)
}

// everMade are the keys of a fair lock that were ever there, at least one.
func everMade(t testing.TB, client *clientv3.Client, name string) map[string]bool {
	t.Helper()
	ctx, cancel := context.WithCancel(limited(t))
	defer cancel()
	now, err := client.Get(ctx, "x")
	require.NoError(t, err)
	made := map[string]bool{}
	events := client.Watch(ctx, "relock/lock/"+name+"/",
		clientv3.WithPrefix(), clientv3.WithRev(1), clientv3.WithFilterDelete(), clientv3.WithProgressNotify())
	for {
		require.NoError(t, client.RequestProgress(ctx))
		r := <-events
		require.NoError(t, r.Err())
		for _, e := range r.Events {
			made[string(e.Kv.Key)] = true
		}
		if r.IsProgressNotify() && r.Header.Revision >= now.Header.Revision {
			return made
		}
	}
}

// requireNumbersAreBack waits until the next key of a fair lock has the first
// number again.
func requireNumbersAreBack(t testing.TB, l *etcdlock.Locker, client *clientv3.Client, name string) {
	t.Helper()
	soon(t, "all numbers were released", func() bool {
		hold := lock(t, l, name)
		defer unlock(t, hold)
		return strings.HasSuffix(keyOfHold(t, client, hold), "-0")
	})
}

// requireNoSlots checks that a closed Locker keeps no number of any lock, once
// its last claim has ended.
func requireNoSlots(t testing.TB, l *etcdlock.Locker) {
	t.Helper()
	require.Zero(t, reflect.ValueOf(l).Elem().FieldByName("slots").Elem().FieldByName("locks").Len(),
		"numbers that were not released")
}

// However many fair holds there were, their keys have few names. etcd reads
// deleted keys too whenever a folder is read, until it is compacted.
func TestFairKeysAreFew(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	admin := c.client(t)
	l := newLocker(t, c.client(t), etcdlock.WithFair())
	for range 100 {
		other := lock(t, l, "other")
		hold := lock(t, l, "alone")
		_, err := l.TryLock(limited(t), "alone")
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		unlock(t, hold)
		unlock(t, other)
	}
	require.Len(t, everMade(t, admin, "alone"), 1)
	require.Len(t, everMade(t, admin, "other"), 1)
	crowd(t, l)
	noKeys(t, admin, "crowd")
	requireNumbersAreBack(t, l, admin, "crowd")
	require.NoError(t, l.Close())
	requireNoSlots(t, l)
}

// crowd are many calls for one lock, some of which give up.
func crowd(t testing.TB, l *etcdlock.Locker) {
	t.Helper()
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			for n := range 20 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(n%4+1)*5*time.Millisecond)
				if hold, err := l.Lock(ctx, "crowd"); err == nil {
					_ = hold.Unlock(ctx)
				}
				cancel()
			}
		})
	}
	group.Wait()
}

// A key that may still be at the server when its number is released is not used
// again. One that is deleted is used again, even if late requests might create
// it: they are kept out.
func TestKeysThatMayBeThereAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	admin := c.client(t)
	type ending struct {
		key  string
		end  func(t *testing.T, l *etcdlock.Locker, f *faults, key string)
		same bool
	}
	together(t, map[string]ending{
		"late acquire": {"late-acquire", func(t *testing.T, l *etcdlock.Locker, f *faults, key string) {
			late := f.on("Txn", 1, delay)
			_, err := l.TryLock(limited(t), key)
			require.Error(t, err)
			t.Cleanup(func() { f.letGo(late); noKeys(t, admin, key) })
		}, true},
		"queue entry deleted": {"queue-entry-deleted", func(t *testing.T, l *etcdlock.Locker, _ *faults, key string) {
			hold := lock(t, newLocker(t, c.client(t), etcdlock.WithFair()), key)
			done := waiter(limited(t), l, key)
			soon(t, "it waits", func() bool { return len(keysOf(t, admin, key)) == 2 })
			_, err := admin.Delete(limited(t), newestKey(t, admin, key))
			require.NoError(t, err)
			require.ErrorIs(t, await(t, done).err, etcdlock.ErrPlaceLost)
			unlock(t, hold)
		}, true},
		"lease lost while it waits": {"lease-lost-while-it-waits", func(
			t *testing.T, l *etcdlock.Locker, f *faults, key string,
		) {
			hold := lock(t, newLocker(t, c.client(t), etcdlock.WithFair()), key)
			done := waiter(limited(t), l, key)
			soon(t, "it waits", func() bool { return len(keysOf(t, admin, key)) == 2 })
			f.on("LeaseKeepAlive", 0, refuse)
			f.on("Txn", 0, refuse)
			f.on("LeaseRevoke", 0, refuse)
			require.ErrorIs(t, await(t, done).err, etcdlock.ErrPlaceLost)
			f.clear()
			unlock(t, hold)
		}, false},
		"lease lost": {"lease-lost", func(t *testing.T, l *etcdlock.Locker, f *faults, key string) {
			hold := lock(t, l, key)
			f.on("LeaseKeepAlive", 0, refuse)
			<-hold.Context().Done()
			f.clear()
			require.ErrorIs(t, hold.Unlock(context.Background()), relock.ErrLockLost)
		}, false},
		"late release": {"late-release", func(t *testing.T, l *etcdlock.Locker, f *faults, key string) {
			hold := lock(t, l, key)
			f.on("Txn", 0, refuse)
			f.on("LeaseKeepAlive", 0, refuse)
			require.ErrorIs(t, hold.Unlock(context.Background()), relock.ErrUnconfirmed)
			noKeys(t, admin, key)
			f.clear()
		}, false},
	}, func(t *testing.T, e ending) {
		f := newFaults()
		l := newLocker(t, c.faulty(t, f), etcdlock.WithFair(), etcdlock.WithTTL(brief))
		first := lock(t, l, e.key)
		was := keyOfHold(t, admin, first)
		unlock(t, first)
		e.end(t, l, f, e.key)
		requireNumbersAreBack(t, l, admin, e.key)
		next := lock(t, l, e.key)
		is := keyOfHold(t, admin, next)
		require.True(t, strings.HasSuffix(was, "-0") && strings.HasSuffix(is, "-0"), "%s %s", was, is)
		require.Equal(t, e.same, was == is, "%s %s", was, is)
		unlock(t, next)
	})
}

func newestKey(t testing.TB, client *clientv3.Client, name string) string {
	t.Helper()
	resp, err := client.Get(limited(t), "relock/lock/"+name+"/", clientv3.WithLastCreate()...)
	require.NoError(t, err)
	require.Len(t, resp.Kvs, 1)
	return string(resp.Kvs[0].Key)
}

// A key that no call knows of blocks one attempt at most. A copy of a request
// that package clientv3 has sent silently can create one.
func TestKeyOfAnUnknownCopyIsCleared(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	admin := c.client(t)
	for name, take := range map[string]func(t *testing.T, l *etcdlock.Locker) (relock.Hold, error){
		"Lock": func(t *testing.T, l *etcdlock.Locker) (relock.Hold, error) { return l.Lock(limited(t), "Lock") },
		"TryLock": func(t *testing.T, l *etcdlock.Locker) (relock.Hold, error) {
			_, err := l.TryLock(limited(t), "TryLock")
			require.True(t, relock.IsRetryableErr(err), "%v", err)
			noKeys(t, admin, "TryLock")
			return l.TryLock(limited(t), "TryLock")
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLocker(t, c.client(t), etcdlock.WithFair())
			hold := lock(t, l, name)
			resp, err := admin.Get(limited(t), keyOfHold(t, admin, hold))
			require.NoError(t, err)
			old := resp.Kvs[0]
			unlock(t, hold)
			_, err = admin.Put(limited(t), string(old.Key), string(old.Value), clientv3.WithLease(clientv3.LeaseID(old.Lease)))
			require.NoError(t, err)
			hold, err = take(t, l)
			require.NoError(t, err)
			require.NotEqual(t, string(old.Key), keyOfHold(t, admin, hold))
			unlock(t, hold)
		})
	}
}
