package test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A change of the leader costs neither holds nor waits.
func TestLeaderChanges(t *testing.T) {
	t.Parallel()
	together(t, modes, func(t *testing.T, opts []etcdlock.Option) {
		c := newCluster(t, 3, calm)
		opts = append(opts, etcdlock.WithTTL(brief))
		l, other := newLocker(t, c.client(t), opts...), newLocker(t, c.client(t), opts...)
		hold := lock(t, l, "key")
		done := waiter(limited(t), other, "key")
		for range 3 {
			require.NoError(t, c.moveLeader(t, patience))
			time.Sleep(brief / 2)
			require.NoError(t, hold.Err())
			_, err := other.TryLock(limited(t), "key")
			require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		}
		unlock(t, hold)
		r := await(t, done)
		require.NoError(t, r.err)
		unlock(t, r.hold)
		noKeys(t, c.client(t), "key")
	})
}

func TestLeaderDies(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, calm)
	l, other := newLocker(t, c.client(t), etcdlock.WithFair()), newLocker(t, c.client(t), etcdlock.WithFair())
	hold := lock(t, l, "key")
	done := waiter(limited(t), other, "key")
	c.crash(c.leader(t))
	ended := time.Now()
	soon(t, "the hold is valid for longer than the lease at the dead leader", func() bool {
		require.NoError(t, hold.Err())
		return time.Since(ended) > lease+time.Second
	})
	_ = hold.Unlock(limited(t))
	r := await(t, done)
	require.NoError(t, r.err)
	unlock(t, r.hold)
}

// Compacted revisions do not disturb a waiter.
func TestCompactionDuringAWait(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		p := newProxy(t, c.endpoints[0])
		admin := c.client(t)
		hold := lock(t, newLocker(t, c.client(t), opts...), "key")
		done := waiter(limited(t), newLocker(t, c.client(t, p.address), opts...), "key")
		time.Sleep(200 * time.Millisecond) // the watch is there
		p.silence()                        // and does not report the unlock
		unlock(t, hold)
		var rev int64
		for range 10 {
			resp, err := admin.Put(limited(t), "other", "x")
			require.NoError(t, err)
			rev = resp.Header.Revision
		}
		_, err := admin.Compact(limited(t), rev)
		require.NoError(t, err)
		p.cut() // the watch resumes from a compacted revision
		r := await(t, done)
		require.NoError(t, r.err)
		unlock(t, r.hold)
	})
}

// A fair wait whose key is deleted, or whose lease has ended, returns
// immediately with the reason. An unfair one has no key, and continues.
func TestPlaceLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	admin := c.client(t)
	t.Run("deleted", func(t *testing.T) {
		hold := lock(t, newLocker(t, c.client(t), etcdlock.WithFair()), "key")
		done := waiter(limited(t), newLocker(t, c.client(t), etcdlock.WithFair()), "key")
		soon(t, "it waits", func() bool { return len(keysOf(t, admin, "key")) == 2 })
		resp, err := admin.Get(limited(t), "relock/lock/key/", clientv3.WithLastCreate()...)
		require.NoError(t, err)
		_, err = admin.Delete(limited(t), string(resp.Kvs[0].Key))
		require.NoError(t, err)
		s := testkit.NewStopwatch(t)
		r := await(t, done)
		require.ErrorIs(t, r.err, etcdlock.ErrPlaceLost)
		require.ErrorIs(t, r.err, relock.ErrLockAcquiredByOthers)
		require.True(t, relock.IsRetryableErr(r.err))
		s.Within(500 * time.Millisecond)
		unlock(t, hold)
	})
	t.Run("lease ended", func(t *testing.T) {
		// The lease is only the waiter's, and is revoked externally: the watch
		// of the waiter's key reports it.
		hold := lock(t, newLocker(t, c.client(t), etcdlock.WithFair(), etcdlock.WithTTL(time.Minute)), "key")
		done := waiter(limited(t), newLocker(t, c.client(t), etcdlock.WithFair(), etcdlock.WithTTL(time.Minute)), "key")
		soon(t, "it waits", func() bool { return len(keysOf(t, admin, "key")) == 2 })
		resp, err := admin.Get(limited(t), "relock/lock/key/", clientv3.WithLastCreate()...)
		require.NoError(t, err)
		_, err = admin.Revoke(limited(t), clientv3.LeaseID(resp.Kvs[0].Lease))
		require.NoError(t, err)
		s := testkit.NewStopwatch(t)
		require.ErrorIs(t, await(t, done).err, etcdlock.ErrPlaceLost)
		s.Within(500 * time.Millisecond)
		unlock(t, hold)
	})
	t.Run("unfair", func(t *testing.T) {
		hold := lock(t, newLocker(t, c.client(t), etcdlock.WithTTL(time.Minute)), "key")
		f := newFaults()
		other := newLocker(t, c.faulty(t, f), etcdlock.WithTTL(brief))
		unlock(t, lock(t, other, "warm"))
		done := waiter(limited(t), other, "key")
		f.on("LeaseKeepAlive", 0, refuse)
		time.Sleep(brief + time.Second) // its lease has expired, and another one is needed
		unlock(t, hold)
		f.clear()
		r := await(t, done)
		require.NoError(t, r.err)
		unlock(t, r.hold)
	})
}

// A blocking Lock outlasts an unreachable server. The error of TryLock is
// retryable.
func TestLockRidesOutAnOutage(t *testing.T) {
	t.Parallel()
	inModesTogether(t, func(t *testing.T, c *cluster, opts ...etcdlock.Option) {
		f := newFaults()
		l := newLocker(t, c.faulty(t, f), append(opts, etcdlock.WithTTL(brief))...)
		for _, method := range []string{"LeaseGrant", "Txn", "LeaseKeepAlive"} {
			f.on(method, 0, refuse)
		}
		_, err := l.TryLock(limited(t), "key")
		require.Error(t, err)
		require.True(t, relock.IsRetryableErr(err), "%v", err)
		short, cancel := context.WithTimeout(context.Background(), brief/2) // a request has a third
		defer cancel()
		_, err = l.Lock(short, "key")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, errors.Is(err, os.ErrDeadlineExceeded) || strings.Contains(err.Error(), "connection was cut"),
			"the last reason: %v", err)
		done := waiter(limited(t), l, "key")
		time.Sleep(2 * time.Second)
		f.clear()
		r := await(t, done)
		require.NoError(t, r.err)
		unlock(t, r.hold)
		noKeys(t, c.client(t), "key")
	})
}

// Without a leader nothing is granted, and no hold is valid for longer than its
// lease. Calls continue when there is a leader again.
func TestNoLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	p := newProxy(t, c.endpoints[0])
	l := newLocker(t, c.client(t, p.address), etcdlock.WithTTL(brief))
	hold := lock(t, l, "key")
	c.stop(1)
	c.crash(2)
	<-hold.Context().Done()
	require.ErrorIs(t, hold.Err(), relock.ErrLockLost)
	_, err := l.TryLock(limited(t), "key")
	require.Error(t, err)
	require.True(t, relock.IsRetryableErr(err), "%v", err)

	got := waiter(limited(t), l, "key")
	c.restart(t, 1)
	r := await(t, got)
	require.NoError(t, r.err, "a Lock outlasts a temporary outage")
	require.Greater(t, r.hold.Fence(), hold.Fence())
	unlock(t, r.hold)
}

// One unlock wakes one waiter of each process, not all.
func TestNoHerd(t *testing.T) {
	c := newCluster(t, 1)
	admin := c.client(t)
	const processes, goroutines = 3, 20
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		hold := lock(t, newLocker(t, c.client(t), append(opts, etcdlock.WithTTL(time.Minute))...), "key")
		var group sync.WaitGroup
		var inside atomic.Int32
		all := make([]*faults, processes)
		release := make(chan struct{})
		for i := range all {
			all[i] = newFaults()
			l := newLocker(t, c.faulty(t, all[i]), append(opts, etcdlock.WithTTL(time.Minute))...)
			for range goroutines {
				group.Go(func() {
					hold, err := l.Lock(limited(t), "key")
					if err != nil {
						t.Error(err)
						return
					}
					inside.Add(1)
					<-release
					if err := hold.Unlock(context.Background()); err != nil {
						t.Error(err)
					}
				})
			}
		}
		requests := func() (sum int) {
			for _, f := range all {
				sum += f.count("Txn") + f.count("Range")
			}
			return sum
		}
		settled := func() int {
			n := requests()
			for {
				time.Sleep(300 * time.Millisecond)
				_ = keys(t, admin) // a slow server takes longer for it too
				if m := requests(); m == n {
					return n
				}
				n = requests()
			}
		}
		before := settled()
		unlock(t, hold)
		soon(t, "a waiter holds the lock", func() bool { return inside.Load() == 1 })
		cost := settled() - before
		t.Logf("one unlock costs %d requests of %d waiters in %d processes", cost, processes*goroutines, processes)
		require.LessOrEqual(t, cost, 2*processes)
		close(release)
		group.Wait()
	})
}
