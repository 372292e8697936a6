package acquire

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/internal/waitqueue"
)

// newEngine returns the engine of a client of the server.
func newEngine(t testing.TB, s *redistest.Server) *lease.Manager {
	t.Helper()
	id, err := lockspec.NewIdentity(false)
	require.NoError(t, err)
	config := &driver.Config{
		Network: s.Network, Address: s.Address, Password: new(string),
		DialTimeout: testkit.Patience, CommandTimeout: testkit.Patience, MaxIdle: 4,
	}
	m := lease.New(lease.Config{
		Identity: id, Prefix: t.Name() + ":", Driver: conns.NewPool(config), Logger: slog.New(slog.DiscardHandler),
		DialTimeout: config.DialTimeout, CommandTimeout: config.CommandTimeout, Limits: lease.DefaultLimits(),
	})
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

// plainLock returns a lock that is renewed, with these settings changed.
func plainLock(m *lease.Manager, key string, change func(*lockspec.Spec)) *Target {
	var p lockspec.Problems
	t := &Target{Settings: lockspec.Resolve(lockspec.Options{}, lockspec.Options{}, lockspec.Plain, &p)}
	t.Use(m, key)
	change(&t.Settings)
	return t
}

// Nothing more is asked for a lock when the client is closing, whatever wakes
// the call.
func TestNothingIsAskedDuringClose(t *testing.T) {
	t.Parallel()
	m := newEngine(t, redistest.Shared(t))
	l := plainLock(m, "k", func(s *lockspec.Spec) { s.Block = true })
	w := NewWait(t.Context(), l, true)
	entry := waitqueue.NewEntry(m.Queue.Enter("k", l.RedisKey()), &l.Settings, false,
		func(hold string) (string, string) { return m.Identity.Value(hold, &l.Settings), "" })
	defer entry.Line.Exit()
	closed := testkit.Async(t, m.Close)
	<-m.Life.Done()
	w.Queued = entry
	for range 100 {
		entry.Nudge()
		_, again := w.sleep(errs.ErrLockAcquiredByOthers)
		require.False(t, again)
		_, err := entry.Attempt(t.Context())
		require.ErrorIs(t, err, driver.ErrAbandoned)
	}
	require.False(t, entry.Sent)
	require.NoError(t, testkit.ResultWithin(t, closed, testkit.Patience))
}

// A call that is cancelled during a request reports the error of its client's
// last poll, as one that sleeps does.
func TestCancelledCallReportsTheErrorOfThePoll(t *testing.T) {
	t.Parallel()
	m := newEngine(t, redistest.Shared(t))
	l := plainLock(m, "k", func(s *lockspec.Spec) { s.Block = true })
	entry := waitqueue.NewEntry(m.Queue.Enter("k", l.RedisKey()), &l.Settings, false, nil)
	defer entry.Line.Exit()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := NewWait(ctx, l, true)
	w.Queued = entry
	w.Note(errs.ErrLockAcquiredByOthers)
	entry.Line.Note(driver.ErrTimeout)
	_, err := w.Acquire(func(context.Context) (*lease.Hold, error) { return nil, driver.ErrAbandoned })
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, driver.ErrTimeout)
}

// A call counts as waiting from its first pause to its end, also while it asks:
// an attempt may take longer than a pause.
func TestCallWaitsUntilItsEnd(t *testing.T) {
	t.Parallel()
	m := newEngine(t, redistest.Shared(t))
	l := plainLock(m, "k", func(s *lockspec.Spec) { s.Block, s.Poll = true, time.Millisecond })
	w := NewWait(t.Context(), l, true)
	require.Zero(t, m.Waiting.Load())
	for _, err := range []error{errs.ErrLockAcquiredByOthers, driver.ErrTimeout, errs.ErrLockAcquiredByOthers} {
		_, again := w.sleep(err)
		require.True(t, again)
		require.Equal(t, int64(1), m.Waiting.Load())
	}
	for range 2 {
		w.end()
		require.Zero(t, m.Waiting.Load())
	}
}

// Only what a server or the network did is an outage, and no reason that others
// hold the lock.
func TestIsUnserved(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		driver.ErrTimeout, errs.ErrReplicas, io.EOF, redis.Error("READONLY no"),
		redis.Error("OOM no"), redis.Error("upstream failure"),
	} {
		require.True(t, isUnserved(err), "%v", err)
	}
	for _, err := range []error{
		errs.ErrLockAcquiredByOthers, errs.Join(errs.ErrLockAcquiredByOthers, driver.ErrTimeout),
		errs.ErrKeyConflict, errs.ErrDenied, nil,
	} {
		require.False(t, isUnserved(err), "%v", err)
	}
}
