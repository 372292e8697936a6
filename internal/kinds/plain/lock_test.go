package plain_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/kinds/plain"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/internal/waitqueue"
)

// Goroutines that wait on one object wait in memory: only the first of them
// asks the server, and TryLock sends no request. HMGET is of the script that
// enqueues alone: a poll that comes after the end puts an entry back by ZADD.
func TestSharedObjectWaitsInMemory(t *testing.T) {
	t.Parallel()
	b := locktest.BenchOn(t, redistest.Start(t))
	l := relock.NewRedisLock("k", b.Client, relock.WithBlock())
	require.NoError(t, l.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waits []<-chan error
	for range 50 {
		waits = append(waits, testkit.Async(t, func() error { return l.Lock(ctx) }))
	}
	testkit.Eventually(t, testkit.Patience, func() bool {
		return locktest.Calls(t, b.Server, "hmget") == 1 && b.Client.Stats().Waiting == 50
	}, "all wait")
	sets := locktest.Calls(t, b.Server, "set")
	require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	require.Equal(t, sets, locktest.Calls(t, b.Server, "set"))
	cancel()
	for _, result := range waits {
		locktest.RequireIs(t, testkit.ResultWithin(t, result, testkit.Patience), context.Canceled,
			relock.ErrLockAcquiredByOthers)
	}
	require.Equal(t, 1, locktest.Calls(t, b.Server, "hmget"), "one queue entry, for whichever is the first")
	require.NoError(t, l.Unlock(t.Context()))
	require.NoError(t, l.Do(t.Context(), locktest.Nothing))
	b.RequireFree("k")
}

func TestAcquireLeavesNothingInTheObject(t *testing.T) {
	b := locktest.NewBench(t)
	l := relock.NewRedisLock("k", b.Client)
	h := locktest.Take(t, l.Acquire)
	require.Equal(t, "k", h.Key())
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)
	b.RequireHeld("k")
	require.NoError(t, h.Unlock(t.Context()))
	b.RequireFree("k")
}

// A hold that ends on its way to a waiter is released, and the call waits on.
func TestHoldThatEndedOnItsWay(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	take := func(key string, opts ...relock.LockOption) *lease.Hold {
		l := plain.New(locktest.NewTarget(c, key, lockspec.Plain, opts...))
		h, _, err := l.Take(t.Context(), false, false)
		require.NoError(t, err)
		return h
	}
	over, valid := take("first", relock.WithExpiry(3*time.Second)), take("second")
	testkit.Eventually(t, testkit.Patience, func() bool { return over.Err() != nil }, "it expires")
	target := locktest.NewTarget(c, "k", lockspec.Plain, relock.WithPollInterval(time.Second))
	line := target.Manager.Queue.Enter("k", target.RedisKey())
	defer line.Exit()
	w := acquire.NewWait(t.Context(), target, true)
	h, err := w.WaitForValid(line, &prepared{target, []*lease.Hold{over, valid}})
	require.NoError(t, err)
	require.Same(t, valid, h)
	require.ErrorIs(t, over.Unlock(), relock.ErrNotHeld, "is released")
	require.NoError(t, valid.Unlock())
}

// prepared brings holds that were made before, one after the other.
type prepared struct {
	target *acquire.Target
	holds  []*lease.Hold
}

func (p *prepared) Entry(l *waitqueue.Line, _ *waitqueue.Entry) *waitqueue.Entry {
	return waitqueue.NewEntry(l, &p.target.Settings, false, nil)
}

func (p *prepared) Try(context.Context) (h *lease.Hold, err error) {
	h, p.holds = p.holds[0], p.holds[1:]
	return h, nil
}
