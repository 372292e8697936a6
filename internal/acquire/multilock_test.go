package acquire_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// All keys are taken and freed together. A name that is given twice counts
// once.
func TestMultiLockTakesAllKeysAndFreesThem(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	other := locktest.Sibling(t, s, c)
	l := relock.NewMultiLock([]string{"c", "a", "b", "a"}, c)
	require.NoError(t, l.Validate())
	require.NoError(t, l.Lock(t.Context()))
	require.Equal(t, "a,b,c", locktest.Multi(l).Held().Key())
	for _, key := range []string{"a", "b", "c"} {
		require.InDelta(t, 30*time.Second, locktest.Pttl(t, s, c, key), float64(time.Second))
		require.ErrorIs(t, relock.NewRedisLock(key, other).TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	}
	require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	require.NoError(t, l.Unlock(t.Context()))
	for _, key := range []string{"a", "b", "c"} {
		locktest.RequireFree(t, s, c, key)
	}
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)
}

// When one key is held none is taken, and the error says which one it was.
func TestMultiLockTakesNothingWhenOneKeyIsHeld(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	require.NoError(t, relock.NewRedisLock("b", locktest.Sibling(t, s, c)).Lock(t.Context()))
	err := relock.NewMultiLock([]string{"c", "b", "a"}, c).Lock(t.Context())
	require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
	require.EqualError(t, err, `relock: lock "a,b,c": lock is held by others: key "b"`)
	locktest.RequireFree(t, s, c, "a")
	locktest.RequireFree(t, s, c, "c")
}

func TestMultiLockMistakes(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t)
	var many []string
	for i := range 100 + 1 {
		many = append(many, fmt.Sprint(i))
	}
	for name, tt := range map[string]struct {
		lock *relock.MultiLock
		want []string
	}{
		"no keys":        {relock.NewMultiLock(nil, c), []string{"there are none"}},
		"too many":       {relock.NewMultiLock(many, c), []string{"more than 100"}},
		"a bad key":      {relock.NewMultiLock([]string{"a", "}", ""}, c), []string{"closing brace", "is empty"}},
		"no client":      {relock.NewMultiLock([]string{"a"}, nil), []string{"NewClient"}},
		"bad options":    {relock.NewMultiLock([]string{"a"}, c, relock.WithFair(), relock.WithOwner("x"), relock.WithMaxLease(time.Second)), []string{"WithFair", "WithOwner", "WithMaxLease"}},
		"the zero value": {&relock.MultiLock{}, []string{"constructor"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{tt.lock.Validate(), tt.lock.Lock(t.Context()), tt.lock.Unlock(t.Context()), tt.lock.Do(t.Context(), locktest.Nothing)} {
				require.ErrorIs(t, err, relock.ErrInvalid)
				for _, text := range tt.want {
					require.ErrorContains(t, err, text)
				}
			}
		})
	}
	require.NoError(t, relock.NewMultiLock(append(many[:100], "1", "2"), c).Validate(), "the same ones again do not count")
	fair := locktest.Unconnected(t, relock.WithFair(), relock.WithOwner("x"), relock.WithMaxLease(time.Second))
	require.NoError(t, relock.NewMultiLock([]string{"a"}, fair).Validate(), "defaults that it cannot honour are ignored")
	require.False(t, locktest.Target(relock.NewMultiLock([]string{"a"}, fair)).Settings.Fair)
}

// The hold is that of all keys: it ends when one of them is lost, and the others are given back.
func TestMultiLockIsLostWithOneKey(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	var log locktest.LogBuffer
	c := locktest.NewTestClient(t, s, log.Option())
	h, err := relock.NewMultiLock([]string{"a", "b", "c"}, c, relock.WithWatchdog(3*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	ctx := h.Context()
	locktest.AwaitRenewal(t, h, 5*time.Second)
	require.NoError(t, h.Err())
	s.Do(t, "DEL", locktest.KeyOf(c, "b"))
	require.ErrorIs(t, testkit.EndedWithin(t, ctx, 5*time.Second), relock.ErrLockLost)
	require.ErrorIs(t, h.Err(), relock.ErrLockLost)
	require.Zero(t, h.ValidUntil())
	err = h.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrLockLost)
	require.ErrorIs(t, err, relock.ErrNotHeld)
	testkit.Eventually(t, time.Second, func() bool { return s.Do(t, "EXISTS", locktest.KeyOf(c, "a"), locktest.KeyOf(c, "c")) == int64(0) }, "the others are given back")
	testkit.Eventually(t, testkit.Patience, func() bool { return strings.Contains(log.String(), "relock: lock lost") }, "said")
	require.Equal(t, 1, strings.Count(log.String(), "relock: lock lost"), "said once")
}

func TestMultiLockBelief(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	start := time.Now()
	const length = 10 * time.Second
	h, err := relock.NewMultiLock([]string{"a", "b"}, c, relock.WithExpiry(length)).Acquire(t.Context())
	require.NoError(t, err)
	end := time.Now()
	until := h.ValidUntil()
	require.False(t, until.Before(start.Add(length-lease.Drift(length))))
	require.False(t, until.After(end.Add(length-lease.Drift(length))))

	// One key is extended, the other is not: the hold is valid until the first one ends.
	one := locktest.MembersOf(h)[0]
	require.NoError(t, one.Extend(t.Context(), time.Minute))
	require.Equal(t, until, h.ValidUntil())
	require.NoError(t, h.Extend(t.Context(), 20*time.Second))
	require.Greater(t, time.Until(h.ValidUntil()), 18*time.Second)
	require.Greater(t, locktest.Pttl(t, s, c, "b"), 18*time.Second)
	require.ErrorIs(t, h.Extend(t.Context(), time.Microsecond), relock.ErrInvalid)
	require.NoError(t, h.Unlock(t.Context()))
	require.ErrorIs(t, h.Extend(t.Context(), time.Minute), relock.ErrNotHeld)
}

func TestMultiLockExpires(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	h, err := relock.NewMultiLock([]string{"a", "b"}, c, relock.WithExpiry(2400*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	until := h.ValidUntil()
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 5*time.Second), relock.ErrLockLost)
	require.False(t, time.Now().Before(until))
}

func TestMultiLockLimitsOfAHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	h, err := relock.NewMultiLock([]string{"a", "b"}, c, relock.WithMaxHold(time.Second), relock.WithLabel("nightly")).Acquire(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(s.Do(t, "GET", locktest.KeyOf(c, "a")).([]byte)), "|nightly|")
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 5*time.Second), relock.ErrMaxHold)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrMaxHold)
	testkit.Eventually(t, time.Second, func() bool { return s.Do(t, "EXISTS", locktest.KeyOf(c, "a"), locktest.KeyOf(c, "b")) == int64(0) }, "given back")

	h, err = relock.NewMultiLock([]string{"a", "b"}, c, relock.WithMinHold(2*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
	require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
	locktest.RequireHeld(t, s, c, "a")
	testkit.Eventually(t, 5*time.Second, func() bool { return s.Do(t, "EXISTS", locktest.KeyOf(c, "a"), locktest.KeyOf(c, "b")) == int64(0) }, "the minimum is over")
}

func TestMultiLockKindsOnOneKey(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range map[string]func(*relock.Client) locktest.AnyLock{
		"reentrant": func(c *relock.Client) locktest.AnyLock { return relock.NewReentrantLock("b", c) },
		"fair":      func(c *relock.Client) locktest.AnyLock { return relock.NewRedisLock("b", c, relock.WithFair()) },
	} {
		t.Run(name, func(t *testing.T) {
			c := locktest.NewTestClient(t, s)
			require.NoError(t, newLock(locktest.Sibling(t, s, c)).Lock(t.Context()))
			err := relock.NewMultiLock([]string{"a", "b"}, c, relock.WithBlock()).Lock(t.Context())
			require.ErrorIs(t, err, relock.ErrKeyConflict)
			require.ErrorContains(t, err, `key "b"`)
			locktest.RequireFree(t, s, c, "a")
		})
	}
}

// The keys' holds are found in the context, under each name and that of all.
func TestMultiLockInAContext(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewMultiLock([]string{"a", "b"}, c, relock.WithBlock())
	err := l.Do(t.Context(), func(ctx context.Context) error {
		for _, name := range []string{"a", "b", "a,b"} {
			h, ok := relock.HoldFromContext(ctx, name)
			require.True(t, ok, name)
			require.Equal(t, "a,b", h.Key())
			require.NoError(t, h.Err())
		}
		_, ok := relock.HoldFromContext(ctx, "c")
		require.False(t, ok)
		// Each of these would wait for itself.
		require.ErrorIs(t, relock.NewRedisLock("a", c, relock.WithBlock()).Lock(ctx), relock.ErrInvalid)
		require.ErrorIs(t, relock.NewMultiLock([]string{"b", "c"}, c, relock.WithBlock()).Lock(ctx), relock.ErrInvalid)
		require.ErrorIs(t, l.Lock(ctx), relock.ErrInvalid)
		require.NoError(t, relock.NewRedisLock("a,b", c, relock.WithBlock()).Do(ctx, locktest.Nothing), "another name")
		return locktest.ErrMine
	})
	require.ErrorIs(t, err, locktest.ErrMine)
	locktest.RequireFree(t, s, c, "a")
	require.NoError(t, relock.NewRedisLock("a", c).Do(t.Context(), func(ctx context.Context) error {
		require.ErrorIs(t, l.Lock(ctx), relock.ErrInvalid)
		return nil
	}))
}

// One object that goroutines share is taken from Lock to the matching Unlock, also when the hold is lost in between.
func TestMultiLockIsShared(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewMultiLock([]string{"a", "b"}, c, relock.WithBlock())
	require.NoError(t, l.Lock(t.Context()))
	second := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	s.Do(t, "DEL", locktest.KeyOf(c, "a"), locktest.KeyOf(c, "b"))
	select {
	case err := <-second:
		require.FailNow(t, "granted before the Unlock", "%v", err)
	case <-time.After(300 * time.Millisecond):
	}
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost)
	require.NoError(t, testkit.ResultWithin(t, second, 5*time.Second))
	require.NoError(t, l.Unlock(t.Context()))

	counter, done := 0, make(chan error, 8)
	for range cap(done) {
		testkit.Async(t, func() error {
			var err error
			for range 20 {
				err = errors.Join(err, l.Do(t.Context(), func(context.Context) error { counter++; return nil }))
			}
			done <- err
			return nil
		})
	}
	for range cap(done) {
		require.NoError(t, <-done)
	}
	require.Equal(t, 160, counter)
	locktest.RequireNoQueues(t, s, c, "a", "b")
}

func TestMultiLockOutcomes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s, relock.WithCommandTimeout(2*time.Second))
	keys := []string{"a", "b"}
	l := relock.NewMultiLock(keys, c)
	require.NoError(t, l.Lock(t.Context()))
	s.Do(t, "DEL", locktest.KeyOf(c, "b"))
	err := l.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrLockLost, "one key was")
	require.ErrorIs(t, err, relock.ErrNotHeld)

	require.NoError(t, l.Lock(t.Context()))
	s.Pause(t)
	err = l.Unlock(t.Context())
	s.Resume(t)
	require.ErrorIs(t, err, relock.ErrUnconfirmed)
	require.NotErrorIs(t, err, relock.ErrLockLost)
	locktest.RequireNoQueues(t, s, c, keys...)

	err = l.Do(t.Context(), func(context.Context) error {
		s.Do(t, "FLUSHALL")
		return locktest.ErrMine
	})
	require.ErrorIs(t, err, locktest.ErrMine)
	require.ErrorIs(t, err, relock.ErrLockLost)

	s.Kill(t)
	err = l.Lock(t.Context())
	require.Error(t, err)
	require.True(t, relock.IsRetryableErr(err), "%v", err)
}

// An Unlock that finds one key lost returns when the others are free.
func TestMultiLockUnlockWaitsForTheKeysThatAreLeft(t *testing.T) {
	t.Parallel()
	s := locktest.NewFaultServer(t)
	proxy := faults.Start(t, s.Network, s.Address)
	c := locktest.NewTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
	l := relock.NewMultiLock([]string{"a", "b"}, c)
	require.NoError(t, l.Lock(t.Context()))
	s.Do(t, "DEL", locktest.KeyOf(c, "b"))
	proxy.On(func(args []string) bool { return slices.Contains(args, locktest.KeyOf(c, "a")) }, 1, faults.DelayRequest(200*time.Millisecond))
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost)
	require.Equal(t, int64(0), s.Do(t, "EXISTS", locktest.KeyOf(c, "a")))
}

// To unlock many keys takes no longer than one command may, also when the server is silent.
func TestMultiLockUnlocksInTime(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s, relock.WithCommandTimeout(limit))
	var keys []string
	for n := range 97 {
		keys = append(keys, fmt.Sprint("key", n))
	}
	h, err := relock.NewMultiLock(keys, c).Acquire(t.Context())
	require.NoError(t, err)
	s.Pause(t)
	start := time.Now()
	err = h.Unlock(t.Context())
	took := time.Since(start)
	s.Resume(t)
	require.ErrorIs(t, err, relock.ErrUnconfirmed)
	require.Less(t, took, 2*limit)
	locktest.RequireNoQueues(t, s, c, keys...)
}

// An operator's end of one key is the end of the hold, which is told so.
func TestMultiLockForced(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Patient(locktest.NewTestClient(t, s))
	keys := []string{"a", "b"}
	l := relock.NewMultiLock(keys, c)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, locktest.Sibling(t, s, c).ForceUnlock(t.Context(), "b", "hangs"))
	err := l.Unlock(t.Context())
	for _, want := range []error{relock.ErrForced, relock.ErrLockLost, relock.ErrNotHeld} {
		require.ErrorIs(t, err, want)
	}
	require.ErrorContains(t, err, `key "b"`)
	// The other key is given back by whoever hears of the loss first, which may be the message.
	h, err := relock.NewMultiLock(keys, c, relock.WithWatchdog(3*time.Second), relock.WithBlock()).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, locktest.Sibling(t, s, c).ForceUnlock(t.Context(), "a", "hangs"))
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 5*time.Second), relock.ErrForced)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrForced)
	locktest.RequireNoQueues(t, s, c, keys...)
}
