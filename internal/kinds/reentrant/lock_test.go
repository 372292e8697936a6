package reentrant_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/kinds/reentrant"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Packages that each make their own object share the hold of their goroutine.
func TestNesting(t *testing.T) {
	b := locktest.NewBench(t)
	other := relock.NewReentrantLock("k", b.Other)
	for depth := 1; depth <= 5; depth++ {
		require.NoError(t, relock.NewReentrantLock("k", b.Client).Lock(t.Context()))
		b.RequireLevels("k", depth)
	}
	for depth := 4; depth >= 1; depth-- {
		require.NoError(t, relock.NewReentrantLock("k", b.Client).Unlock(t.Context()))
		b.RequireLevels("k", depth)
		require.ErrorIs(t, other.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	}
	require.NoError(t, relock.NewReentrantLock("k", b.Client).Unlock(t.Context()))
	b.RequireFree("k")
	require.ErrorIs(t, relock.NewReentrantLock("k", b.Client).Unlock(t.Context()), relock.ErrNotHeld)
	require.NoError(t, other.TryLock(t.Context()))
}

func TestAnotherGoroutineIsAnotherOwner(t *testing.T) {
	b := locktest.NewBench(t)
	l := relock.NewReentrantLock("k", b.Client)
	require.NoError(t, l.Lock(t.Context()))
	require.ErrorIs(t, <-testkit.Async(t, func() error { return l.TryLock(t.Context()) }), relock.ErrLockAcquiredByOthers)
	require.ErrorIs(t, <-testkit.Async(t, func() error { return l.Unlock(t.Context()) }), relock.ErrNotHeld)
	b.RequireLevels("k", 1)
}

// Goroutines that are started inside Do with its context, or with the context
// of the hold, are the same owner.
func TestContextCarriesTheOwner(t *testing.T) {
	b := locktest.NewBench(t)
	l := relock.NewReentrantLock("k", b.Client)
	err := l.Do(t.Context(), func(ctx context.Context) error {
		h, ok := relock.HoldFromContext(ctx, "k")
		require.True(t, ok)
		for _, ctx := range []context.Context{ctx, h.Context()} {
			require.ErrorIs(t, <-testkit.Async(t, func() error {
				return l.Do(ctx, func(context.Context) error {
					b.RequireLevels("k", 2)
					return locktest.ErrMine
				})
			}), locktest.ErrMine)
		}
		b.RequireLevels("k", 1)
		return l.Do(ctx, func(ctx context.Context) error {
			return l.Do(ctx, func(context.Context) error { return locktest.ErrMine })
		})
	})
	require.Equal(t, locktest.ErrMine, err) //nolint:testifylint // identity is meant
	b.RequireFree("k")
}

func TestOwnerOrder(t *testing.T) {
	b := locktest.NewBench(t)
	identity := locktest.Engine(b.Client).Identity
	l := relock.NewReentrantLock("k", b.Client)
	target := locktest.NewTarget(b.Client, "k", lockspec.Reentrant)
	id := func(ctx context.Context) string {
		owner, err := target.Owner(ctx)
		require.NoError(t, err)
		return owner.ID
	}
	require.Equal(t, identity.Goroutine(), id(t.Context()))
	require.Equal(t, identity.Named("of the context"), id(relock.ContextWithOwner(t.Context(), "of the context")))

	h := locktest.Take(t, locktest.Owned("holder", relock.NewReentrantLock("k", b.Client)).Acquire)
	inside := relock.ContextWithOwner(h.Context(), "of the context")
	require.Equal(t, identity.Named("holder"), id(inside), "a valid hold comes first")
	require.NoError(t, h.Unlock(t.Context()))
	require.Equal(t, identity.Named("of the context"), id(inside), "one that is over does not count")

	_, err := target.Owner(relock.ContextWithOwner(t.Context(), ""))
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.ErrorIs(t, l.Lock(relock.ContextWithOwner(t.Context(), "")), relock.ErrInvalid)
}

// A hold of another name, client or kind in the context is no owner of this
// lock. A name in the context is an owner of one client.
func TestOwnersOfOthersInTheContext(t *testing.T) {
	b := locktest.NewBench(t)
	h := locktest.Take(t, relock.NewReentrantLock("k", b.Client).Acquire)
	require.ErrorIs(t, relock.NewReentrantLock("k", b.Other).TryLock(h.Context()), relock.ErrLockAcquiredByOthers)
	require.NoError(t, relock.NewReentrantLock("another", b.Client).TryLock(h.Context()))
	require.ErrorIs(t, relock.NewRedisLock("k", b.Client).TryLock(h.Context()), relock.ErrKeyConflict)

	ctx := relock.ContextWithOwner(t.Context(), "job")
	named := relock.NewReentrantLock("named", b.Client)
	require.NoError(t, named.Lock(ctx))
	require.NoError(t, <-testkit.Async(t, func() error { return named.Lock(ctx) }), "the same owner")
	require.ErrorIs(t, relock.NewReentrantLock("named", b.Other).TryLock(ctx), relock.ErrLockAcquiredByOthers)
	b.RequireLevels("named", 2)
}

// Goroutines with one owner may all wait, and none keeps the others from
// trying. Their levels add up.
func TestOneOwnerManyGoroutines(t *testing.T) {
	b := locktest.NewBench(t)
	holder := locktest.Take(t, relock.NewReentrantLock("k", b.Other).Acquire)
	l := locktest.Owned("shared", relock.NewReentrantLock("k", b.Client, relock.WithBlock()))
	all := func(call func(context.Context) error, meanwhile func()) {
		var results []<-chan error
		for range 100 {
			results = append(results, testkit.Async(t, func() error { return call(t.Context()) }))
		}
		meanwhile()
		for _, result := range results {
			locktest.RequireGranted(t, result)
		}
	}
	all(l.Lock, func() {
		testkit.Eventually(t, testkit.Patience, func() bool { return b.Client.Stats().Waiting == 100 }, "all wait")
		require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
		require.NoError(t, holder.Unlock(t.Context()))
	})
	b.RequireLevels("k", 100)
	all(l.Unlock, func() {})
	b.RequireFree("k")
}

// A level with a shorter lease does not shorten the lease of the levels around
// it, and one with a longer lease extends it.
func TestReentryDoesNotShorten(t *testing.T) {
	b := locktest.NewBench(t)
	with := func(lease time.Duration) relock.Hold {
		return locktest.Take(t, relock.NewReentrantLock("k", b.Client, relock.WithExpiry(lease)).Acquire)
	}
	outer := with(30 * time.Second)
	until := outer.ValidUntil()
	inner := with(3 * time.Second)
	require.Greater(t, b.TTL("k"), 10*time.Second)
	require.Equal(t, until, outer.ValidUntil())
	require.NoError(t, inner.Unlock(t.Context()))
	require.Greater(t, b.TTL("k"), 10*time.Second)
	require.NoError(t, outer.Err())

	with(60 * time.Second)
	require.Greater(t, b.TTL("k"), 30*time.Second)
	require.Greater(t, time.Until(outer.ValidUntil()), 30*time.Second)
}

// An inner Unlock neither releases nor shortens nor stops the renewal of the
// outer level.
func TestInnerUnlockLeavesTheOuterRenewed(t *testing.T) {
	b := locktest.NewBench(t)
	const lease = 4500 * time.Millisecond
	l := relock.NewReentrantLock("k", b.Client, relock.WithWatchdog(lease))
	outer := locktest.Take(t, l.Acquire)
	require.NoError(t, l.Do(t.Context(), locktest.Nothing))
	for range 2 {
		locktest.AwaitRenewal(t, outer, testkit.Patience)
		require.NoError(t, outer.Err())
		locktest.RequireHeld(t, b.Server, b.Client, "k")
	}
	require.NoError(t, outer.Unlock(t.Context()))
	b.RequireFree("k")
}

// A watched level inside one that is not: the renewal ends with it, and the
// hold ends at the last validity.
func TestRenewalEndsWithTheLastWatchedLevel(t *testing.T) {
	b := locktest.NewBench(t)
	const lease = 3 * time.Second
	outer := locktest.Take(t, relock.NewReentrantLock("k", b.Client, relock.WithExpiry(lease)).Acquire)
	inner := locktest.Take(t, relock.NewReentrantLock("k", b.Client, relock.WithWatchdog(lease)).Acquire)
	locktest.AwaitRenewal(t, outer, testkit.Patience)
	locktest.RequireHeld(t, b.Server, b.Client, "k")
	require.NoError(t, inner.Unlock(t.Context()))
	due := locktest.SetAlarm(t, outer.ValidUntil())
	require.ErrorIs(t, testkit.EndedWithin(t, outer.Context(), testkit.Patience), relock.ErrLockLost)
	require.NoError(t, due.Prompt())
	require.ErrorIs(t, outer.Unlock(t.Context()), relock.ErrLockLost)
}

// Frequent short levels do not put off the renewal of the outer one.
func TestShortLevelsDoNotDelayTheRenewal(t *testing.T) {
	b := locktest.NewBench(t)
	const lease = 6 * time.Second
	outer := locktest.Take(t, relock.NewReentrantLock("k", b.Client, relock.WithWatchdog(lease)).Acquire)
	// valid for less than is required below
	short := relock.NewReentrantLock("k", b.Client, relock.WithWatchdog(lease*3/8))
	watch, oldest := testkit.NewStopwatch(t), time.Duration(0)
	for end := time.Now().Add(lease * 26 / 25); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		require.NoError(t, short.Do(t.Context(), locktest.Nothing))
		oldest = max(oldest, lease-time.Until(outer.ValidUntil()))
	}
	watch.Check(oldest, lease*7/12, "not renewed for as long")
	require.NoError(t, outer.Unlock(t.Context()))
}

// Re-entry into a lost hold is ErrLockLost until its outermost Unlock.
func TestReentryIntoALostHold(t *testing.T) {
	b := locktest.NewBench(t)
	l := relock.NewReentrantLock("k", b.Client)
	h := locktest.Take(t, l.Acquire)
	require.NoError(t, l.Lock(t.Context()))
	b.Forget("k")

	require.ErrorIs(t, l.Lock(t.Context()), relock.ErrLockLost, "found by the re-entry, which does not revive it")
	b.RequireFree("k")
	require.ErrorIs(t, context.Cause(h.Context()), relock.ErrLockLost)
	require.ErrorIs(t, relock.NewReentrantLock("k", b.Client, relock.WithBlock()).Lock(t.Context()), relock.ErrLockLost,
		"immediately, also if it may wait")
	require.ErrorIs(t, <-testkit.Async(t, func() error { return l.Lock(context.WithoutCancel(h.Context())) }),
		relock.ErrLockLost, "the same owner by the context")

	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost)
	require.ErrorIs(t, l.Lock(t.Context()), relock.ErrLockLost, "one level is left")
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost)
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)
	require.NoError(t, l.Lock(t.Context()))
	b.RequireLevels("k", 1)
	require.NoError(t, l.Unlock(t.Context()))

	h = locktest.Take(t, l.Acquire)
	require.NoError(t, l.Lock(t.Context()))
	b.Forget("k")
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost, "found by an inner Unlock")
	require.ErrorIs(t, h.Err(), relock.ErrLockLost)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
}

// The maximum hold of one level ends that level. The others go on, and the
// count is right.
func TestMaxHoldOfOneLevel(t *testing.T) {
	b := locktest.NewBench(t)
	l := relock.NewReentrantLock("k", b.Client)
	outer := locktest.Take(t, l.Acquire)
	inner := locktest.Take(t, relock.NewReentrantLock("k", b.Client, relock.WithMaxHold(2*time.Second)).Acquire)
	locktest.RequireEnds(t, inner, relock.ErrMaxHold)
	require.NoError(t, outer.Err())
	owner := locktest.Engine(b.Client).Identity.Goroutine()
	locktest.EventuallyWithin(t, time.Second, func() bool {
		n, err := redis.Int(b.Server.Try(t, "HGET", b.Key("k"), owner))
		return err == nil && n == 1
	}, "the server counts one level")
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrMaxHold, "the newest level is the one that has ended")
	require.NoError(t, outer.Err())
	require.NoError(t, l.Unlock(t.Context()))
	b.RequireFree("k")
}

// The outer level ended by its maximum hold, and the inner one is unlocked:
// nothing is held, but the outer Unlock is still owed.
func TestMaxHoldOfTheOuterLevel(t *testing.T) {
	b := locktest.NewBench(t)
	outer := locktest.Take(t, relock.NewReentrantLock("k", b.Client, relock.WithMaxHold(3*time.Second)).Acquire)
	l := relock.NewReentrantLock("k", b.Client)
	require.NoError(t, l.Lock(t.Context()))
	locktest.RequireEnds(t, outer, relock.ErrMaxHold)
	require.NoError(t, l.Unlock(t.Context()))
	b.RequireFree("k")
	require.ErrorIs(t, l.Lock(t.Context()), relock.ErrLockLost)
	require.ErrorIs(t, outer.Unlock(t.Context()), relock.ErrMaxHold)
	require.NoError(t, l.Lock(t.Context()))
}

func TestMinHoldOfALevel(t *testing.T) {
	b := locktest.NewBench(t)
	l := relock.NewReentrantLock("k", b.Client)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, relock.NewReentrantLock("k", b.Client, relock.WithMinHold(15*time.Second)).Lock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
	require.Greater(t, b.TTL("k"), 20*time.Second, "the outer level is still held")
	require.NoError(t, l.Unlock(t.Context()))
	require.InDelta(t, 10*time.Second, b.TTL("k"), float64(5*time.Second))
	require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
}

// The first attempt of a call that may wait is made before the call queues. If
// the server has executed it and did not answer, its hold is released. The call
// would wait for its own hold otherwise.
func TestFirstAttemptWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	c := locktest.NewFaultBench(t, locktest.NewServerWithScripts(t), relock.WithCommandTimeout(2*time.Second))
	l := relock.NewReentrantLock("k", c.Client, relock.WithBlock(), relock.WithExpiry(time.Hour))
	c.Proxy.On(faults.Script(script.ReentrantAcquire.SHA), 1, faults.DropAnswer)
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	require.NoError(t, l.Lock(ctx))
	require.Equal(t, 1, l.HoldCount(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
}

// Goroutines of one owner take turns: the lock is transferred to the owner that
// has it.
func TestTransferToTheSameOwner(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.ReentrantUnfair, 2)
	h := q.Take(q.Clients[0])
	l := reentrant.New(locktest.NewTarget(q.Clients[0], locktest.QueueKey, lockspec.Reentrant))
	var actAs func(*lease.Owner, string)
	var next *lease.Hold
	waits := testkit.Async(t, func() (err error) {
		next, err = l.TakeAs(t.Context(), func(as func(*lease.Owner, string)) { actAs = as })
		return err
	})
	testkit.Eventually(t, testkit.Patience, func() bool { return q.Clients[0].Stats().Waiting == 1 }, "waits")
	e := locktest.Engine(q.Clients[0])
	key := lease.OwnerKey{Lock: locktest.QueueKey, ID: locktest.Level(h).Owner(), Family: lockspec.ReentrantFamily}
	o := e.Owners.Enter(key)
	defer o.Exit()
	// as if it had waited before its owner was granted the lock
	actAs(o, key.ID)
	q.UnlockFresh(h)
	require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
	require.Equal(t, 1, q.QueueLength(), "handed off with its entry, which is retained")
	held, _ := relock.HoldFromContext(next.Context(), next.Key())
	q.RequireStored(held, 1)
	q.Unlock(held)
	q.RequireNothingLeft()
}
