package test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	etcdlock "github.com/relock-go/relock/etcd"
	"github.com/relock-go/relock/internal/test/testkit"
)

// etcd serves a watch that begins in the past after up to 100 ms. A hold that
// is shorter than the registration of a watch does not cost that.
func TestShortHoldsAreHandedOn(t *testing.T) {
	const calls = 60
	c := newCluster(t, 1)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		for _, lockers := range []int{1, 4} {
			t.Run(fmt.Sprint(lockers), func(t *testing.T) {
				alone := p90(pauses(t, c, 1, 1, calls, opts...)) // how busy the machine is
				contended := p90(pauses(t, c, lockers, 2, calls, opts...))
				t.Logf("from Unlock to the next Lock: %v, without others %v", contended, alone)
				require.Less(t, contended, 40*time.Millisecond+5*alone)
			})
		}
	})
}

func p90(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)*9/10]
}

// pauses has goroutines of some Lockers take a lock and release it. It returns
// the times from the call of Unlock to the return of the next Lock, less what
// the machine may have added.
func pauses(
	t *testing.T, c *cluster, lockers, goroutines int, calls int64, opts ...etcdlock.Option,
) (all []time.Duration) {
	t.Helper()
	var left atomic.Int64
	left.Store(calls)
	var unlocked *testkit.Stopwatch // guarded by the lock, as all
	var group sync.WaitGroup
	for range lockers {
		l := newLocker(t, c.client(t), opts...)
		for range goroutines {
			group.Go(func() {
				for left.Add(-1) >= 0 {
					hold, err := l.Lock(limited(t), "key")
					if !assert.NoError(t, err) {
						return
					}
					if unlocked != nil {
						all = append(all, unlocked.Net())
					}
					unlocked = testkit.NewStopwatch(t)
					assert.NoError(t, hold.Unlock(context.Background()))
				}
			})
		}
	}
	group.Wait()
	return all
}

// A watch does not report changes between the answer to a waiter and the
// creation of the watch, so the waiter polls once more.
func TestWaiterPollsWhenItsWatchBegins(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	admin := c.client(t)
	inModes(t, func(t *testing.T, opts ...etcdlock.Option) {
		opts = append(opts, etcdlock.WithTTL(time.Minute))
		f := newFaults()
		l := newLocker(t, c.faulty(t, f), opts...)
		unlock(t, lock(t, l, "warm"))
		hold := lock(t, newLocker(t, c.client(t), opts...), "key")
		watch := f.on("Watch", 0, answerLate)
		done := waiter(limited(t), l, "key")
		soon(t, "it watches", func() bool { return f.count("Watch") > 0 })
		sent := f.count("Txn")
		_, err := admin.Put(limited(t), "another", "value")
		require.NoError(t, err)
		close(watch.held)
		polls := func() bool { return f.count("Txn") > sent }
		testkit.Eventually(t, 10*time.Second, polls, "it polls once more, and not after the 30 s of a silent watch")
		select {
		case r := <-done:
			t.Fatalf("it returns while the lock is held: %v", r.err)
		case <-time.After(50 * time.Millisecond): // it has time to fail
		}
		unlock(t, hold)
		r := await(t, done)
		require.NoError(t, r.err)
		unlock(t, r.hold)
	})
}
