package relock

import (
	"context"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
)

// A short lease bounds the commands of a lock, not the dial that may come before.
func TestSlowDialWithAShortLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	proxy.On(faults.Command("SELECT"), 1, faults.Delay(450*time.Millisecond))
	c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, WithDatabase(1))
	l := NewRedisLock("k", c, WithExpiry(900*time.Millisecond))
	require.NoError(t, l.Lock(t.Context()))
}

// The maximum hold is in the clock's verdict, not only in a timer's.
func TestMaxHoldByTheClock(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	h, err := NewRedisLock("k", c, WithMaxHold(time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, time.Until(h.ValidUntil()), time.Second)
	<-time.After(time.Until(h.(hold).level.StopMaxHold()))
	require.ErrorIs(t, h.Err(), ErrMaxHold)
	require.Zero(t, h.ValidUntil())
	require.ErrorIs(t, h.Unlock(t.Context()), ErrMaxHold)
}

// A context also ends a call that is stuck in writing.
func TestContextEndsALargeWrite(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	c := newTestClient(t, s, WithCommandTimeout(12*time.Second))
	require.NoError(t, c.Ping(t.Context()))
	large := strings.Repeat("x", 32<<20)
	s.Pause(t)
	defer s.Resume(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cancelled := make(chan time.Time, 1)
	time.AfterFunc(100*time.Millisecond, func() {
		cancelled <- time.Now()
		cancel()
	})
	_, err := c.SetNEX(ctx, "k", large, time.Second)
	ended := time.Now()
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, ended.Sub(<-cancelled), 1900*time.Millisecond)
}

// After a level with a long lease the watchdog is as impatient again as the outer level needs.
func TestWatchdogForgetsALongerLevel(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	outer, err := NewReentrantLock("k", c, WithWatchdog(2400*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	inner, err := NewReentrantLock("k", c, WithWatchdog(4800*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	shortest := func() time.Duration {
		least, _ := c.engine.Watchdog().Bounds()
		return least
	}
	require.Equal(t, 1600*time.Millisecond, shortest())
	require.NoError(t, inner.Unlock(t.Context()))
	testkit.Eventually(t, 12*time.Second, func() bool { return shortest() == 800*time.Millisecond }, "the limit is the outer level's")
	require.NoError(t, outer.Unlock(t.Context()))
}

func TestNilContexts(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	h, err := NewRedisLock("k", newTestClient(t, s)).Acquire(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, h.Extend(nil, time.Minute), ErrInvalid) //nolint:staticcheck // the mistake is meant
	_, ok := HoldFromContext(nil, "k")                         //nolint:staticcheck // the mistake is meant
	require.False(t, ok)
	require.NoError(t, h.Unlock(nil)) //nolint:staticcheck // the mistake is meant
}

// fn unlocks a hold that was lost, and looks away: Do tells.
func TestDoReportsALossThatFnHasSeen(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	for name, newLock := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newTestClient(t, s)
			err := newLock("k", c).Do(t.Context(), func(ctx context.Context) error {
				s.Do(t, "DEL", keyOf(c, "k"))
				h, _ := HoldFromContext(ctx, "k")
				_ = h.Unlock(ctx)
				return nil
			})
			require.ErrorIs(t, err, ErrLockLost)
		})
	}
}

// Without the permissions to set an expiry and to delete, no lock may stay for ever.
func TestNoPermissionForAnExpiry(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, missing := range [][]any{{"-pexpire"}, {"-pexpire", "-del"}} {
		c := newTestClient(t, s)
		s.Do(t, "ACL", append([]any{"SETUSER", "default", "+@all"}, missing...)...)
		require.ErrorIs(t, NewReentrantLock("k", c, WithExpiry(3*time.Second)).Lock(t.Context()), ErrDenied)
		require.NotEqual(t, time.Duration(-1), pttl(t, s, c, "k"), "%v", missing)
	}
}

func TestGivenUpReleaseIsLogged(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var log logBuffer
	c := newTestClient(t, s, WithCommandTimeout(500*time.Millisecond), log.option())
	h, err := NewRedisLock("k", c, WithExpiry(2*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	s.Pause(t)
	require.ErrorIs(t, h.Unlock(t.Context()), ErrUnconfirmed)
	testkit.Eventually(t, testkit.Patience, func() bool { return strings.Contains(log.String(), "given up") }, "it is logged")
	s.Resume(t)
}

// Limits that mean "none" do not overflow.
func TestHugeTimeouts(t *testing.T) {
	t.Parallel()
	const huge = time.Duration(math.MaxInt64)
	s := redistest.Shared(t)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial(s.Network, s.Address) }}
	defer pool.Close() //nolint:errcheck // only to end its connections
	user, err := NewClientPool(pool, WithCommandTimeout(huge))
	require.NoError(t, err)
	defer user.Close() //nolint:errcheck // a second Close does nothing
	require.NoError(t, user.Ping(t.Context()))

	c := newTestClient(t, s, WithCommandTimeout(huge), WithDialTimeout(huge), WithIdleTimeout(huge), WithWaitMode(), WithMaxActive(1))
	h, err := NewRedisLock("k", c, WithMaxHold(huge), WithBlockTimeout(huge), WithWatchdog(lockspec.MaxLease)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, h.Extend(t.Context(), lockspec.MaxLease))
	require.NoError(t, h.Err())
	require.ErrorIs(t, h.Extend(t.Context(), 1<<62), ErrInvalid)
	require.NoError(t, h.Unlock(t.Context()))
}

// What an Unlock sends again, and the logins before it, come out of one budget.
func TestUnlockKeepsItsLimit(t *testing.T) {
	t.Parallel()
	const limit = time.Second
	s := redistest.Start(t, "--requirepass", "secret")
	proxy := faults.Start(t, s.Network, s.Address)
	c, err := NewClient(proxy.Network, proxy.Address, "secret", WithCommandTimeout(limit), WithMaxIdle(0))
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a second Close does nothing
	h, err := NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	scripts := func(args []string) bool { return strings.HasPrefix(args[0], "EVAL") }
	proxy.On(faults.Command("AUTH"), faults.Every, faults.Delay(limit*9/20))
	proxy.On(scripts, faults.Every, faults.Delay(limit*9/20)) // NOSCRIPT first, then the answer
	due := setAlarm(t, time.Now().Add(limit))
	require.ErrorIs(t, h.Unlock(t.Context()), ErrUnconfirmed)
	ended := time.Now()
	require.Less(t, ended.Sub(due.ring()), limit/4)
}

// A server that answers too slowly for a short lease is not too slow for a long one of the same client.
func TestShortLeaseBesideALongOne(t *testing.T) {
	t.Parallel()
	const lease = 9 * time.Second // time for five tries
	s := newFaultServer(t)
	proxy := faults.Start(t, s.Network, s.Address)
	c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
	long, err := NewRedisLock("long", c, WithWatchdog(lease)).Acquire(t.Context())
	require.NoError(t, err)
	proxy.On(faults.Script(script.Renew.SHA), faults.Every, faults.Delay(3*driver.MinLimit/2))
	ctx, cancel := context.WithCancel(t.Context())
	result := testkit.Async(t, func() error {
		for ctx.Err() == nil {
			if h, err := NewRedisLock("short", c, WithWatchdog(2*driver.MinLimit)).Acquire(ctx); err == nil {
				<-h.Context().Done()
				_ = h.Unlock(ctx) // lost
			}
		}
		return nil
	})
	defer func() {
		cancel()
		require.NoError(t, testkit.ResultWithin(t, result, 10*time.Second))
	}()
	start := time.Now()
	testkit.Eventually(t, 3*lease, func() bool {
		require.NoError(t, long.Err())
		return long.ValidUntil().After(start.Add(lease + lease/4))
	}, "not renewed")
}

// A long lease whose renewal is answered too slowly for a short one gets more time in its next try, though the short one was answered at once
// meanwhile, again and again.
func TestShortLeaseBesideASlowLongOne(t *testing.T) {
	t.Parallel()
	const short, long = 3 * time.Second, 10 * time.Second // an answer may take 1 s and 3.3 s
	s := newFaultServer(t)
	proxy := faults.Start(t, s.Network, s.Address)
	proxy.On(faults.Script(script.Renew.SHA), faults.Every, faults.Delay(short/2))
	tried := make(chan error, 100)
	c, err := NewClient(proxy.Network, proxy.Address, "", WithObserver(Observer{RenewDone: func(_ context.Context, r RenewDone) {
		if r.Key == "long" {
			tried <- r.Err
		}
	}}))
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a second Close does nothing
	h, err := NewRedisLock("long", c, WithWatchdog(long)).Acquire(t.Context())
	require.NoError(t, err)
	other, err := NewReentrantLock("short", c, WithWatchdog(short)).Acquire(t.Context()) // renewed by another script
	require.NoError(t, err)
	require.ErrorIs(t, testkit.ResultWithin(t, tried, long), os.ErrDeadlineExceeded)
	require.NoError(t, testkit.ResultWithin(t, tried, long))
	require.NoError(t, h.Err())
	require.NoError(t, other.Err())
}

// A panic in the user's Dial is an error of the call, and of a renewal.
func TestPanicInUserDial(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	var panics atomic.Bool
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { // none is idle, to be borrowed
		if panics.Load() {
			panic("dial")
		}
		return redis.Dial(s.Network, s.Address)
	}}
	defer pool.Close() //nolint:errcheck // only to end its connections
	c, err := NewClientPool(pool, WithKeyPrefix(t.Name()))
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a second Close does nothing
	panics.Store(true)
	require.ErrorContains(t, c.Ping(t.Context()), "panicked")
	panics.Store(false)
	h, err := NewRedisLock("k", c, WithWatchdog(2400*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	panics.Store(true)
	require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 5*time.Second), ErrLockLost)
}
