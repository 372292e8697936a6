package acquire_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/locktest"
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
	client, other *relock.Client
	keys          []string
	held          relock.Hold
	grant         chan *lease.Hold
	ended         <-chan error
}

func newWayBench(ctx context.Context, t testing.TB, s *redistest.Server, c *relock.Client, opts ...relock.LockOption) *wayBench {
	b := &wayBench{TB: t, server: s, client: c, other: locktest.Sibling(t, s, c), keys: []string{"a", "b", "c", "d"}, grant: make(chan *lease.Hold, 1)}
	var err error
	b.held, err = relock.NewRedisLock("c", b.other).Acquire(t.Context())
	require.NoError(t, err)
	l := relock.NewMultiLock(b.keys, c, append([]relock.LockOption{relock.WithBlock(), relock.WithExpiry(wayLease)}, opts...)...)
	b.ended = testkit.Async(t, func() error {
		h, err := locktest.Multi(l).TakeKeeping(ctx)
		b.grant <- h
		return err
	})
	return b
}

func (b *wayBench) exists(keys ...string) (n int64) {
	for _, key := range keys {
		n += b.server.Do(b, "EXISTS", locktest.KeyOf(b.client, key)).(int64)
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
		left := locktest.Pttl(b, b.server, b.client, key)
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
			c := locktest.NewTestClient(t, s)
			locktest.Engine(c).OneByOne.Store(apart)
			b := newWayBench(t.Context(), t, s, c)
			b.awaitKept()
			require.LessOrEqual(t, locktest.Pttl(t, s, c, "a"), wayLease/2)
			require.LessOrEqual(t, locktest.Pttl(t, s, c, "b"), wayLease/2)
			require.Zero(t, b.exists("d"))
			require.Empty(t, locktest.Believed(c), "what is kept is no part of a hold")

			require.NoError(t, b.held.Unlock(t.Context()))
			require.NoError(t, testkit.ResultWithin(t, b.ended, testkit.Patience))
			h := <-b.grant
			b.requireWhole(h)
			require.Greater(t, time.Until(h.ValidUntil()), wayLease/2)
			require.NoError(t, h.Unlock())
			locktest.RequireNoQueues(t, s, c, b.keys...)
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
	c := locktest.NewTestClient(t, s)
	locktest.Engine(c).OneByOne.Store(apart)
	b := newWayBench(ctx, t, s, c)
	b.awaitKept()
	next := testkit.Async(t, func() error { return relock.NewRedisLock("a", b.other, relock.WithBlock()).Lock(t.Context()) })
	testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "ZCARD", locktest.KeyOf(c, "a")+":q") == int64(1) }, "another caller waits")
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
	c := locktest.NewTestClient(t, s)
	b := newWayBench(t.Context(), t, s, c)
	b.awaitKept()
	h, err := relock.NewRedisLock("a", b.other, relock.WithBlock()).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, b.held.Err(), "it has held this one all the time")
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, b.held.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, b.ended, testkit.Patience))
	require.NoError(t, (<-b.grant).Unlock())
	locktest.RequireNoQueues(t, s, c, b.keys...)
}

// A key that was kept and is another's now is left to it. The keys behind it
// are returned.
func TestMultiLockLosesAKeptKey(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s)
	b := newWayBench(t.Context(), t, s, c, relock.WithPollInterval(2*time.Second), relock.WithExpiry(40*time.Second)) // kept for 16 s
	b.awaitKept()
	s.Do(t, "DEL", locktest.KeyOf(c, "a"))
	h, err := relock.NewRedisLock("a", b.other).TryAcquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, b.held.Unlock(t.Context()))
	testkit.Eventually(t, testkit.Patience, func() bool { return b.exists("b", "c", "d") == 0 }, "it has returned all")
	require.Zero(t, scripttest.InfoField(t, s, "stats", "expired_keys"))
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, testkit.ResultWithin(t, b.ended, testkit.Patience))
	require.NoError(t, (<-b.grant).Unlock())
	locktest.RequireNoQueues(t, s, c, b.keys...)
}

// After one message of a try that keeps keys is lost, late or doubled, the call
// gets its hold with whole leases, or leaves nothing.
func TestOneFaultInATryThatKeeps(t *testing.T) {
	t.Parallel()
	s := locktest.NewFaultServer(t)
	var cells []locktest.CellRun
	for name, action := range map[string]faults.Action{
		"request dropped": faults.DropRequest, "answer dropped": faults.DropAnswer, "cut before": faults.CutBefore, "cut after": faults.CutAfter,
		"doubled": faults.Double, "late": faults.DelayRequest(wayLease / 2), "error line": faults.ExecuteThenError("LOADING Redis is loading the dataset in memory"),
	} {
		for _, leaves := range []bool{false, true} {
			cells = append(cells, locktest.CellRun{Name: name + map[bool]string{true: ", and the caller leaves"}[leaves], Run: func(t testing.TB) {
				proxy := faults.Start(t, s.Network, s.Address)
				c := locktest.NewTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, relock.WithCommandTimeout(wayLease/4))
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
	locktest.Together(t, cells)
}
