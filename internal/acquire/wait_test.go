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
func plainLock(m *lease.Manager, key string, change func(*lockspec.Spec)) *Plain {
	var p lockspec.Problems
	t := &Target{Settings: lockspec.Resolve(lockspec.Options{}, lockspec.Options{}, lockspec.Plain, &p)}
	t.Use(m, key)
	change(&t.Settings)
	l := NewPlain(t)
	return &l
}

// Nothing more is asked for a lock when the client is closing, whatever wakes
// the call.
func TestNothingIsAskedDuringClose(t *testing.T) {
	t.Parallel()
	m := newEngine(t, redistest.Shared(t))
	l := plainLock(m, "k", func(s *lockspec.Spec) { s.Block = true })
	w := newWait(t.Context(), m.Life, l.Target, true)
	entry := waitqueue.NewEntry(m.Queue.Enter("k", l.RedisKey()), &l.Settings, false,
		func(hold string) (string, string) { return m.Identity.Value(hold, &l.Settings), "" })
	defer entry.Line.Exit()
	closed := testkit.Async(t, m.Close)
	<-m.Life.Done()
	w.queued = entry
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
	w := newWait(ctx, m.Life, l.Target, true)
	w.queued = entry
	w.note(errs.ErrLockAcquiredByOthers)
	entry.Line.Note(driver.ErrTimeout)
	_, err := w.acquire(func(context.Context) (*lease.Hold, error) { return nil, driver.ErrAbandoned })
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, driver.ErrTimeout)
}

// A call counts as waiting from its first pause to its end, also while it asks:
// an attempt may take longer than a pause.
func TestCallWaitsUntilItsEnd(t *testing.T) {
	t.Parallel()
	m := newEngine(t, redistest.Shared(t))
	l := plainLock(m, "k", func(s *lockspec.Spec) { s.Block, s.Poll = true, time.Millisecond })
	w := newWait(t.Context(), m.Life, l.Target, true)
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
		errs.ErrLockAcquiredByOthers, errs.Both(errs.ErrLockAcquiredByOthers, driver.ErrTimeout),
		errs.ErrKeyConflict, errs.ErrDenied, nil,
	} {
		require.False(t, isUnserved(err), "%v", err)
	}
}

// A hold that ends on its way to a waiter is released, and the call waits on.
func TestHoldThatEndedOnItsWay(t *testing.T) {
	t.Parallel()
	m := newEngine(t, redistest.Shared(t))
	take := func(l *Plain) *lease.Hold {
		h, _, err := l.Take(t.Context(), false, false)
		require.NoError(t, err)
		return h
	}
	over := take(plainLock(m, "first", func(s *lockspec.Spec) { s.Lease, s.Watched = 3*time.Second, false }))
	valid := take(plainLock(m, "second", func(*lockspec.Spec) {}))
	testkit.Eventually(t, testkit.Patience, func() bool { return over.Err() != nil }, "it expires")
	line := m.Queue.Enter("k", m.RedisKey("k"))
	defer line.Exit()
	w := newWait(t.Context(), m.Life,
		&Target{Manager: m, Settings: lockspec.Spec{Kind: lockspec.Plain, Poll: time.Second}}, true)
	h, err := w.waitForValid(line, &prepared{[]*lease.Hold{over, valid}})
	require.NoError(t, err)
	require.Same(t, valid, h)
	require.ErrorIs(t, over.Unlock(), errs.ErrNotHeld, "is released")
	require.NoError(t, valid.Unlock())
}

// prepared brings holds that were made before, one after the other.
type prepared struct{ holds []*lease.Hold }

func (p *prepared) entry(l *waitqueue.Line, _ *waitqueue.Entry) *waitqueue.Entry {
	return waitqueue.NewEntry(l, &lockspec.Spec{Kind: lockspec.Plain}, false, nil)
}

func (p *prepared) try(context.Context) (h *lease.Hold, err error) {
	h, p.holds = p.holds[0], p.holds[1:]
	return h, nil
}
