package multilock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// All keys are locked and released together. A name that is given twice counts
// once.
func TestMultiLockTakesAllKeysAndFreesThem(t *testing.T) {
	b := locktest.NewBench(t)
	l := relock.NewMultiLock([]string{"c", "a", "b", "a"}, b.Client)
	require.NoError(t, l.Validate())
	require.NoError(t, l.Do(t.Context(), func(ctx context.Context) error {
		h, _ := relock.HoldFromContext(ctx, "b")
		require.Equal(t, "a,b,c", h.Key())
		return nil
	}))
	require.NoError(t, l.Lock(t.Context()))
	for _, key := range []string{"a", "b", "c"} {
		require.InDelta(t, 30*time.Second, b.TTL(key), float64(10*time.Second))
		require.ErrorIs(t, relock.NewRedisLock(key, b.Other).TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	}
	require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	require.NoError(t, l.Unlock(t.Context()))
	b.RequireFree("a", "b", "c")
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)
}

// If one key is held by others, or as another kind of lock, none is locked, and
// the error names that key.
func TestMultiLockTakesNothingWhenOneKeyIsHeld(t *testing.T) {
	b := locktest.NewBench(t)
	l := relock.NewMultiLock([]string{"c", "b", "a"}, b.Client, relock.WithBlock())
	for _, tt := range []struct {
		held locktest.AnyLock
		call func(context.Context) error
		want error
		text string
	}{
		{
			relock.NewRedisLock("b", b.Other), l.TryLock, relock.ErrLockAcquiredByOthers,
			`relock: lock "a,b,c": lock is held by others: key "b"`,
		},
		{relock.NewReentrantLock("b", b.Other), l.Lock, relock.ErrKeyConflict, `key "b"`},
		{relock.NewReentrantLock("b", b.Other, relock.WithFair()), l.Lock, relock.ErrKeyConflict, `key "b"`},
		{relock.NewRedisLock("b", b.Other, relock.WithFair()), l.TryLock, relock.ErrLockAcquiredByOthers, `key "b"`},
	} {
		h := locktest.Take(t, tt.held.Acquire)
		err := tt.call(t.Context())
		require.ErrorIs(t, err, tt.want)
		require.ErrorContains(t, err, tt.text)
		b.RequireFree("a", "c")
		require.NoError(t, h.Unlock(t.Context()))
	}
}

func TestMultiLockMistakes(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t)
	many := locktest.Numbered("", 100+1)
	other := []relock.LockOption{relock.WithFair(), relock.WithMaxLease(time.Second)}
	for name, tt := range map[string]struct {
		lock *relock.MultiLock
		want []string
	}{
		"no keys":        {relock.NewMultiLock(nil, c), []string{"keys: is empty"}},
		"too many":       {relock.NewMultiLock(many, c), []string{"keys: 101 are above 100"}},
		"a bad key":      {relock.NewMultiLock([]string{"a", "}", ""}, c), []string{"closing brace", "is empty"}},
		"no client":      {relock.NewMultiLock([]string{"a"}, nil), []string{"client: is nil"}},
		"bad options":    {relock.NewMultiLock([]string{"a"}, c, other...), []string{"WithFair", "WithMaxLease"}},
		"the zero value": {&relock.MultiLock{}, []string{"constructor"}},
	} {
		t.Run(name, func(t *testing.T) { locktest.RequireInvalid(t, tt.lock, tt.want) })
	}
	require.NoError(t, relock.NewMultiLock(append(many[:100], "1", "2"), c).Validate(), "names given twice do not count")
	fair := locktest.Unconnected(t, relock.WithFair(), relock.WithMaxLease(time.Second))
	l := relock.NewMultiLock([]string{"a"}, fair)
	require.NoError(t, l.Validate(), "defaults that it cannot honour are ignored")
	fairly := lockspec.Options{Given: lockspec.OptFair}
	require.False(t, lockspec.Resolve(fairly, lockspec.Options{}, lockspec.Multi, &lockspec.Problems{}).Fair)
}

// The hold is found in the context by the name of each key and of all of them.
func TestMultiLockInAContext(t *testing.T) {
	b := locktest.NewBench(t)
	l := relock.NewMultiLock([]string{"a", "b"}, b.Client, relock.WithBlock())
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
		require.ErrorIs(t, relock.NewRedisLock("a", b.Client, relock.WithBlock()).Lock(ctx), relock.ErrInvalid)
		require.ErrorIs(t, relock.NewMultiLock([]string{"b", "c"}, b.Client, relock.WithBlock()).Lock(ctx), relock.ErrInvalid)
		require.ErrorIs(t, l.Lock(ctx), relock.ErrInvalid)
		require.NoError(t, relock.NewRedisLock("a,b", b.Client, relock.WithBlock()).Do(ctx, locktest.Nothing), "another name")
		return locktest.ErrMine
	})
	require.ErrorIs(t, err, locktest.ErrMine)
	b.RequireFree("a")
	require.NoError(t, relock.NewRedisLock("a", b.Client).Do(t.Context(), func(ctx context.Context) error {
		require.ErrorIs(t, l.Lock(ctx), relock.ErrInvalid)
		return nil
	}))
}

// Tokens rise over all holds that have a key in common, of one key or of
// several, locked together or one by one. Inspect reports the token.
func TestMultiLockFencing(t *testing.T) {
	b := locktest.NewBench(t)
	locktest.Engine(b.Other).OneByOne.Store(true)
	// drawn by a clock that was ahead
	b.Server.Do(t, "SET", b.Key("b")+script.CounterSuffix, time.Now().Add(time.Hour).UnixMicro())
	var last int64
	for n, keys := range [][]string{{"a"}, {"a", "b"}, {"a"}, {"c", "a"}, {"b", "c"}, {"c"}, {"a", "b", "c"}, {"b"}} {
		client, together := b.Client, n < 3 || n > 5
		if !together {
			client = b.Other
		}
		lock := locktest.AnyLock(relock.NewMultiLock(keys, client, relock.WithFencing()))
		if len(keys) == 1 {
			lock = relock.NewRedisLock(keys[0], client, relock.WithFencing())
		}
		h := locktest.Take(t, lock.TryAcquire)
		require.Greater(t, h.Fence(), last, "%d", n)
		last = h.Fence()
		if len(keys) > 1 && together { // one by one, the tokens differ; a RedisLock sets some aside
			require.Equal(t, last, locktest.Inspect(t, b.Client, keys[1]).Fence)
		}
		require.NoError(t, h.Unlock(t.Context()))
		require.Equal(t, last, h.Fence())
	}
	require.Zero(t, locktest.Take(t, relock.NewMultiLock([]string{"a", "b"}, b.Client).TryAcquire).Fence())
}

// The hold is that of all keys: it ends when one of them is lost, and the
// others are released.
func TestMultiLockIsLostWithOneKey(t *testing.T) {
	var log locktest.LogBuffer
	b := locktest.NewBench(t, log.Option())
	h := locktest.Take(t, relock.NewMultiLock([]string{"a", "b", "c"}, b.Client).Acquire)
	locktest.RenewGroup(t, h)
	require.NoError(t, h.Err())
	b.Forget("b")
	locktest.RenewNow(h)
	locktest.RequireEnds(t, h, relock.ErrLockLost)
	require.ErrorIs(t, h.Err(), relock.ErrLockLost)
	require.Zero(t, h.ValidUntil())
	locktest.RequireIs(t, h.Unlock(t.Context()), relock.ErrLockLost, relock.ErrNotHeld)
	locktest.EventuallyWithin(t, time.Second, func() bool { return b.Exists("a", "c") == 0 }, "the others are released")
	testkit.Eventually(t, testkit.Patience, func() bool { return log.Count("relock: lock lost") > 0 }, "logged")
	require.Equal(t, 1, log.Count("relock: lock lost"), "logged once")
}

// The hold is valid until the first key expires, counted from before the
// request.
func TestMultiLockValidity(t *testing.T) {
	b := locktest.NewBench(t)
	start := time.Now()
	const length = 10 * time.Second
	h := locktest.Take(t, relock.NewMultiLock([]string{"a", "b"}, b.Client, relock.WithExpiry(length)).Acquire)
	end := time.Now()
	until := h.ValidUntil()
	require.WithinRange(t, until.Add(lockspec.Drift(length)), start.Add(length), end.Add(length))

	require.NoError(t, h.Extend(t.Context(), 20*time.Second))
	require.Greater(t, time.Until(h.ValidUntil()), length)
	require.Greater(t, b.TTL("b"), length)
	require.ErrorIs(t, h.Extend(t.Context(), time.Microsecond), relock.ErrInvalid)
	require.NoError(t, h.Unlock(t.Context()))
	require.ErrorIs(t, h.Extend(t.Context(), time.Minute), relock.ErrNotHeld)
}

func TestMultiLockLimitsOfAHold(t *testing.T) {
	b := locktest.NewBench(t)
	h := locktest.Take(t, relock.NewMultiLock([]string{
		"a", "b",
	}, b.Client, relock.WithMaxHold(3*time.Second), relock.WithLabel("nightly")).Acquire)
	require.Contains(t, string(b.Server.Do(t, "GET", b.Key("a")).([]byte)), "|nightly|")
	locktest.RequireEnds(t, h, relock.ErrMaxHold)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrMaxHold)
	locktest.EventuallyWithin(t, time.Second, func() bool { return b.Exists("a", "b") == 0 }, "released")

	start := time.Now()
	h = locktest.Take(t,
		relock.NewMultiLock([]string{"a", "b"}, b.Client, relock.WithMinHold(1500*time.Millisecond)).Acquire)
	require.NoError(t, h.Unlock(t.Context()))
	require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
	b.AwaitFree("a", "b")
	require.GreaterOrEqual(t, time.Since(start), 1500*time.Millisecond)
}

// An Unlock that finds one key lost returns when the others are free.
func TestMultiLockUnlockWaitsForTheKeysThatAreLeft(t *testing.T) {
	t.Parallel()
	s := locktest.NewServerWithScripts(t)
	proxy := faults.Start(t, s.Network, s.Address)
	b := locktest.BenchOn(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
	l := relock.NewMultiLock([]string{"a", "b"}, b.Client)
	require.NoError(t, l.Lock(t.Context()))
	b.Forget("b")
	proxy.On(func(args []string) bool { return slices.Contains(args, b.Key("a")) }, 1,
		faults.DelayRequest(200*time.Millisecond))
	locktest.RequireIs(t, l.Unlock(t.Context()), relock.ErrLockLost, relock.ErrNotHeld)
	require.Equal(t, int64(0), s.Do(t, "EXISTS", b.Key("a")))
}

// To unlock many keys takes no longer than one command may, also if the server
// is silent.
func TestMultiLockUnlocksInTime(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	b := locktest.BenchOn(t, redistest.Start(t), relock.WithCommandTimeout(limit))
	keys := names(97)
	h := locktest.Take(t, relock.NewMultiLock(keys, b.Client).Acquire)
	b.Server.Pause(t)
	watch := testkit.NewStopwatch(t)
	err := h.Unlock(t.Context())
	watch.Within(limit + limit/4)
	b.Server.Resume(t)
	require.ErrorIs(t, err, relock.ErrUnconfirmed)
	require.NotErrorIs(t, err, relock.ErrLockLost)
	b.RequireNothingLeft(keys...)
}

// force has the other client end the hold of a key. It returns once the hold is
// marked.
func force(b *locktest.Bench, key string) (forced <-chan error) {
	b.Helper()
	forced = testkit.Async(b, func() error { return b.Other.ForceUnlock(b.Context(), key, "hangs") })
	locktest.AwaitMarked(b, b.Other, key)
	return forced
}

// An operator who ends the hold of one key ends that of all, which reports so.
func TestMultiLockForced(t *testing.T) {
	b := locktest.NewBench(t)
	locktest.Patient(b.Client)
	keys := []string{"a", "b"}
	h := locktest.Take(t, relock.NewMultiLock(keys, b.Client).Acquire)
	forced := force(b, "b")
	err := h.Unlock(t.Context())
	require.NoError(t, testkit.ResultWithin(t, forced, testkit.Patience))
	locktest.RequireIs(t, err, relock.ErrForced, relock.ErrLockLost, relock.ErrNotHeld)
	require.ErrorContains(t, err, `key "b"`)
	// The message of the loss may be the first to release the other key.
	h = locktest.Take(t, relock.NewMultiLock(keys, b.Client, relock.WithBlock()).Acquire)
	forced = force(b, "a")
	locktest.RenewNow(h)
	locktest.RequireEnds(t, h, relock.ErrForced)
	require.NoError(t, testkit.ResultWithin(t, forced, testkit.Patience))
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrForced)
	b.RequireNothingLeft(keys...)
}

// A client that is closed ends holds and waiting calls. With WithReleaseOnClose
// it releases all keys.
func TestMultiLockOfAClosedClient(t *testing.T) {
	b := locktest.NewBench(t)
	keys := []string{"a", "b"}
	l := relock.NewMultiLock(keys, b.Client, relock.WithBlock())
	h := locktest.Take(t, l.Acquire)
	waiting := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	b.AwaitWaiter("a")
	require.NoError(t, b.Client.Close())
	watch := testkit.NewStopwatch(t)
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrClosed)
	watch.Within(time.Second)
	require.ErrorIs(t, testkit.ResultWithin(t, waiting, testkit.Patience), relock.ErrClosed)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrClosed)
	require.ErrorIs(t, l.Lock(t.Context()), relock.ErrClosed)
	b.RequireHeld(keys...)

	releasing := locktest.Sibling(t, b.Server, b.Client, relock.WithReleaseOnClose())
	require.NoError(t, relock.NewMultiLock([]string{"c", "d", "e"}, releasing).Lock(t.Context()))
	require.NoError(t, releasing.Close())
	b.RequireFree("c", "d", "e")
}
