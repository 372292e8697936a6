package relock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// All keys are taken and freed together. A name that is given twice counts
// once.
func TestMultiLockTakesAllKeysAndFreesThem(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	other := sibling(t, s, c)
	l := NewMultiLock([]string{"c", "a", "b", "a"}, c)
	require.NoError(t, l.Validate())
	require.NoError(t, l.Lock(t.Context()))
	require.Equal(t, "a,b,c", l.multi.Held().Key())
	for _, key := range []string{"a", "b", "c"} {
		require.InDelta(t, 30*time.Second, pttl(t, s, c, key), float64(time.Second))
		require.ErrorIs(t, NewRedisLock(key, other).TryLock(t.Context()), ErrLockAcquiredByOthers)
	}
	require.ErrorIs(t, l.TryLock(t.Context()), ErrLockAcquiredByOthers)
	require.NoError(t, l.Unlock(t.Context()))
	for _, key := range []string{"a", "b", "c"} {
		requireFree(t, s, c, key)
	}
	require.ErrorIs(t, l.Unlock(t.Context()), ErrNotHeld)
}

// When one key is held none is taken, and the error says which one it was.
func TestMultiLockTakesNothingWhenOneKeyIsHeld(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	require.NoError(t, NewRedisLock("b", sibling(t, s, c)).Lock(t.Context()))
	err := NewMultiLock([]string{"c", "b", "a"}, c).Lock(t.Context())
	require.ErrorIs(t, err, ErrLockAcquiredByOthers)
	require.EqualError(t, err, `relock: lock "a,b,c": lock is held by others: key "b" (one attempt; see WithBlock)`)
	requireFree(t, s, c, "a")
	requireFree(t, s, c, "c")
}

func TestMultiLockMistakes(t *testing.T) {
	t.Parallel()
	c := unconnected(t)
	var many []string
	for i := range maxKeys + 1 {
		many = append(many, fmt.Sprint(i))
	}
	for name, tt := range map[string]struct {
		lock *MultiLock
		want []string
	}{
		"no keys":        {NewMultiLock(nil, c), []string{"there are none"}},
		"too many":       {NewMultiLock(many, c), []string{"more than 100"}},
		"a bad key":      {NewMultiLock([]string{"a", "}", ""}, c), []string{"closing brace", "is empty"}},
		"no client":      {NewMultiLock([]string{"a"}, nil), []string{"NewClient"}},
		"bad options":    {NewMultiLock([]string{"a"}, c, WithFair(), WithMaxLease(time.Second)), []string{"WithFair", "WithMaxLease"}},
		"the zero value": {&MultiLock{}, []string{"constructor"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{tt.lock.Validate(), tt.lock.Lock(t.Context()), tt.lock.Unlock(t.Context()), tt.lock.Do(t.Context(), nothing)} {
				require.ErrorIs(t, err, ErrInvalid)
				for _, text := range tt.want {
					require.ErrorContains(t, err, text)
				}
			}
		})
	}
	require.NoError(t, NewMultiLock(append(many[:maxKeys], "1", "2"), c).Validate(), "the same ones again do not count")
	fair := unconnected(t, WithFair(), WithMaxLease(time.Second))
	require.NoError(t, NewMultiLock([]string{"a"}, fair).Validate(), "defaults that it cannot honour are ignored")
	require.False(t, NewMultiLock([]string{"a"}, fair).target.Settings.Fair)
}

// The hold is that of all keys: it ends when one of them is lost, and the others are given back.
func TestMultiLockIsLostWithOneKey(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	var log logBuffer
	c := newTestClient(t, s, log.option())
	h, err := NewMultiLock([]string{"a", "b", "c"}, c, WithWatchdog(3*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	ctx := h.Context()
	awaitRenewal(t, h, 5*time.Second)
	require.NoError(t, h.Err())
	s.Do(t, "DEL", keyOf(c, "b"))
	require.ErrorIs(t, testkit.EndedWithin(t, ctx, 5*time.Second), ErrLockLost)
	require.ErrorIs(t, h.Err(), ErrLockLost)
	require.Zero(t, h.ValidUntil())
	err = h.Unlock(t.Context())
	require.ErrorIs(t, err, ErrLockLost)
	require.ErrorIs(t, err, ErrNotHeld)
	testkit.Eventually(t, time.Second, func() bool { return s.Do(t, "EXISTS", keyOf(c, "a"), keyOf(c, "c")) == int64(0) }, "the others are given back")
	testkit.Eventually(t, testkit.Patience, func() bool { return strings.Contains(log.String(), "relock: lock lost") }, "said")
	require.Equal(t, 1, strings.Count(log.String(), "relock: lock lost"), "said once")
}

func TestMultiLockBelief(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	start := time.Now()
	const length = 10 * time.Second
	h, err := NewMultiLock([]string{"a", "b"}, c, WithExpiry(length)).Acquire(t.Context())
	require.NoError(t, err)
	end := time.Now()
	until := h.ValidUntil()
	require.False(t, until.Before(start.Add(length-lease.Drift(length))))
	require.False(t, until.After(end.Add(length-lease.Drift(length))))

	// One key is extended, the other is not: the hold is valid until the first one ends.
	one := membersOf(h)[0]
	require.NoError(t, one.Extend(t.Context(), time.Minute))
	require.Equal(t, until, h.ValidUntil())
	require.NoError(t, h.Extend(t.Context(), 20*time.Second))
	require.Greater(t, time.Until(h.ValidUntil()), 18*time.Second)
	require.Greater(t, pttl(t, s, c, "b"), 18*time.Second)
	require.ErrorIs(t, h.Extend(t.Context(), time.Microsecond), ErrInvalid)
	require.NoError(t, h.Unlock(t.Context()))
	require.ErrorIs(t, h.Extend(t.Context(), time.Minute), ErrNotHeld)
}

func TestMultiLockExpires(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	h, err := NewMultiLock([]string{"a", "b"}, c, WithExpiry(2400*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	until := h.ValidUntil()
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 5*time.Second), ErrLockLost)
	require.False(t, time.Now().Before(until))
}

func TestMultiLockLimitsOfAHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	h, err := NewMultiLock([]string{"a", "b"}, c, WithMaxHold(time.Second), WithLabel("nightly")).Acquire(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(s.Do(t, "GET", keyOf(c, "a")).([]byte)), "|nightly|")
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 5*time.Second), ErrMaxHold)
	require.ErrorIs(t, h.Unlock(t.Context()), ErrMaxHold)
	testkit.Eventually(t, time.Second, func() bool { return s.Do(t, "EXISTS", keyOf(c, "a"), keyOf(c, "b")) == int64(0) }, "given back")

	h, err = NewMultiLock([]string{"a", "b"}, c, WithMinHold(2*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Unlock(t.Context()))
	require.ErrorIs(t, h.Err(), ErrNotHeld)
	requireHeld(t, s, c, "a")
	testkit.Eventually(t, 5*time.Second, func() bool { return s.Do(t, "EXISTS", keyOf(c, "a"), keyOf(c, "b")) == int64(0) }, "the minimum is over")
}

func TestMultiLockKindsOnOneKey(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range map[string]func(*Client) anyLock{
		"reentrant": func(c *Client) anyLock { return NewReentrantLock("b", c) },
		"fair":      func(c *Client) anyLock { return NewRedisLock("b", c, WithFair()) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newTestClient(t, s)
			require.NoError(t, newLock(sibling(t, s, c)).Lock(t.Context()))
			err := NewMultiLock([]string{"a", "b"}, c, WithBlock()).Lock(t.Context())
			require.ErrorIs(t, err, ErrKeyConflict)
			require.ErrorContains(t, err, `key "b"`)
			requireFree(t, s, c, "a")
		})
	}
}

// The keys' holds are found in the context, under each name and that of all.
func TestMultiLockInAContext(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewMultiLock([]string{"a", "b"}, c, WithBlock())
	err := l.Do(t.Context(), func(ctx context.Context) error {
		for _, name := range []string{"a", "b", "a,b"} {
			h, ok := HoldFromContext(ctx, name)
			require.True(t, ok, name)
			require.Equal(t, "a,b", h.Key())
			require.NoError(t, h.Err())
		}
		_, ok := HoldFromContext(ctx, "c")
		require.False(t, ok)
		// Each of these would wait for itself.
		require.ErrorIs(t, NewRedisLock("a", c, WithBlock()).Lock(ctx), ErrInvalid)
		require.ErrorIs(t, NewMultiLock([]string{"b", "c"}, c, WithBlock()).Lock(ctx), ErrInvalid)
		require.ErrorIs(t, l.Lock(ctx), ErrInvalid)
		require.NoError(t, NewRedisLock("a,b", c, WithBlock()).Do(ctx, nothing), "another name")
		return errMine
	})
	require.ErrorIs(t, err, errMine)
	requireFree(t, s, c, "a")
	require.NoError(t, NewRedisLock("a", c).Do(t.Context(), func(ctx context.Context) error {
		require.ErrorIs(t, l.Lock(ctx), ErrInvalid)
		return nil
	}))
}

// One object that goroutines share is taken from Lock to the matching Unlock, also when the hold is lost in between.
func TestMultiLockIsShared(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := NewMultiLock([]string{"a", "b"}, c, WithBlock())
	require.NoError(t, l.Lock(t.Context()))
	second := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	s.Do(t, "DEL", keyOf(c, "a"), keyOf(c, "b"))
	select {
	case err := <-second:
		require.FailNow(t, "granted before the Unlock", "%v", err)
	case <-time.After(300 * time.Millisecond):
	}
	require.ErrorIs(t, l.Unlock(t.Context()), ErrLockLost)
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
	requireNoQueues(t, s, c, "a", "b")
}

func TestMultiLockOutcomes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s, WithCommandTimeout(2*time.Second))
	keys := []string{"a", "b"}
	l := NewMultiLock(keys, c)
	require.NoError(t, l.Lock(t.Context()))
	s.Do(t, "DEL", keyOf(c, "b"))
	err := l.Unlock(t.Context())
	require.ErrorIs(t, err, ErrLockLost, "one key was")
	require.ErrorIs(t, err, ErrNotHeld)

	require.NoError(t, l.Lock(t.Context()))
	s.Pause(t)
	err = l.Unlock(t.Context())
	s.Resume(t)
	require.ErrorIs(t, err, ErrUnconfirmed)
	require.NotErrorIs(t, err, ErrLockLost)
	requireNoQueues(t, s, c, keys...)

	err = l.Do(t.Context(), func(context.Context) error {
		s.Do(t, "FLUSHALL")
		return errMine
	})
	require.ErrorIs(t, err, errMine)
	require.ErrorIs(t, err, ErrLockLost)

	s.Kill(t)
	err = l.Lock(t.Context())
	require.Error(t, err)
	require.True(t, IsRetryableErr(err), "%v", err)
}

// An Unlock that finds one key lost returns when the others are free.
func TestMultiLockUnlockWaitsForTheKeysThatAreLeft(t *testing.T) {
	t.Parallel()
	s := newFaultServer(t)
	proxy := faults.Start(t, s.Network, s.Address)
	c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
	l := NewMultiLock([]string{"a", "b"}, c)
	require.NoError(t, l.Lock(t.Context()))
	s.Do(t, "DEL", keyOf(c, "b"))
	proxy.On(func(args []string) bool { return slices.Contains(args, keyOf(c, "a")) }, 1, faults.DelayRequest(200*time.Millisecond))
	require.ErrorIs(t, l.Unlock(t.Context()), ErrLockLost)
	require.Equal(t, int64(0), s.Do(t, "EXISTS", keyOf(c, "a")))
}

// To unlock many keys takes no longer than one command may, also when the server is silent.
func TestMultiLockUnlocksInTime(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	s := redistest.Start(t)
	c := newTestClient(t, s, WithCommandTimeout(limit))
	var keys []string
	for n := range 97 {
		keys = append(keys, fmt.Sprint("key", n))
	}
	h, err := NewMultiLock(keys, c).Acquire(t.Context())
	require.NoError(t, err)
	s.Pause(t)
	start := time.Now()
	err = h.Unlock(t.Context())
	took := time.Since(start)
	s.Resume(t)
	require.ErrorIs(t, err, ErrUnconfirmed)
	require.Less(t, took, 2*limit)
	requireNoQueues(t, s, c, keys...)
}

// An operator's end of one key is the end of the hold, which is told so.
func TestMultiLockForced(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := patient(newTestClient(t, s))
	keys := []string{"a", "b"}
	l := NewMultiLock(keys, c)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, sibling(t, s, c).ForceUnlock(t.Context(), "b", "hangs"))
	err := l.Unlock(t.Context())
	for _, want := range []error{ErrForced, ErrLockLost, ErrNotHeld} {
		require.ErrorIs(t, err, want)
	}
	require.ErrorContains(t, err, `key "b"`)
	// The other key is given back by whoever hears of the loss first, which may be the message.
	h, err := NewMultiLock(keys, c, WithWatchdog(3*time.Second), WithBlock()).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, sibling(t, s, c).ForceUnlock(t.Context(), "a", "hangs"))
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 5*time.Second), ErrForced)
	require.ErrorIs(t, h.Unlock(t.Context()), ErrForced)
	requireNoQueues(t, s, c, keys...)
}
