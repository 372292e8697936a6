package relock

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// multiCrowd locks random 3 of 6 keys, from so many clients, until the time is over.
type multiCrowd struct {
	testing.TB
	keys    []string
	inside  [6]atomic.Int32
	entries atomic.Int64
	slices  []atomic.Int64 // entries by the part of the time
	begin   time.Time
	slice   time.Duration
}

func newMultiCrowd(t testing.TB, limit, slice time.Duration) *multiCrowd {
	c := &multiCrowd{TB: t, slices: make([]atomic.Int64, limit/slice), begin: time.Now(), slice: slice}
	for n := range c.inside {
		c.keys = append(c.keys, fmt.Sprint("key", n))
	}
	return c
}

func (c *multiCrowd) run(ctx context.Context, client *Client) {
	for ctx.Err() == nil {
		chosen := rand.Perm(len(c.keys))[:3]
		var names []string
		for _, n := range chosen {
			names = append(names, c.keys[n])
		}
		err := NewMultiLock(names, client, WithBlock()).Do(ctx, func(context.Context) error {
			c.visit(chosen)
			return nil
		})
		if err != nil && ctx.Err() == nil {
			c.Errorf("Do: %v", err)
			return
		}
	}
}

// visit sees that nobody else has any of the keys.
func (c *multiCrowd) visit(keys []int) {
	for _, n := range keys {
		if c.inside[n].Add(1) != 1 {
			c.Errorf("two have %s", c.keys[n])
		}
	}
	time.Sleep(rand.N(2 * time.Millisecond))
	for _, n := range keys {
		c.inside[n].Add(-1)
	}
	c.entries.Add(1)
	if n := int(time.Since(c.begin) / c.slice); n < len(c.slices) {
		c.slices[n].Add(1)
	}
}

// Many clients that want random 3 of 6 keys get on all the time, and leave nothing behind.
func TestMultiLockCrowd(t *testing.T) {
	for name, apart := range map[string]bool{"together": false, "one by one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const limit = 3 * time.Second
			s := redistest.Start(t)
			first := newTestClient(t, s)
			clients := []*Client{first}
			for range 19 {
				clients = append(clients, sibling(t, s, first))
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			c := newMultiCrowd(t, limit, time.Second)
			var group sync.WaitGroup
			for _, client := range clients {
				client.engine.OneByOne.Store(apart)
				group.Go(func() { c.run(ctx, client) })
			}
			group.Wait()
			for n := range c.slices {
				t.Logf("second %d: %d", n+1, c.slices[n].Load())
				require.Positive(t, c.slices[n].Load(), "nobody gets on")
			}
			for _, client := range clients {
				requireNoQueues(t, s, client, c.keys...)
			}
		})
	}
}

// A server in a Cluster takes one key at a time: the keys are locked one after the other, all or none, and the client
// does not ask for all at once again.
func TestMultiLockOnACluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t, "--cluster-enabled", "yes")
	s.Do(t, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	c := newTestClient(t, s)
	testkit.Eventually(t, 10*time.Second, func() bool { _, err := c.SetNEX(t.Context(), "up", "1", time.Second); return err == nil }, "the cluster is up")
	keys := []string{"a", "b", "c"}
	l := NewMultiLock(keys, c, WithBlock(), WithPollInterval(leisure))
	require.NoError(t, l.Do(t.Context(), func(context.Context) error {
		for _, key := range keys {
			requireHeld(t, s, c, key)
		}
		return nil
	}))
	require.True(t, c.engine.OneByOne.Load())
	requireNoQueues(t, s, c, keys...)

	other := sibling(t, s, c)
	h, err := NewRedisLock("c", other).Acquire(t.Context())
	require.NoError(t, err)
	require.EqualError(t, NewMultiLock(keys, c).TryLock(t.Context()), `relock: lock "a,b,c": lock is held by others: key "c" (one attempt; see WithBlock)`)
	testkit.Eventually(t, time.Second, func() bool {
		return s.Do(t, "EXISTS", keyOf(c, "a")) == int64(0) && s.Do(t, "EXISTS", keyOf(c, "b")) == int64(0)
	}, "the others are given back")
	waiting := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "ZCARD", keyOf(c, "c")+":q") == int64(1) }, "waits")
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, waiting, testkit.Patience))
	require.NoError(t, l.Unlock(t.Context()))
	requireFree(t, s, c, "a")
}

// Locks of one key and of many, in one client and in two, exclude each other, and each gets on.
func TestMultiLockBesideOthers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	first := newTestClient(t, s)
	clients := []*Client{first, sibling(t, s, first)}
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := newMultiCrowd(t, 2*time.Second, 2*time.Second)
	var singles, many atomic.Int64
	use := func(lock anyLock, keys []int, count *atomic.Int64) {
		for ctx.Err() == nil {
			start := time.Now()
			err := lock.Do(ctx, func(context.Context) error {
				c.visit(keys)
				count.Add(1)
				return nil
			})
			if err != nil && ctx.Err() == nil {
				t.Errorf("Do: %v", err)
				return
			}
			// Each key is in use for a part of the time, however slow the machine is: nobody promises a MultiLock a moment in which both
			// are free.
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(2+rand.Int64N(12)) * time.Since(start)):
			}
		}
	}
	for _, client := range clients {
		for n := range 2 {
			for range 2 {
				group.Go(func() { use(NewRedisLock(c.keys[n], client, WithBlock()), []int{n}, &singles) })
			}
			group.Go(func() { use(NewMultiLock(c.keys[:2], client, WithBlock()), []int{0, 1}, &many) })
		}
	}
	testkit.Eventually(t, testkit.Patience, func() bool {
		return time.Since(c.begin) > 2*time.Second && singles.Load() > 0 && many.Load() > 0
	}, "each gets on")
	cancel()
	group.Wait()
	t.Logf("%d times one key, %d times both", singles.Load(), many.Load())
	for _, client := range clients {
		requireNoQueues(t, s, client, c.keys[:2]...)
	}
}
