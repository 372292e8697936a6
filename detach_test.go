package relock_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/relocktest"
)

// detachable are the locks whose holds can be detached.
var detachable = map[string]func(c *relock.Client, opts ...relock.LockOption) locktest.AnyLock{
	"plain": func(c *relock.Client, opts ...relock.LockOption) locktest.AnyLock {
		return relock.NewRedisLock("k", c, opts...)
	},
	"reentrant": func(c *relock.Client, opts ...relock.LockOption) locktest.AnyLock {
		return relock.NewReentrantLock("k", c, opts...)
	},
}

// eachDetachable runs the test for each kind and mode.
func eachDetachable(t *testing.T, test func(t *testing.T, s *redistest.Server, newLock func(c *relock.Client, opts ...relock.LockOption) locktest.AnyLock)) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range detachable {
		for mode, opts := range map[string][]relock.LockOption{"unfair": nil, "fair": {relock.WithFair()}} {
			t.Run(name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				test(t, s, func(c *relock.Client, more ...relock.LockOption) locktest.AnyLock {
					return newLock(c, append(more, opts...)...)
				})
			})
		}
	}
}

func TestDetachAndResume(t *testing.T) {
	eachDetachable(t, func(t *testing.T, s *redistest.Server, newLock func(*relock.Client, ...relock.LockOption) locktest.AnyLock) {
		a := locktest.NewTestClient(t, s)
		b := locktest.Sibling(t, s, a)
		h := acquired(t, newLock(a, relock.WithFencing(), relock.WithExpiry(time.Second)))
		ctx := h.Context()

		token, err := relock.Detach(t.Context(), h, time.Minute)
		require.NoError(t, err)
		require.ErrorIs(t, context.Cause(ctx), relock.ErrDetached)
		require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrNotHeld)
		require.Greater(t, locktest.PTTL(t, s, a, "k"), 59*time.Second)
		require.ErrorIs(t, newLock(b).TryLock(t.Context()), relock.ErrLockAcquiredByOthers)

		resumed, err := b.Resume(t.Context(), token, relock.WithWatchdog(5*time.Second), relock.WithLabel("worker"))
		require.NoError(t, err)
		require.Equal(t, "k", resumed.Key())
		require.Equal(t, h.Fence(), resumed.Fence())
		require.NoError(t, resumed.Err())
		require.InDelta(t, 5*time.Second, locktest.PTTL(t, s, a, "k"), float64(time.Second))
		info, err := b.Inspect(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, "worker", info.Holder.Label)

		for _, c := range []*relock.Client{a, b} {
			_, err = c.Resume(t.Context(), token)
			require.ErrorIs(t, err, relock.ErrLockLost)
			require.NotContains(t, err.Error(), strings.TrimPrefix(token, "relock1."))
		}
		require.ErrorIs(t, newLock(a).TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
		require.NoError(t, resumed.Unlock(t.Context()))
		require.NoError(t, newLock(a).TryLock(t.Context()))
	})
}

func acquired(t testing.TB, l locktest.AnyLock) relock.Hold {
	t.Helper()
	h, err := l.Acquire(t.Context())
	require.NoError(t, err)
	return h
}

// A waiter gets the lock when the time of the token is over.
func TestDetachedLockBecomesFree(t *testing.T) {
	eachDetachable(t, func(t *testing.T, s *redistest.Server, newLock func(*relock.Client, ...relock.LockOption) locktest.AnyLock) {
		a := locktest.NewTestClient(t, s)
		b := locktest.Sibling(t, s, a)
		h := acquired(t, newLock(a))
		waiting := testkit.Async(t, func() error { return newLock(b, relock.WithBlock()).Lock(t.Context()) })
		testkit.Eventually(t, testkit.Patience, func() bool { return locktest.Inspect(t, b, "k").Waiting == 1 }, "nobody waits")
		token, err := relock.Detach(t.Context(), h, 300*time.Millisecond)
		require.NoError(t, err)
		require.Positive(t, locktest.PTTL(t, s, a, "k"))
		require.NoError(t, testkit.ResultWithin(t, waiting, testkit.Patience))
		_, err = a.Resume(t.Context(), token)
		require.ErrorIs(t, err, relock.ErrLockLost)
	})
}

func TestDetachRefuses(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	fresh := func() relock.Hold { return acquired(t, relock.NewRedisLock(fmt.Sprint(t.Name(), time.Now()), c)) }
	nested := relock.NewReentrantLock("nested", c)
	outer := acquired(t, nested)
	acquired(t, nested)
	local, err := relocktest.NewLocker().Lock(t.Context(), "k")
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		ctx  context.Context
		hold relock.Hold
		d    time.Duration
		want error
	}{
		"nil":           {t.Context(), nil, time.Minute, relock.ErrInvalid},
		"other backend": {t.Context(), local, time.Minute, relock.ErrInvalid},
		"short":         {t.Context(), fresh(), time.Millisecond, relock.ErrInvalid},
		"context":       {nil, fresh(), time.Minute, relock.ErrInvalid},
		"cancelled":     {ended, fresh(), time.Minute, context.Canceled},
		"two levels":    {t.Context(), outer, time.Minute, relock.ErrInvalid},
		"several keys":  {t.Context(), acquired(t, relock.NewMultiLock([]string{"a", "b"}, c)), time.Minute, relock.ErrInvalid},
		"write lock":    {t.Context(), acquired(t, relock.NewRWLock("rw", c)), time.Minute, relock.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := relock.Detach(tt.ctx, tt.hold, tt.d)
			require.ErrorIs(t, err, tt.want)
			if tt.hold != nil {
				require.NoError(t, tt.hold.Err(), "the hold stays as it was")
				require.NoError(t, tt.hold.Unlock(t.Context()))
			}
		})
	}
}

// Without an answer there is no token, and the lock becomes free.
func TestDetachUnconfirmed(t *testing.T) {
	eachDetachable(t, func(t *testing.T, _ *redistest.Server, newLock func(*relock.Client, ...relock.LockOption) locktest.AnyLock) {
		s := redistest.Start(t)
		proxy := faults.Start(t, s.Network, s.Address)
		direct := locktest.NewTestClient(t, s)
		c := locktest.Sibling(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, direct, relock.WithCommandTimeout(locktest.AnswerLimit))
		h := acquired(t, newLock(c, relock.WithExpiry(time.Hour))) // it does not become free by itself
		proxy.Stall()
		token, err := relock.Detach(t.Context(), h, time.Hour)
		require.ErrorIs(t, err, relock.ErrUnconfirmed)
		require.Empty(t, token)
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrNotHeld)
		proxy.Resume()
		testkit.Eventually(t, testkit.Patience, func() bool { return locktest.Inspect(t, direct, "k").State == relock.StateFree }, "the lock stays")
	})
}

// A hold that was lost is not detached, and nobody else's lock is touched.
func TestDetachOfALostHold(t *testing.T) {
	eachDetachable(t, func(t *testing.T, s *redistest.Server, newLock func(*relock.Client, ...relock.LockOption) locktest.AnyLock) {
		a := locktest.NewTestClient(t, s)
		b := locktest.Sibling(t, s, a)
		h := acquired(t, newLock(a))
		s.Do(t, "DEL", locktest.KeyOf(a, "k"))
		other := acquired(t, newLock(b))
		_, err := relock.Detach(t.Context(), h, time.Minute)
		require.ErrorIs(t, err, relock.ErrLockLost)
		require.NoError(t, other.Unlock(t.Context()))

		h = acquired(t, newLock(a, relock.WithMaxHold(200*time.Millisecond)))
		<-h.Context().Done()
		_, err = relock.Detach(t.Context(), h, time.Minute)
		require.ErrorIs(t, err, relock.ErrMaxHold)
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrNotHeld, "Detach has ended it")
		require.NoError(t, newLock(a, relock.WithBlock()).Lock(t.Context()), "the owner is free for another hold")
	})
}

// A detached lock can be forced, and Close leaves it.
func TestDetachedLockIsAnOrdinaryLock(t *testing.T) {
	eachDetachable(t, func(t *testing.T, s *redistest.Server, newLock func(*relock.Client, ...relock.LockOption) locktest.AnyLock) {
		a := locktest.NewTestClient(t, s)
		b, err := relock.NewClient(s.Network, s.Address, "", relock.WithKeyPrefix(locktest.Prefix(a)), relock.WithReleaseOnClose())
		require.NoError(t, err)
		token, err := relock.Detach(t.Context(), acquired(t, newLock(b)), time.Minute)
		require.NoError(t, err)
		require.Zero(t, b.Stats().Held)
		require.NoError(t, b.Close())
		info := locktest.Inspect(t, a, "k")
		require.Equal(t, relock.StateHeld, info.State)
		require.NoError(t, a.ForceUnlock(t.Context(), "k", "stuck"))
		_, err = a.Resume(t.Context(), token)
		require.ErrorIs(t, err, relock.ErrLockLost)
		_, err = b.Resume(t.Context(), token)
		require.ErrorIs(t, err, relock.ErrClosed)
	})
}

// Do takes a Detach for an Unlock.
func TestDetachInDo(t *testing.T) {
	eachDetachable(t, func(t *testing.T, s *redistest.Server, newLock func(*relock.Client, ...relock.LockOption) locktest.AnyLock) {
		a := locktest.NewTestClient(t, s)
		var token string
		lock := newLock(a)
		require.NoError(t, lock.Do(t.Context(), func(ctx context.Context) (err error) {
			h, _ := relock.CurrentHold(ctx)
			token, err = relock.Detach(ctx, h, time.Minute)
			require.ErrorIs(t, context.Cause(ctx), relock.ErrDetached)
			return err
		}))
		resumed, err := a.Resume(t.Context(), token)
		require.NoError(t, err)
		require.NoError(t, resumed.Unlock(t.Context()))
		require.NoError(t, lock.TryLock(t.Context()), "the object is free as well")
	})
}

// The observer sees two holds. Neither it nor the log learns the token.
func TestDetachIsObserved(t *testing.T) {
	eachDetachable(t, func(t *testing.T, s *redistest.Server, newLock func(*relock.Client, ...relock.LockOption) locktest.AnyLock) {
		var events []string
		var mu sync.Mutex
		note := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, fmt.Sprintf(format, args...))
		}
		var log bytes.Buffer
		c := locktest.NewTestClient(t, s, relock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), relock.WithObserver(relock.Observer{
			LockDone: func(_ context.Context, e relock.LockDone) { note("lock %v %v", e.Key, e.Err) },
			HoldDone: func(_ context.Context, e relock.HoldDone) { note("hold %v %v", e.Key, e.Err) },
		}))
		token, err := relock.Detach(t.Context(), acquired(t, newLock(c)), time.Minute)
		require.NoError(t, err)
		h, err := c.Resume(t.Context(), token)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(t.Context()))
		_, err = c.Resume(t.Context(), token)
		require.Error(t, err)
		require.Equal(t, []string{"lock k <nil>", "hold k <nil>", "lock k <nil>", "hold k <nil>", "lock k " + err.Error()}, events)
		require.Equal(t, `relock: resume "k": lock lost (the token was used, or its time is over)`, err.Error())
		require.NotContains(t, log.String(), token)
	})
}

// Detach and Resume need no other permission than the lock.
func TestDetachPermissions(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	locktest.ReadPrivileges(t).Allow(t, s)
	c, err := relock.NewClient(s.Network, s.Address, "password", relock.WithUsername("app"))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	for name, newLock := range detachable {
		t.Run(name, func(t *testing.T) {
			token, err := relock.Detach(t.Context(), acquired(t, newLock(c, relock.WithMinHold(20*time.Millisecond))), time.Minute)
			require.NoError(t, err)
			h, err := c.Resume(t.Context(), token)
			require.NoError(t, err)
			require.NoError(t, h.Unlock(t.Context()))
			testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "EXISTS", locktest.KeyOf(c, "k")) == int64(0) }, "it is kept for longer")
		})
	}
}
