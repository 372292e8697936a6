package acquire_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// The lock that is lost is lost for all levels, and another hold is not touched by the Unlocks that follow.
func TestRWLockLoss(t *testing.T) {
	t.Parallel()
	s := locktest.Taught(t, redistest.Shared(t))
	c := locktest.NewTestClient(t, s)
	l, other := relock.NewRWLock("k", c, relock.WithExpiry(2*time.Second)), relock.NewRWLock("k", locktest.Sibling(t, s, c), relock.WithBlock())
	me := locktest.As(t, "me")
	w, err := l.Acquire(me)
	require.NoError(t, err)
	r, err := l.RAcquire(me)
	require.NoError(t, err)
	require.ErrorIs(t, testkit.EndedWithin(t, r.Context(), 10*time.Second), relock.ErrLockLost)
	require.ErrorIs(t, w.Err(), relock.ErrLockLost)
	require.NoError(t, other.Lock(t.Context()))
	require.ErrorIs(t, l.TryRLock(me), relock.ErrLockLost, "until the outermost Unlock")
	require.ErrorIs(t, l.TryLock(me), relock.ErrLockLost)
	err = l.Unlock(me)
	require.ErrorIs(t, err, relock.ErrLockLost)
	require.ErrorIs(t, err, relock.ErrNotHeld)
	require.ErrorIs(t, l.RUnlock(me), relock.ErrLockLost)
	require.ErrorIs(t, l.TryRLock(me), relock.ErrLockAcquiredByOthers)
	require.NoError(t, other.Unlock(t.Context()))

	require.NoError(t, l.Lock(me))
	s.Do(t, "DEL", locktest.KeyOf(c, "k"))
	require.ErrorIs(t, l.TryRLock(me), relock.ErrLockLost)
	require.ErrorIs(t, l.Unlock(me), relock.ErrLockLost)
	require.NoError(t, l.RLock(me))
	h, err := l.RAcquire(me)
	require.NoError(t, err)
	s.Do(t, "DEL", locktest.KeyOf(c, "k"))
	require.ErrorIs(t, h.Extend(t.Context(), time.Second), relock.ErrLockLost)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
	require.ErrorIs(t, l.RUnlock(me), relock.ErrLockLost)
	locktest.RequireRWGone(t, s, c, "k")
}

// A level that is over by its maximum hold counts no longer, and with the last that writes others may read.
func TestRWLockMaxHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l, other := relock.NewRWLock("k", c), relock.NewRWLock("k", locktest.Sibling(t, s, c))
	me := locktest.As(t, "me")
	require.NoError(t, l.RLock(me))
	w, err := relock.NewRWLock("k", c, relock.WithMaxHold(time.Second)).Acquire(me)
	require.NoError(t, err)
	require.ErrorIs(t, other.TryRLock(t.Context()), relock.ErrLockAcquiredByOthers)
	require.ErrorIs(t, testkit.EndedWithin(t, w.Context(), 10*time.Second), relock.ErrMaxHold)
	testkit.Eventually(t, 10*time.Second, func() bool { return other.TryRLock(t.Context()) == nil }, "it reads only")
	require.NoError(t, other.RUnlock(t.Context()))
	require.ErrorIs(t, w.Unlock(t.Context()), relock.ErrMaxHold)
	require.NoError(t, l.Lock(me))
	require.NoError(t, l.Unlock(me))
	require.NoError(t, l.RUnlock(me))
	locktest.RequireRWGone(t, s, c, "k")
}

// Each hold of many is renewed by itself, and Extend lengthens it.
func TestRWLockRenewals(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewRWLock("k", c, relock.WithWatchdog(3*time.Second))
	var holds []relock.Hold
	for i := range 20 {
		h, err := l.RAcquire(locktest.As(t, fmt.Sprint(i)))
		require.NoError(t, err)
		holds = append(holds, h)
	}
	begin := time.Now()
	for _, h := range holds {
		until := h.ValidUntil()
		testkit.Eventually(t, 10*time.Second, func() bool { return h.ValidUntil().After(until) }, "renewed")
	}
	testkit.Eventually(t, 10*time.Second, func() bool { return time.Since(begin) > 4500*time.Millisecond }, "a lease and a half")
	require.NoError(t, holds[7].Extend(t.Context(), time.Minute))
	require.Greater(t, locktest.Pttl(t, s, c, "k"), 50*time.Second)
	for _, h := range holds {
		require.NoError(t, h.Err())
		require.NoError(t, h.Unlock(t.Context()))
	}
	locktest.RequireRWGone(t, s, c, "k")
}

// One at a time writes, and nobody reads then: what readers see of two numbers that writers change is always whole.
func TestRWLockExclusion(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]relock.LockOption{{relock.WithBlock()}, {relock.WithBlock(), relock.WithFair()}} {
		t.Run(fmt.Sprint("options ", len(opts)), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			c := locktest.NewTestClient(t, s)
			clients := []*relock.Client{c, locktest.Sibling(t, s, c), locktest.Sibling(t, s, c)}
			var readers, writers atomic.Int32
			var most atomic.Int32
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			var group sync.WaitGroup
			for i := range 24 {
				l := relock.NewRWLock("k", clients[i%3], opts...)
				group.Go(func() {
					for n := range 12 {
						if (i+n)%6 > 0 {
							h, err := l.RAcquire(ctx)
							if err != nil {
								t.Errorf("read: %v", err)
								return
							}
							now := readers.Add(1)
							for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
							}
							if writers.Load() > 0 && h.Err() == nil {
								t.Error("reads while another one writes")
							}
							time.Sleep(2 * time.Millisecond)
							readers.Add(-1)
							_ = h.Unlock(ctx)
							continue
						}
						h, err := l.Acquire(ctx)
						if err != nil {
							t.Errorf("write: %v", err)
							return
						}
						if w, r := writers.Add(1), readers.Load(); (w > 1 || r > 0) && h.Err() == nil {
							t.Errorf("%d write, %d read", w, r)
						}
						time.Sleep(time.Millisecond)
						writers.Add(-1)
						_ = h.Unlock(ctx)
					}
				})
			}
			group.Wait()
			t.Logf("%d readers at once", most.Load())
			require.Greater(t, most.Load(), int32(2), "readers share")
			locktest.RequireRWGone(t, s, c, "k")
		})
	}
}
