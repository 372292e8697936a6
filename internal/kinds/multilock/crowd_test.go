package multilock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// crowd is a set of keys that many goroutines lock, one or more at a time. It
// checks that no two hold the same key.
type crowd struct {
	*locktest.Bench
	keys   []string
	inside map[string]*atomic.Int32 // how many hold a key
	stay   time.Duration            // how long each keeps its keys
}

func newCrowd(b *locktest.Bench, keys []string, stay time.Duration) *crowd {
	c := &crowd{b, keys, map[string]*atomic.Int32{}, stay}
	for _, key := range keys {
		c.inside[key] = &atomic.Int32{}
	}
	return c
}

// use locks these keys once.
func (c *crowd) use(ctx context.Context, lock locktest.AnyLock, keys ...string) error {
	return lock.Do(ctx, func(context.Context) error {
		for _, key := range keys {
			if c.inside[key].Add(1) != 1 {
				c.Errorf("two hold %s", key)
			}
		}
		time.Sleep(c.stay)
		for _, key := range keys {
			c.inside[key].Add(-1)
		}
		return nil
	})
}

// A server of a Cluster gets one key at a time: the keys are locked one after
// the other, all or none. The client does not ask for all together again.
func TestMultiLockOnACluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t, "--cluster-enabled", "yes")
	s.Do(t, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	b := locktest.BenchOn(t, s)
	testkit.Eventually(t, testkit.Patience,
		func() bool { _, err := b.Client.SetNEX(t.Context(), "up", "1", time.Second); return err == nil },
		"the cluster is up")
	keys := []string{"a", "b", "c"}
	l := relock.NewMultiLock(keys, b.Client, append(locktest.PolledSeldom(), relock.WithBlock())...)
	h := locktest.Take(t, l.Acquire)
	b.RequireHeld(keys...)
	require.NoError(t, h.Unlock(t.Context()))
	require.True(t, locktest.Engine(b.Client).OneByOne.Load())
	b.RequireNothingLeft(keys...)

	h = b.Hold("c")
	require.EqualError(t, relock.NewMultiLock(keys, b.Client).TryLock(t.Context()),
		`relock: lock "a,b,c": lock is held by others: key "c" (one attempt; see WithBlock)`)
	locktest.EventuallyWithin(t, time.Second, func() bool { return b.Exists("a", "b") == 0 }, "the others are released")
	waiting := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	b.AwaitWaiter("c")
	require.NoError(t, h.Unlock(t.Context()))
	locktest.RequireGranted(t, waiting)
	require.NoError(t, l.Unlock(t.Context()))
	b.RequireFree(keys...)
}

// run has several goroutines for each key, and locks of all keys beside them.
// It returns the grants of single keys and those of each lock of all.
func (c *crowd) run(d time.Duration, each int, all ...locktest.AnyLock) (single int64, many []int64) {
	ctx, cancel := context.WithTimeout(c.Context(), d)
	defer cancel()
	var group sync.WaitGroup
	use := func(lock locktest.AnyLock, count *atomic.Int64, keys ...string) {
		group.Go(func() {
			for ctx.Err() == nil {
				if err := c.use(ctx, lock, keys...); err == nil {
					count.Add(1)
				} else if ctx.Err() == nil {
					c.Errorf("Do: %v", err)
					return
				}
			}
		})
	}
	var alone atomic.Int64
	for _, key := range c.keys {
		for range each {
			use(relock.NewRedisLock(key, c.Client, relock.WithBlock()), &alone, key)
		}
	}
	grants := make([]atomic.Int64, len(all))
	for n, lock := range all {
		use(lock, &grants[n], c.keys...)
	}
	group.Wait()
	for n := range grants {
		many = append(many, grants[n].Load())
	}
	return alone.Load(), many
}

// A MultiLock gets in beside goroutines that lock its keys one by one without a
// pause. They keep at least half of the rate that they have without it.
func TestMultiLockBesideBusyKeys(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 5} {
		t.Run(fmt.Sprint(n, " keys"), func(t *testing.T) {
			t.Parallel()
			c := newCrowd(locktest.BenchOn(t, redistest.Start(t)), names(n), 5*time.Millisecond)
			multi := relock.NewMultiLock(c.keys, c.Other, relock.WithBlock())
			// Together in one round, as the rate of a busy machine changes.
			// Without a right of way many is 1/400 of beside, of 5 keys
			// 1/1,000.
			for round := 1; ; round++ {
				alone, _ := c.run(500*time.Millisecond, 2)
				beside, many := c.run(time.Second, 2, multi)
				t.Logf("%d grants of all keys; single keys: %.2f of the rate without it", many[0], float64(beside)/float64(2*alone))
				if 40*int64(n)*many[0] >= beside && beside >= alone {
					break
				}
				require.Less(t, round, 8, "%d grants; single keys: %d, and %d without it", many, beside, 2*alone)
			}
		})
	}
}

// MultiLocks of the same keys take turns: none gets less than half of another.
func TestMultiLocksOfTheSameKeysTakeTurns(t *testing.T) {
	t.Parallel()
	c := newCrowd(locktest.BenchOn(t, redistest.Start(t)), names(3), 5*time.Millisecond)
	var locks []locktest.AnyLock
	for range 4 {
		locks = append(locks, relock.NewMultiLock(c.keys, locktest.Sibling(t, c.Server, c.Client), relock.WithBlock()))
	}
	sum := make([]int64, len(locks))
	for round := 1; ; round++ {
		_, grants := c.run(time.Second/2, 0, locks...)
		for n := range sum {
			sum[n] += grants[n]
		}
		if least := slices.Min(sum); least >= 2 && 2*least >= slices.Max(sum) {
			break
		}
		require.Less(t, round, 10, "grants: %v", sum)
	}
	t.Logf("grants: %v", sum)
}
