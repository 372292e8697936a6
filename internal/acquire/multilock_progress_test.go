package acquire_test

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
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

// busyKeys are keys that goroutines lock one by one, without a pause.
type busyKeys struct {
	testing.TB
	keys    []string
	all     []int
	inside  []atomic.Int32
	singles *relock.Client
	alone   atomic.Int64 // grants of single keys
}

func newBusyKeys(t testing.TB, c *relock.Client, n int) *busyKeys {
	b := &busyKeys{TB: t, inside: make([]atomic.Int32, n), singles: c}
	for i := range n {
		b.keys, b.all = append(b.keys, fmt.Sprint("key", i)), append(b.all, i)
	}
	return b
}

// use locks until the context ends. It sees that nobody else holds the keys.
func (b *busyKeys) use(ctx context.Context, lock locktest.AnyLock, grants *atomic.Int64, keys ...int) {
	for ctx.Err() == nil {
		err := lock.Do(ctx, func(context.Context) error {
			for _, n := range keys {
				if b.inside[n].Add(1) != 1 {
					b.Errorf("two hold %s", b.keys[n])
				}
			}
			time.Sleep(5 * time.Millisecond)
			for _, n := range keys {
				b.inside[n].Add(-1)
			}
			grants.Add(1)
			return nil
		})
		if err != nil && ctx.Err() == nil {
			b.Errorf("Do: %v", err)
			return
		}
	}
}

// run has so many goroutines for each key, and those MultiLocks beside them. It
// returns the grants of single keys and of each MultiLock.
func (b *busyKeys) run(d time.Duration, each int, many ...locktest.AnyLock) (single int64, multi []int64) {
	ctx, cancel := context.WithTimeout(b.Context(), d)
	defer cancel()
	var group sync.WaitGroup
	b.alone.Store(0)
	for n, key := range b.keys {
		for range each {
			group.Go(func() { b.use(ctx, relock.NewRedisLock(key, b.singles, relock.WithBlock()), &b.alone, n) })
		}
	}
	grants := make([]atomic.Int64, len(many))
	for n, lock := range many {
		group.Go(func() { b.use(ctx, lock, &grants[n], b.all...) })
	}
	group.Wait()
	for n := range grants {
		multi = append(multi, grants[n].Load())
	}
	return b.alone.Load(), multi
}

// A MultiLock gets in beside goroutines that lock its keys one by one without a
// pause. They keep at least half of the rate that they have without it.
func TestMultiLockBesideBusyKeys(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 5} {
		t.Run(fmt.Sprint(n, " keys"), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			b := newBusyKeys(t, locktest.NewTestClient(t, s), n)
			multi := relock.NewMultiLock(b.keys, locktest.Sibling(t, s, b.singles), relock.WithBlock())
			// Together in one round, as the rate of a busy machine changes.
			// Without a right of way many is 1/400 of beside, of 5 keys
			// 1/1,000.
			for round := 1; ; round++ {
				alone, _ := b.run(500*time.Millisecond, 2)
				beside, many := b.run(time.Second, 2, multi)
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
	s := redistest.Start(t)
	b := newBusyKeys(t, locktest.NewTestClient(t, s), 3)
	locks := []locktest.AnyLock{relock.NewMultiLock(b.keys, b.singles, relock.WithBlock())}
	for range 3 {
		locks = append(locks, relock.NewMultiLock(b.keys, locktest.Sibling(t, s, b.singles), relock.WithBlock()))
	}
	sum := make([]int64, len(locks))
	for round := 1; ; round++ {
		_, grants := b.run(time.Second/2, 0, locks...)
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
