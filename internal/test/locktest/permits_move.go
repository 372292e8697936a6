package locktest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// permitCrowd is clients that take permits of one semaphore again and again.
type permitCrowd struct {
	testing.TB
	ctx    context.Context
	inside atomic.Int32
	served []atomic.Int32
	group  sync.WaitGroup
}

// run takes permits by one client, of which the crowd has so many.
func (c *permitCrowd) run(n int, s *relock.Semaphore, limit int32) {
	c.group.Go(func() {
		for c.ctx.Err() == nil {
			err := s.Do(c.ctx, func(ctx context.Context) error {
				if in := c.inside.Add(1); in > limit && ctx.Err() == nil {
					c.Errorf("%d have a permit", in)
				}
				c.served[n].Add(1)
				time.Sleep(time.Millisecond) // for others to meet it
				c.inside.Add(-1)
				return nil
			})
			if err != nil && c.ctx.Err() == nil {
				c.Error(err)
				return
			}
		}
	})
}

// awaitAll waits until each client has got another permit.
func (c *permitCrowd) awaitAll() {
	c.Helper()
	for n := range c.served {
		before := c.served[n].Load()
		served := func() bool { return c.Failed() || c.served[n].Load() > before+1 }
		testkit.Eventually(c, testkit.Patience, served, "a waiter is not served")
	}
}

// PermitsWhileASlotMoves takes permits of a semaphore by five clients, while
// its slot moves from master to master, quickly and key by key. Never more hold
// a permit than there are, each client gets its turns, and one permit is kept
// and renewed all the time.
func PermitsWhileASlotMoves(
	t *testing.T, cluster *redistest.Cluster, key string, newClient func() *relock.Client, opts ...relock.LockOption,
) {
	t.Helper()
	const clients, permits = 5, 3
	slot := cluster.SlotOf(t, key)
	opts = append(opts, relock.WithBlock())
	keeper := newClient()
	kept := Take(t, relock.NewSemaphore(key, permits, keeper, opts...).Acquire)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	c := &permitCrowd{TB: t, ctx: ctx, served: make([]atomic.Int32, clients)}
	for n := range clients {
		c.run(n, relock.NewSemaphore(key, permits, newClient(), opts...), permits-1)
	}
	for i, to := range slices.Repeat(cluster.Masters(t), 2) {
		c.awaitAll()
		switch {
		case cluster.Master(t, slot) == to:
		case i%2 == 0:
			cluster.MoveSlot(t, slot, to)
		default:
			cluster.MoveSlotSlowly(t, slot, to, 20*time.Millisecond)
		}
		Renew(t, kept, testkit.Patience)
	}
	c.awaitAll()
	end()
	c.group.Wait()
	require.NoError(t, kept.Unlock(t.Context()))
}
