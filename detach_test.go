package relock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/relocktest"
)

// detaching is a lock, and two clients that detach and resume it.
type detaching struct {
	*testing.T
	s       *redistest.Server
	a, b    *relock.Client
	newLock locktest.NewLock
	mode    []relock.LockOption
}

// eachDetachable runs the test for each kind and mode.
func eachDetachable(t *testing.T, test func(t *detaching)) {
	t.Parallel()
	s := redistest.Shared(t)
	for kind, newLock := range locktest.Kinds {
		for mode, opts := range modes {
			t.Run(kind+"/"+mode, func(t *testing.T) {
				t.Parallel()
				a := locktest.NewTestClient(t, s)
				test(&detaching{t, s, a, locktest.Sibling(t, s, a), newLock, opts})
			})
		}
	}
}

func (t *detaching) lock(c *relock.Client, opts ...relock.LockOption) locktest.AnyLock {
	return t.newLock("k", c, append(opts, t.mode...)...)
}

func (t *detaching) take(c *relock.Client, opts ...relock.LockOption) relock.Hold {
	t.Helper()
	return locktest.Take(t, t.lock(c, opts...).Acquire)
}

// detached returns the token of a hold that is detached.
func detached(t testing.TB, c *relock.Client, h relock.Hold, d time.Duration) string {
	t.Helper()
	token, err := c.Detach(t.Context(), h, d)
	require.NoError(t, err)
	return token
}

// resumed returns the hold that a token stands for.
func resumed(t testing.TB, c *relock.Client, token string, opts ...relock.LockOption) relock.Hold {
	t.Helper()
	h, err := c.Resume(t.Context(), token, opts...)
	require.NoError(t, err)
	return h
}

func TestDetachAndResume(t *testing.T) {
	eachDetachable(t, func(t *detaching) {
		h := t.take(t.a, relock.WithFencing())
		ctx := h.Context()

		token := detached(t, t.a, h, time.Hour)
		require.ErrorIs(t, context.Cause(ctx), relock.ErrDetached)
		require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrNotHeld)
		require.Greater(t, locktest.PTTL(t, t.s, t.a, "k"), 59*time.Minute)
		require.ErrorIs(t, t.lock(t.b).TryLock(t.Context()), relock.ErrLockAcquiredByOthers)

		next := resumed(t, t.b, token, relock.WithWatchdog(10*time.Minute), relock.WithLabel("worker"))
		require.Equal(t, "k", next.Key())
		require.Equal(t, h.Fence(), next.Fence())
		require.NoError(t, next.Err())
		require.InDelta(t, 10*time.Minute, locktest.PTTL(t, t.s, t.a, "k"), float64(time.Minute))
		require.Equal(t, "worker", locktest.Inspect(t, t.b, "k").Holder.Label)

		for _, c := range []*relock.Client{t.a, t.b} {
			_, err := c.Resume(t.Context(), token)
			require.ErrorIs(t, err, relock.ErrLockLost)
			require.NotContains(t, err.Error(), strings.TrimPrefix(token, "relock2."))
		}
		require.ErrorIs(t, t.lock(t.a).TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
		require.NoError(t, next.Unlock(t.Context()))
		require.NoError(t, t.lock(t.a).TryLock(t.Context()))
	})
}

// The last level of a hold may have the other mode. Its token names what the
// lock stores.
func TestDetachALevelOfTheOtherMode(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	fair := relock.WithFair()
	for _, opts := range [][2][]relock.LockOption{{nil, {fair}}, {{fair}, nil}} {
		for kind, within := range map[string]func(context.Context) (relock.Hold, error){
			"RedisLock": func(ctx context.Context) (relock.Hold, error) {
				return locktest.NewLocker(t, c, opts[1]...).Lock(ctx, "k")
			},
			"ReentrantLock": relock.NewReentrantLock("k", c, opts[1]...).Acquire,
		} {
			outer := locktest.Take(t, locktest.AllKinds[kind]("k", c, opts[0]...).Acquire)
			level, err := within(outer.Context())
			require.NoError(t, err)
			require.NoError(t, outer.Unlock(t.Context()))
			token := detached(t, c, level, time.Hour)
			require.NoError(t, resumed(t, c, token).Unlock(t.Context()))
			require.Zero(t, s.Do(t, "EXISTS", locktest.KeyOf(c, "k")))
		}
	}
}

// A waiter gets the lock when the time of the token is over.
func TestDetachedLockBecomesFree(t *testing.T) {
	eachDetachable(t, func(t *detaching) {
		h := t.take(t.a)
		waiting := testkit.Async(t, func() error { return t.lock(t.b, relock.WithBlock()).Lock(t.Context()) })
		awaitWaiting(t, t.b, "k", 1)
		const limit = 300 * time.Millisecond
		start := time.Now()
		token := detached(t, t.a, h, limit)
		require.NoError(t, testkit.ResultWithin(t, waiting, testkit.Patience))
		require.GreaterOrEqual(t, time.Since(start), limit-time.Millisecond, "the server counts whole ones")
		require.ErrorIs(t, second(t.a.Resume(t.Context(), token)), relock.ErrLockLost)
	})
}

func TestDetachRefuses(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	fresh := func() relock.Hold {
		return locktest.Take(t, relock.NewRedisLock(fmt.Sprint(t.Name(), time.Now()), c).Acquire)
	}
	nested := relock.NewReentrantLock("nested", c)
	outer := locktest.Take(t, nested.Acquire)
	locktest.Take(t, nested.Acquire)
	local, err := relocktest.NewLocker().Lock(t.Context(), "k")
	require.NoError(t, err)
	type attempt struct {
		ctx  context.Context
		hold relock.Hold
		d    time.Duration
		want error
	}
	testkit.Each(t, map[string]attempt{
		"nil":           {t.Context(), nil, time.Minute, relock.ErrInvalid},
		"other backend": {t.Context(), local, time.Minute, relock.ErrInvalid},
		"short":         {t.Context(), fresh(), time.Millisecond, relock.ErrInvalid},
		"context":       {nil, fresh(), time.Minute, relock.ErrInvalid},
		"cancelled":     {ended, fresh(), time.Minute, context.Canceled},
		"two levels":    {t.Context(), outer, time.Minute, relock.ErrInvalid},
		"several keys": {
			t.Context(), locktest.Take(t, relock.NewMultiLock([]string{"a", "b"}, c).Acquire), time.Minute, relock.ErrInvalid,
		},
		"other client": {
			t.Context(), locktest.Take(t, relock.NewRedisLock("other", locktest.Sibling(t, s, c)).Acquire),
			time.Minute, relock.ErrInvalid,
		},
		"write lock": {t.Context(), locktest.Take(t, relock.NewRWLock("rw", c).Acquire), time.Minute, relock.ErrInvalid},
	}, func(t *testing.T, _ string, tt attempt) {
		require.ErrorIs(t, second(c.Detach(tt.ctx, tt.hold, tt.d)), tt.want)
		if tt.hold != nil {
			require.NoError(t, tt.hold.Err(), "the hold stays as it was")
			require.NoError(t, tt.hold.Unlock(t.Context()))
		}
	})
}

// Without an answer there is no token, and the lock becomes free.
func TestDetachUnconfirmed(t *testing.T) {
	eachDetachable(t, func(t *detaching) {
		s := redistest.Start(t)
		c, proxy := locktest.Behind(t, s, relock.WithCommandTimeout(locktest.AnswerLimit))
		direct := locktest.Sibling(t, s, c)
		h := takeInTime(t, t.lock(c, relock.WithExpiry(time.Hour)).Acquire) // it does not become free by itself
		proxy.Stall()
		token, err := c.Detach(t.Context(), h, time.Hour)
		require.ErrorIs(t, err, relock.ErrUnconfirmed)
		require.Empty(t, token)
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrNotHeld)
		proxy.Resume()
		testkit.Eventually(t, testkit.Patience,
			func() bool { return locktest.Inspect(t, direct, "k").State == relock.StateFree }, "the lock stays")
	})
}

// A hold that was lost is not detached, and nobody else's lock is touched.
func TestDetachOfALostHold(t *testing.T) {
	eachDetachable(t, func(t *detaching) {
		h := t.take(t.a)
		t.s.Do(t, "DEL", locktest.KeyOf(t.a, "k"))
		other := t.take(t.b)
		require.ErrorIs(t, second(t.a.Detach(t.Context(), h, time.Minute)), relock.ErrLockLost)
		require.NoError(t, other.Unlock(t.Context()))

		h = t.take(t.a, relock.WithMaxHold(shortHold))
		require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrMaxHold)
		require.ErrorIs(t, second(t.a.Detach(t.Context(), h, time.Minute)), relock.ErrMaxHold)
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrNotHeld, "Detach has ended it")
		require.NoError(t, t.lock(t.a, relock.WithBlock()).Lock(t.Context()), "the owner is free for another hold")
	})
}

// A detached lock can be forced, and Close leaves it.
func TestDetachedLockIsAnOrdinaryLock(t *testing.T) {
	eachDetachable(t, func(t *detaching) {
		releasing := locktest.Sibling(t, t.s, t.a, relock.WithReleaseOnClose())
		token := detached(t, releasing, t.take(releasing), time.Minute)
		require.Zero(t, releasing.Stats().Held)
		require.NoError(t, releasing.Close())
		require.Equal(t, relock.StateHeld, locktest.Inspect(t, t.a, "k").State)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // the lock stays for a minute
		defer cancel()
		require.NoError(t, t.a.ForceUnlock(ctx, "k", "stuck"))
		err := second(t.a.Resume(t.Context(), token))
		locktest.RequireIs(t, err, relock.ErrLockLost, relock.ErrForced)
		require.ErrorContains(t, err, "stuck")
		require.ErrorIs(t, second(releasing.Resume(t.Context(), token)), relock.ErrClosed)
	})
}

// Do takes a Detach for an Unlock.
func TestDetachInDo(t *testing.T) {
	eachDetachable(t, func(t *detaching) {
		var token string
		lock := t.lock(t.a)
		require.NoError(t, lock.Do(t.Context(), func(ctx context.Context) (err error) {
			h, _ := relock.HoldFromContext(ctx, "k")
			token, err = t.a.Detach(ctx, h, time.Minute)
			require.ErrorIs(t, context.Cause(ctx), relock.ErrDetached)
			return err
		}))
		require.NoError(t, resumed(t, t.a, token).Unlock(t.Context()))
		require.NoError(t, lock.TryLock(t.Context()), "the object is free as well")
	})
}

// The observer sees two holds. Neither it nor the log learns the token.
func TestDetachIsObserved(t *testing.T) {
	eachDetachable(t, func(t *detaching) {
		var events []string
		var mu sync.Mutex
		note := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, fmt.Sprintf(format, args...))
		}
		var log locktest.LogBuffer
		c := locktest.NewTestClient(t, t.s, log.Option(), relock.WithObserver(relock.Observer{
			LockDone: func(_ context.Context, e relock.LockDone) { note("lock %v %v", e.Key, e.Err) },
			HoldDone: func(_ context.Context, e relock.HoldDone) { note("hold %v %v", e.Key, e.Err) },
		}))
		token := detached(t, c, t.take(c), time.Minute)
		require.NoError(t, resumed(t, c, token).Unlock(t.Context()))
		_, err := c.Resume(t.Context(), token)
		require.Error(t, err)
		require.Equal(t, []string{"lock k <nil>", "hold k <nil>", "lock k <nil>", "hold k <nil>", "lock k " + err.Error()},
			events)
		require.Equal(t, `relock: resume "k": lock lost (the token was used, or its time is over)`, err.Error())
		require.NotContains(t, log.String(), token)
	})
}

// Detach and Resume need no other permission than the lock.
func TestDetachPermissions(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locktest.ReadPrivileges(t).Allow(t, s)
	c := locktest.CloseLater(t)(relock.NewClient(s.Network, s.Address, "password", relock.WithUsername("app")))
	for name, newLock := range locktest.Kinds {
		t.Run(name, func(t *testing.T) {
			h := locktest.Take(t, newLock("k", c, relock.WithMinHold(20*time.Millisecond)).Acquire)
			token := detached(t, c, h, time.Minute)
			require.NoError(t, resumed(t, c, token).Unlock(t.Context()))
			testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "EXISTS", locktest.KeyOf(c, "k")) == int64(0) },
				"it is kept for longer")
		})
	}
}
