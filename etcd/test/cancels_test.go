package test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	etcdlock "github.com/relock-go/relock/etcd"
)

// Thousands of calls whose contexts end at any moment, some of which have had the lock, leave no key and no goroutine; after Close no lease either.
func TestManyCancels(t *testing.T) {
	t.Parallel()
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		t.Parallel()
		c := newCluster(t, 1)
		client := c.client(t)
		l := newLocker(t, client, append(opts, etcdlock.WithTTL(5*time.Second))...)
		unlock(t, lock(t, l, "key"))
		r := &room{}
		left := atomic.Int64{}
		left.Store(cycles(5_000)) // in each mode
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				for n := left.Add(-1); n >= 0; n = left.Add(-1) {
					cancelled(t, l, r, []time.Duration{time.Second, 20 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond}[n%4])
				}
			})
		}
		group.Wait()
		noKeys(t, 10*time.Second, client, "key") // cancelled by the hundred
		if isFair(opts) {
			requireNumbersAreBack(t, l, client, "key")
		}
		require.Positive(t, r.entries)
		require.Empty(t, r.mixUps, "two believe that they have the lock")
		t.Logf("%d of the calls had the lock", r.entries)
		t.Logf("%d claims were not answered in time, and are kept out", countCancelled(t, client))
		require.NoError(t, l.Close())
		require.Empty(t, keys(t, client))
		requireNoSlots(t, l)
		soon(t, "no lease is left, one that was just being granted ends by itself", func() bool {
			leases, err := client.Leases(limited(t))
			require.NoError(t, err)
			return len(leases.Leases) == 0
		})
	})
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
