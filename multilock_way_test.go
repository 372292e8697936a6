package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// wayLease is the lease of the MultiLocks of these tests. Half of it is the
// longest time for which they keep a key.
const wayLease = 4 * time.Second

// wayBench has a MultiLock of a, b, c and d, of which a caller in another
// client holds c, and a call that keeps a and b meanwhile.
type wayBench struct {
	testing.TB
	server        *redistest.Server
	client, other *Client
	keys          []string
	held          Hold
	grant         chan *lease.Hold
	ended         <-chan error
}

func newWayBench(ctx context.Context, t testing.TB, s *redistest.Server, c *Client, opts ...LockOption) *wayBench {
	b := &wayBench{TB: t, server: s, client: c, other: sibling(t, s, c), keys: []string{"a", "b", "c", "d"}, grant: make(chan *lease.Hold, 1)}
	var err error
	b.held, err = NewRedisLock("c", b.other).Acquire(t.Context())
	require.NoError(t, err)
	l := NewMultiLock(b.keys, c, append([]LockOption{WithBlock(), WithExpiry(wayLease)}, opts...)...)
	b.ended = testkit.Async(t, func() error {
		h, err := l.multi.TakeKeeping(ctx)
		b.grant <- h
		return err
	})
	return b
}

func (b *wayBench) exists(keys ...string) (n int64) {
	for _, key := range keys {
		n += b.server.Do(b, "EXISTS", keyOf(b.client, key)).(int64)
	}
	return n
}

func (b *wayBench) awaitKept() {
	b.Helper()
	testkit.Eventually(b, testkit.Patience, func() bool { return b.exists("a", "b") == 2 }, "it keeps the keys before the one that is held")
}

// requireWhole checks that no key ends before the hold.
func (b *wayBench) requireWhole(h *lease.Hold) {
	b.Helper()
	for _, key := range b.keys {
		left := pttl(b, b.server, b.client, key)
		end, until := time.Now().Add(left), h.ValidUntil()
		require.False(b, end.Before(until), "%s ends in %v, %v before the hold", key, left, until.Sub(end))
	}
}

// A call keeps the keys before the one that it waits for, for half of the lease
// at most, and no others. The hold has whole leases.
func TestMultiLockKeepsKeys(t *testing.T) {
	for name, apart := range map[string]bool{"together": false, "one by one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Shared(t)
			c := newTestClient(t, s)
			c.engine.OneByOne.Store(apart)
			b := newWayBench(t.Context(), t, s, c)
			b.awaitKept()
			require.LessOrEqual(t, pttl(t, s, c, "a"), wayLease/2)
			require.LessOrEqual(t, pttl(t, s, c, "b"), wayLease/2)
			require.Zero(t, b.exists("d"))
			require.Empty(t, believed(c), "what is kept is no part of a hold")

			require.NoError(t, b.held.Unlock(t.Context()))
			require.NoError(t, testkit.ResultWithin(t, b.ended, testkit.Patience))
			h := <-b.grant
			b.requireWhole(h)
			require.Greater(t, time.Until(h.ValidUntil()), wayLease/2)
			require.NoError(t, h.Unlock())
			requireNoQueues(t, s, c, b.keys...)
		})
	}
}

// A call returns what it keeps when its time is over, and when it ends: the
// next waiter is notified, before the keys expire.
func TestMultiLockReturnsWhatItKeeps(t *testing.T) {
	for name, tt := range map[string]struct{ leaves, apart bool }{
		"the time is over": {}, "its context is cancelled": {leaves: true}, "one by one": {apart: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			// A machine that is busy for a tenth of that time lets them expire.
			for range 5 {
				before := scripttest.InfoField(t, s, "stats", "expired_keys")
				returnsWhatItKeeps(t, s, tt.leaves, tt.apart)
				if scripttest.InfoField(t, s, "stats", "expired_keys") == before {
					return
				}
			}
			require.Fail(t, "the keys expire")
		})
	}
}

func returnsWhatItKeeps(t *testing.T, s *redistest.Server, leaves, apart bool) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := newTestClient(t, s)
	c.engine.OneByOne.Store(apart)
	b := newWayBench(ctx, t, s, c)
	b.awaitKept()
	next := testkit.Async(t, func() error { return NewRedisLock("a", b.other, WithBlock()).Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "ZCARD", keyOf(c, "a")+":q") == int64(1) }, "another caller waits")
	if leaves {
		cancel()
	}
	require.NoError(t, testkit.ResultWithin(t, next, testkit.Patience))
	testkit.Eventually(t, testkit.Patience, func() bool { return b.exists("b") == 0 }, "it returns the other one")
	cancel()
	require.ErrorIs(t, testkit.ResultWithin(t, b.ended, testkit.Patience), context.Canceled)
	require.Nil(t, <-b.grant)
	require.NoError(t, b.held.Unlock(t.Context()))
}

// A caller that holds one key and waits for another gets it, beside a MultiLock
// of both that keeps the one and waits for the other. Both get through.
func TestMultiLockBesideAHolderThatWaits(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	b := newWayBench(t.Context(), t, s, c)
	b.awaitKept()
	h, err := NewRedisLock("a", b.other, WithBlock()).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, b.held.Err(), "it has held this one all the time")
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, b.held.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, b.ended, testkit.Patience))
	require.NoError(t, (<-b.grant).Unlock())
	requireNoQueues(t, s, c, b.keys...)
}

// A key that was kept and is another's now is left to it. The keys behind it
// are returned.
func TestMultiLockLosesAKeptKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	b := newWayBench(t.Context(), t, s, c, WithPollInterval(2*time.Second), WithExpiry(40*time.Second)) // kept for 16 s
	b.awaitKept()
	s.Do(t, "DEL", keyOf(c, "a"))
	h, err := NewRedisLock("a", b.other).TryAcquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, b.held.Unlock(t.Context()))
	testkit.Eventually(t, testkit.Patience, func() bool { return b.exists("b", "c", "d") == 0 }, "it has returned all")
	require.Zero(t, scripttest.InfoField(t, s, "stats", "expired_keys"))
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, b.ended, testkit.Patience))
	require.NoError(t, (<-b.grant).Unlock())
	requireNoQueues(t, s, c, b.keys...)
}

// After one message of a try that keeps keys is lost, late or doubled, the call
// gets its hold with whole leases, or leaves nothing.
func TestOneFaultInATryThatKeeps(t *testing.T) {
	t.Parallel()
	s := newFaultServer(t)
	var cells []cellRun
	for name, action := range map[string]faults.Action{
		"request dropped": faults.DropRequest, "answer dropped": faults.DropAnswer, "cut before": faults.CutBefore, "cut after": faults.CutAfter,
		"doubled": faults.Double, "late": faults.DelayRequest(wayLease / 2), "error line": faults.ExecuteThenError("LOADING Redis is loading the dataset in memory"),
	} {
		for _, leaves := range []bool{false, true} {
			cells = append(cells, cellRun{name + map[bool]string{true: ", and the caller leaves"}[leaves], func(t testing.TB) {
				proxy := faults.Start(t, s.Network, s.Address)
				c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, WithCommandTimeout(wayLease/4))
				done := proxy.On(faults.Script(script.MultiAcquire.SHA), 1, action)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				b := newWayBench(ctx, t, s, c)
				_, ok := testkit.Await(done, testkit.Patience)
				require.True(t, ok, "the fault did not happen")
				if leaves {
					cancel()
					require.Error(t, testkit.ResultWithin(t, b.ended, testkit.Patience))
				}
				require.NoError(t, b.held.Unlock(t.Context()))
				if !leaves {
					require.NoError(t, testkit.ResultWithin(t, b.ended, testkit.Patience))
					h := <-b.grant
					b.requireWhole(h)
					_ = h.Unlock() // it may be too slow for its limit
				}
				testkit.Eventually(t, testkit.Patience, func() bool { return b.exists(b.keys...) == 0 }, "all are free")
			}})
		}
	}
	together(t, cells)
}
