package test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
)

// Many calls are cancelled at any moment, some of them after the grant.
// They leave no key and no goroutine, and after Close no lease.
func TestManyCancels(t *testing.T) {
	t.Parallel()
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		t.Parallel()
		c := newCluster(t, 1)
		client := c.client(t)
		l := newLocker(t, client, opts...)
		unlock(t, lock(t, l, "key"))
		r := &room{}
		left := atomic.Int64{}
		left.Store(cycles(quietCycles)) // in each mode
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for n := left.Add(-1); n >= 0; n = left.Add(-1) {
					cancelled(t, l, r,
						[]time.Duration{time.Second, 20 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond}[n%4])
				}
			})
		}
		group.Wait()
		noKeys(t, client, "key") // cancelled by the hundred
		if isFair(opts) {
			requireNumbersAreBack(t, l, client, "key")
		}
		require.Positive(t, r.entries)
		require.Empty(t, r.mixUps, "two holds are valid together")
		t.Logf("%d of the calls had the lock", r.entries)
		t.Logf("%d claims were not answered in time, and are kept out", countCancelled(t, client))
		require.NoError(t, l.Close())
		require.Empty(t, keys(t, client))
		requireNoSlots(t, l)
		soon(t, "no lease is left; one that was just being granted expires", func() bool {
			leases, err := client.Leases(limited(t))
			require.NoError(t, err)
			return len(leases.Leases) == 0
		})
	})
}

// Each claim that is abandoned without an answer leaves a key for a while. When
// a lease is full of them, further claims use the next lease. The first one
// ends with its last hold.
func TestManyIndeterminateClaims(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	admin, f := c.client(t), newFaults()
	l := newLocker(t, c.faulty(t, f), etcdlock.WithFair(), etcdlock.WithTTL(time.Hour)) // no renewal ends a lease
	var holds []relock.Hold
	for n := range 20 {
		holds = append(holds, lock(t, l, fmt.Sprint("key", n)))
	}
	claimIndeterminate(t, l, f, 3*most+100)
	leases := func() int {
		resp, err := admin.Leases(limited(t))
		require.NoError(t, err)
		return len(resp.Leases)
	}
	soon(t, "the lease that has a hold is there, and the one that has none yet", func() bool { return leases() == 2 })
	require.Less(t, countCancelled(t, admin), 2*most+10)
	var group sync.WaitGroup
	for _, hold := range holds {
		require.NoError(t, hold.Extend(limited(t), time.Second))
		group.Go(func() { assert.NoError(t, hold.Unlock(context.Background())) })
	}
	group.Wait()
	soon(t, "the first one is revoked", func() bool { return leases() == 1 })
	require.Less(t, countCancelled(t, admin), most)
	require.Len(t, keys(t, admin), countCancelled(t, admin))
	unlock(t, lock(t, l, "key0"))
}

// most is how many keys a lease has before claims use the next one.
const most = 128

// claimIndeterminate makes so many claims whose requests are executed and not
// answered. The dropped answer may be that of another request, such as the poll
// of a waiter whose watch begins. Then it tries again.
func claimIndeterminate(t testing.TB, l *etcdlock.Locker, f *faults, times int) {
	t.Helper()
	for n := 0; n < times; {
		sent := f.count("Txn")
		f.on("Txn", 1, dropAnswer)
		h, err := l.TryLock(t.Context(), fmt.Sprint(n))
		if err == nil {
			f.clear()
			unlock(t, h)
			continue
		}
		require.True(t, relock.IsRetryableErr(err), "%v", err)
		soon(t, "it is abandoned", func() bool { return f.count("Txn") >= sent+2 })
		f.clear()
		n++
	}
}

// A waiter under a worn-out lease keeps its queue entry, and the grant.
func TestWornOutLeaseEndsAfterItsClaims(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	admin, f := c.client(t), newFaults()
	other := newLocker(t, c.client(t), etcdlock.WithFair())
	l := newLocker(t, c.faulty(t, f), etcdlock.WithFair(), etcdlock.WithTTL(time.Minute))
	hold := lock(t, other, "key")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := waiter(ctx, l, "key")
	soon(t, "it waits", func() bool { return len(keysOf(t, admin, "key")) == 2 })
	claimIndeterminate(t, l, f, most+10)
	unlock(t, hold)
	r := await(t, done)
	require.NoError(t, r.err)
	require.NoError(t, r.hold.Err())
	unlock(t, r.hold)
	soon(t, "the worn-out one is revoked", func() bool { return countCancelled(t, admin) < most/2 })
	unlock(t, lock(t, l, "key"))
}

func cancelled(t testing.TB, l *etcdlock.Locker, r *room, within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), rand.N(within))
	defer cancel()
	hold, err := l.Lock(ctx, "key")
	if err != nil {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock: %v", err)
		}
		return
	}
	r.enter(hold)
	r.leave(hold)
	if err := hold.Unlock(ctx); err != nil {
		t.Errorf("Unlock: %v", err)
	}
}
