package semaphore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// minimumEnds are the ends of the minimum holds of all permits that callers
// got, by the server's clock in microseconds. What a call gave up is not among
// them.
type minimumEnds struct {
	mu   sync.Mutex
	ends []int64
}

// note notes the permit of the caller with this label.
func (m *minimumEnds) note(b *locktest.Bench, key, label string) error {
	conn := b.Server.Dial(b)
	defer func() { _ = conn.Close() }()
	end, err := redis.Int64(conn.Do("ZSCORE", b.Key(key), "#"+locktest.HoldOf(b, conn, b.Key(key), label)))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ends = append(m.ends, -end)
	return err
}

// With a minimum hold no more callers begin in any time of that length than
// there are permits, by the server's clock, whatever other calls give up.
func TestSemaphoreRate(t *testing.T) {
	const limit, calls, d = 4, 24, 400 * time.Millisecond
	b := locktest.NewBench(t)
	opts := []relock.LockOption{relock.WithBlock(), relock.WithFair(), relock.WithMinHold(d)}
	seen := &minimumEnds{}
	var group sync.WaitGroup
	for n := range calls {
		c := []*relock.Client{b.Client, b.Other}[n%2]
		run := func(label string, own ...relock.LockOption) error {
			all := slices.Concat(opts, own, []relock.LockOption{relock.WithLabel(label)})
			return relock.NewSemaphore("k", limit, c, all...).Do(t.Context(), func(context.Context) error {
				return seen.note(b, "k", label)
			})
		}
		group.Go(func() {
			if err := run(fmt.Sprint("patient", n)); err != nil {
				t.Error(err)
			}
		})
		group.Go(func() {
			if err := run(fmt.Sprint("brief", n), relock.WithBlockTimeout(time.Millisecond)); err != nil && !relock.NotRun(err) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.GreaterOrEqual(t, len(seen.ends), calls)
	slices.Sort(seen.ends)
	locktest.RequireRate(t, seen.ends, limit, d)
}

// A minimum hold goes on, from the grant, after the holder has died or was
// forced to end, even if the lease is shorter.
func TestSemaphoreMinimumHoldOutlivesTheHolder(t *testing.T) {
	const d = 1500 * time.Millisecond
	t.Parallel()
	for name, end := range map[string]func(b *locktest.Bench, c *relock.Client, h relock.Hold){
		"it dies": func(b *locktest.Bench, c *relock.Client, _ relock.Hold) { require.NoError(b, c.Close()) },
		"forced": func(b *locktest.Bench, _ *relock.Client, _ relock.Hold) {
			require.NoError(b, b.Client.ForceUnlock(b.Context(), "k", "test"))
		},
		"unlocks": func(b *locktest.Bench, _ *relock.Client, h relock.Hold) {
			if err := h.Unlock(b.Context()); err != nil {
				require.ErrorIs(b, err, relock.ErrLockLost, "on a slow machine")
			}
		},
		"is lost": func(b *locktest.Bench, _ *relock.Client, h relock.Hold) {
			locktest.RequireEnds(b, h, relock.ErrLockLost)
		},
		"lost late": func(*locktest.Bench, *relock.Client, relock.Hold) {},
	} {
		t.Run(name, func(t *testing.T) {
			b := locktest.NewBench(t)
			holder := locktest.Sibling(t, b.Server, b.Client)
			before := time.Now()
			h := locktest.Take(t, relock.NewSemaphore("k", 1, holder, relock.WithExpiry(d/3), relock.WithMinHold(d)).Acquire)
			end(b, holder, h)
			_, err := relock.NewSemaphore("k", 1, b.Other, relock.WithMinHold(d)).TryAcquire(t.Context())
			if time.Since(before) < d {
				require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
			}
			next := locktest.Take(t, relock.NewSemaphore("k", 1, b.Other, relock.WithBlockTimeout(testkit.Patience)).Acquire)
			require.GreaterOrEqual(t, time.Since(before), d)
			require.NoError(t, next.Unlock(t.Context()))
			testkit.Eventually(t, testkit.Patience, func() bool { return b.Exists("k") == 0 }, "free")
		})
	}
}

// A renewal does not lengthen a minimum hold, and no renewal ends it.
func TestSemaphoreMinimumHoldOfARenewedLease(t *testing.T) {
	const d = 300 * time.Millisecond
	b := locktest.NewBench(t)
	s := relock.NewSemaphore("k", 1, b.Client, relock.WithMinHold(d))
	before := time.Now()
	h := locktest.Take(t, s.Acquire)
	require.NoError(t, h.Extend(t.Context(), time.Minute))
	require.NoError(t, h.Unlock(t.Context()))
	if info := locktest.Inspect(t, b.Client, "k"); time.Since(before) < d {
		require.Equal(t, relock.StateKept, info.State)
		require.Empty(t, info.Readers)
		require.LessOrEqual(t, info.Remaining, d+2*time.Millisecond)
	}
	h = locktest.Take(t, relock.NewSemaphore("k", 1, b.Other, relock.WithMinHold(d), relock.WithBlock()).Acquire)
	require.GreaterOrEqual(t, time.Since(before), d)
	time.Sleep(d)
	require.NoError(t, h.Unlock(t.Context()))
	b.RequireFree("k")
}
