package multilock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kinds/multilock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A call that waits is woken at its first busy key, and goes on to another one
// that is held by then.
func TestMultiLockWaits(t *testing.T) {
	b := locktest.NewBench(t)
	keys := []string{"a", "b", "c"}
	first, last := b.Hold("a"), b.Hold("c")
	l := relock.NewMultiLock(keys, b.Client, append(locktest.PolledSeldom(), relock.WithBlock())...)
	got := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	b.AwaitWaiter("a")
	require.False(t, b.HasWaiter("c"), "it waits for no other key")
	b.RequireFree("b")
	next := b.Hold("b")
	require.NoError(t, first.Unlock(t.Context()))
	testkit.Eventually(t, testkit.Patience, func() bool { return b.HasWaiter("b") && !b.HasWaiter("a") },
		"goes on to the next one")
	b.AwaitFree("a")
	require.NoError(t, next.Unlock(t.Context()))
	testkit.Eventually(t, testkit.Patience, func() bool { return b.HasWaiter("c") && !b.HasWaiter("b") },
		"and to the last")
	require.NoError(t, last.Unlock(t.Context()))
	locktest.RequireGranted(t, got)
	b.RequireHeld(keys...)
	require.NoError(t, l.Unlock(t.Context()))
	b.RequireNothingLeft(keys...)
}

// A MultiLock that waits releases the key that it cannot use with the request
// that finds so: it needs no other connection, though the server refuses one.
func TestMultiLockReturnsAKeyWithoutAnotherConnection(t *testing.T) {
	t.Parallel()
	b := locktest.BenchOn(t, redistest.Start(t))
	first, second := b.Hold("a"), b.Hold("b")
	l := relock.NewMultiLock([]string{"a", "b"}, b.Client, relock.WithBlock())
	got := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	locktest.AwaitSubscribed(t, b.Server, b.Key("a"), b.Client)
	full := redistest.FillUp(t, b.Server)
	ask := func(command string, args ...any) any {
		t.Helper()
		reply, err := full.Control.Do(command, args...)
		require.NoError(t, err)
		return reply
	}
	require.NoError(t, first.Unlock(t.Context()))
	testkit.Eventually(t, testkit.Patience, func() bool { return ask("ZCARD", b.Key("b")+":q") == int64(1) },
		"it waits for the other key")
	require.Equal(t, int64(0), ask("EXISTS", b.Key("a")), "the first key is free")
	require.NoError(t, second.Unlock(t.Context()))
	locktest.RequireGranted(t, got)
	ask("CONFIG", "SET", "maxclients", 1000)
	require.NoError(t, l.Unlock(t.Context()))
}

// A client that asks for one key after another releases a key that it cannot
// use as well.
func TestMultiLockOneByOneReturnsAKey(t *testing.T) {
	b := locktest.NewBench(t)
	locktest.Engine(b.Client).OneByOne.Store(true)
	last := b.Hold("b")
	l := relock.NewMultiLock([]string{"a", "b"}, b.Client, relock.WithBlock())
	got := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	locktest.AwaitSubscribed(t, b.Server, b.Key("b"), b.Client)
	first := b.Hold("a")
	require.NoError(t, last.Unlock(t.Context()))
	b.AwaitWaiter("a")
	b.AwaitFree("b")
	require.NoError(t, first.Unlock(t.Context()))
	locktest.RequireGranted(t, got)
	require.NoError(t, l.Unlock(t.Context()))
}

// keepLease is the lease of MultiLocks that keep keys. Half of it is the
// longest time for which they do.
const keepLease = 4 * time.Second

// keepBench has a MultiLock of a, b, c and d that keeps a and b while the other
// client holds c.
type keepBench struct {
	*locktest.Bench
	keys  []string
	held  relock.Hold
	grant chan *lease.Hold
	ended <-chan error
}

func newKeepBench(ctx context.Context, b *locktest.Bench, opts ...relock.LockOption) *keepBench {
	k := &keepBench{Bench: b, keys: []string{"a", "b", "c", "d"}, held: b.Hold("c"), grant: make(chan *lease.Hold, 1)}
	opts = append([]relock.LockOption{relock.WithBlock(), relock.WithExpiry(keepLease)}, opts...)
	l := multilock.New(locktest.NewTarget(b.Client, "a,b,c,d", lockspec.Multi, opts...), k.keys)
	k.ended = testkit.Async(b, func() error {
		h, err := l.TakeKeeping(ctx)
		k.grant <- h
		return err
	})
	return k
}

func (b *keepBench) awaitKept() {
	b.Helper()
	testkit.Eventually(b, testkit.Patience, func() bool { return b.Exists("a", "b") == 2 },
		"it keeps the keys before the one that is held")
}

// release ends the hold of c, and returns the hold of the call that waited.
func (b *keepBench) release() *lease.Hold {
	b.Helper()
	require.NoError(b, b.held.Unlock(b.Context()))
	locktest.RequireGranted(b, b.ended)
	return <-b.grant
}

// requireWhole checks that no key expires before the hold ends.
func (b *keepBench) requireWhole(h *lease.Hold) {
	b.Helper()
	for _, key := range b.keys {
		left := b.TTL(key)
		end, until := time.Now().Add(left), h.ValidUntil()
		require.False(b, end.Before(until), "%s ends in %v, %v before the hold", key, left, until.Sub(end))
	}
}

// A call keeps the keys before the one that it waits for, for half of the lease
// at most, and no others. The hold has whole leases.
func TestMultiLockKeepsKeys(t *testing.T) {
	testkit.Each(t, map[string]bool{"together": false, "one by one": true}, func(t *testing.T, _ string, apart bool) {
		b := locktest.BenchOn(t, redistest.Shared(t))
		locktest.Engine(b.Client).OneByOne.Store(apart)
		const length = time.Minute
		// kept for half of it
		k := newKeepBench(t.Context(), b, relock.WithExpiry(length), relock.WithPollInterval(length/10))
		k.awaitKept()
		require.LessOrEqual(t, b.TTL("a"), length/2)
		require.LessOrEqual(t, b.TTL("b"), length/2)
		b.RequireFree("d")
		require.Empty(t, locktest.ValidLeases(b.Client), "what is kept is no part of a hold")

		h := k.release()
		k.requireWhole(h)
		require.Greater(t, time.Until(h.ValidUntil()), length/2)
		require.NoError(t, h.Unlock())
		b.RequireNothingLeft(k.keys...)
	})
}

// A call returns what it keeps when its time is over, and when it is cancelled:
// the next waiter is notified, before the keys expire.
func TestMultiLockReturnsWhatItKeeps(t *testing.T) {
	type call struct{ leaves, apart bool }
	testkit.Each(t, map[string]call{
		"the time is over": {}, "its context is cancelled": {leaves: true}, "one by one": {apart: true},
	}, func(t *testing.T, _ string, tt call) {
		s := redistest.Start(t)
		watch := testkit.NewStopwatch(t)
		returnsWhatItKeeps(t, s, tt.leaves, tt.apart)
		if s.Info(t, "stats", "expired_keys") > 0 {
			watch.Check(longKeep/20, 0, "the keys expire") // a tenth of that time is left to return them
		}
	})
}

// longKeep is a lease of which half is the time for which keys are kept.
const longKeep = 16 * time.Second

func returnsWhatItKeeps(t *testing.T, s *redistest.Server, leaves, apart bool) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := locktest.BenchOn(t, s)
	locktest.Engine(b.Client).OneByOne.Store(apart)
	k := newKeepBench(ctx, b, relock.WithExpiry(longKeep), relock.WithPollInterval(longKeep/16))
	k.awaitKept()
	next := testkit.Async(t, func() error {
		return relock.NewRedisLock("a", b.Other, relock.WithBlock()).Lock(t.Context())
	})
	b.AwaitWaiter("a")
	if leaves {
		cancel()
	}
	locktest.RequireGranted(t, next)
	b.AwaitFree("b")
	cancel()
	require.ErrorIs(t, testkit.ResultWithin(t, k.ended, testkit.Patience), context.Canceled)
	require.Nil(t, <-k.grant)
	require.NoError(t, k.held.Unlock(t.Context()))
}

// A caller that holds one key and waits for another gets it, beside a MultiLock
// of both that keeps the one and waits for the other. Both get through.
func TestMultiLockBesideAHolderThatWaits(t *testing.T) {
	b := locktest.NewBench(t)
	k := newKeepBench(t.Context(), b, relock.WithExpiry(2*keepLease))
	k.awaitKept()
	h := b.Hold("a")
	require.NoError(t, k.held.Err(), "it has held this one all the time")
	require.NoError(t, h.Unlock(t.Context()))
	require.NoError(t, k.release().Unlock())
	b.RequireNothingLeft(k.keys...)
}

// A key that was kept and is another's now is left to it. The keys behind it
// are released.
func TestMultiLockLosesAKeptKey(t *testing.T) {
	t.Parallel()
	b := locktest.BenchOn(t, redistest.Start(t))
	// kept for 16 s
	k := newKeepBench(t.Context(), b, relock.WithPollInterval(2*time.Second), relock.WithExpiry(40*time.Second))
	k.awaitKept()
	b.Forget("a")
	h := locktest.Take(t, relock.NewRedisLock("a", b.Other).TryAcquire)
	require.NoError(t, k.held.Unlock(t.Context()))
	b.AwaitFree("b", "c", "d")
	require.Zero(t, b.Server.Info(t, "stats", "expired_keys"))
	require.NoError(t, h.Unlock(t.Context()))
	locktest.RequireGranted(t, k.ended)
	require.NoError(t, (<-k.grant).Unlock())
	b.RequireNothingLeft(k.keys...)
}

// After one message of a try that keeps keys is lost, late or doubled, the call
// gets its hold with whole leases, or leaves nothing.
func TestOneFaultInATryThatKeeps(t *testing.T) {
	t.Parallel()
	s := locktest.NewServerWithScripts(t)
	var cells []locktest.Subtest
	for name, action := range map[string]faults.Action{
		"request dropped": faults.DropRequest, "answer dropped": faults.DropAnswer,
		"cut before": faults.CutBefore, "cut after": faults.CutAfter,
		"doubled": faults.Double, "late": faults.DelayRequest(keepLease / 2),
		"error line": faults.ExecuteThenError("LOADING Redis is loading the dataset in memory"),
	} {
		for _, leaves := range []bool{false, true} {
			cells = append(cells, locktest.Subtest{Name: name +
				map[bool]string{true: ", and the caller leaves"}[leaves], Run: func(t testing.TB) {
				c, proxy := locktest.Behind(t, s, relock.WithCommandTimeout(keepLease/4))
				done := proxy.On(faults.Script(script.MultiAcquire.SHA), 1, action)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				k := newKeepBench(ctx, locktest.BenchOf(t, s, c))
				testkit.Next(t, done, "the fault did not happen")
				if leaves {
					cancel()
					require.Error(t, testkit.ResultWithin(t, k.ended, testkit.Patience))
					require.NoError(t, k.held.Unlock(t.Context()))
				} else {
					h := k.release()
					k.requireWhole(h)
					_ = h.Unlock() // it may be too slow for its limit
				}
				k.AwaitFree(k.keys...)
			}})
		}
	}
	locktest.RunTogether(t, cells)
}
