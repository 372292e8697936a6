package relock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
)

// A short lease bounds the commands of a lock, not the dial that may come before.
func TestSlowDialWithAShortLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	proxy.On(faults.Command("SELECT"), 1, faults.Delay(150*time.Millisecond))
	c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address}, WithDatabase(1))
	l := NewRedisLock("k", c, WithExpiry(300*time.Millisecond))
	require.NoError(t, l.Lock(t.Context()))
}

// bareConn is what a wrapper for tracing may look like: no deadlines, no contexts.
type bareConn struct{ redis.Conn }

func TestWrappedConnectionsOfAUserPool(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pool := &redis.Pool{MaxIdle: 3, Dial: func() (redis.Conn, error) {
		conn, err := redis.Dial(s.Network, s.Address)
		return bareConn{conn}, err
	}}
	defer pool.Close() //nolint:errcheck // only to end its connections
	c, err := NewClientPool(pool, WithCommandTimeout(300*time.Millisecond))
	require.NoError(t, err)
	defer c.Close() //nolint:errcheck // a second time below
	h, err := NewRedisLock("k", c, WithWatchdog(3*time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	s.Pause(t)
	defer s.Resume(t)
	for _, call := range []func() error{
		func() error { return h.Unlock(t.Context()) },
		func() error { return NewRedisLock("other", c).TryLock(context.Background()) },
	} {
		start := time.Now()
		require.Error(t, call())
		require.Less(t, time.Since(start), 3*time.Second)
	}
	s.Resume(t)
	require.NoError(t, c.Close())
}

// The maximum hold is in the clock's verdict, not only in a timer's.
func TestMaxHoldByTheClock(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	h, err := NewRedisLock("k", c, WithMaxHold(200*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, time.Until(h.ValidUntil()), 200*time.Millisecond)
	h.(*level).maxHold.Stop()
	for end := h.(*level).last; time.Now().Before(end); {
	}
	require.ErrorIs(t, h.Err(), ErrMaxHold)
	require.Zero(t, h.ValidUntil())
	require.ErrorIs(t, h.Unlock(t.Context()), ErrMaxHold)
}

// A context also ends a call that is stuck in writing.
func TestContextEndsALargeWrite(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	c := newTestClient(t, s)
	require.NoError(t, c.Ping(t.Context()))
	s.Pause(t)
	defer s.Resume(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	start := time.Now()
	_, err := c.SetNEX(ctx, "k", strings.Repeat("x", 32<<20), time.Second)
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, time.Since(start), time.Second)
}

// After a level with a long lease the watchdog is as impatient again as the outer level needs.
func TestWatchdogForgetsALongerLevel(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	outer, err := NewReentrantLock("k", c, WithWatchdog(600*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	inner, err := NewReentrantLock("k", c, WithWatchdog(1200*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	require.Equal(t, 400*time.Millisecond, c.watchdog.shortest())
	require.NoError(t, inner.Unlock(t.Context()))
	eventually(t, 3*time.Second, func() bool { return c.watchdog.shortest() == 200*time.Millisecond }, "the limit is the outer level's")
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
		require.ErrorIs(t, NewReentrantLock("k", c, WithExpiry(300*time.Millisecond)).Lock(t.Context()), ErrDenied)
		require.NotEqual(t, time.Duration(-1), pttl(t, s, c, "k"), "%v", missing)
	}
}

func TestGivenUpReleaseIsLogged(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var log logBuffer
	c := newTestClient(t, s, WithCommandTimeout(100*time.Millisecond), log.option())
	h, err := NewRedisLock("k", c, WithExpiry(600*time.Millisecond)).Acquire(t.Context())
	require.NoError(t, err)
	s.Pause(t)
	require.ErrorIs(t, h.Unlock(t.Context()), ErrUnconfirmed)
	eventually(t, 5*time.Second, func() bool { return strings.Contains(log.String(), "given up") }, "it is logged")
	s.Resume(t)
}
