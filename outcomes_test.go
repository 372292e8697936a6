package relock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

// outcomeRow is one row of the table of outcomes in doc.go: what is set up and called, and what the error matches.
type outcomeRow struct {
	name    string
	call    func(t *testing.T, s *redistest.Server, c *relock.Client, l locktest.AnyLock) error
	matches []error
	not     []error
}

func holdElsewhere(t *testing.T, s *redistest.Server, c *relock.Client) {
	t.Helper()
	other := locktest.Sibling(t, s, c)
	if s.Do(t, "GET", locktest.Prefix(c)+"kind") == nil {
		require.NoError(t, relock.NewRedisLock("k", other).Lock(t.Context()))
		return
	}
	require.NoError(t, relock.NewReentrantLock("k", other).Lock(t.Context()))
}

var acquireRows = []outcomeRow{
	{"held", func(t *testing.T, _ *redistest.Server, _ *relock.Client, l locktest.AnyLock) error {
		return l.Lock(t.Context())
	}, nil, nil},
	{"held by others", func(t *testing.T, s *redistest.Server, c *relock.Client, l locktest.AnyLock) error {
		holdElsewhere(t, s, c)
		return l.Lock(t.Context())
	}, []error{relock.ErrLockAcquiredByOthers}, []error{context.DeadlineExceeded}},
	{"held by others until the context ended", func(t *testing.T, s *redistest.Server, c *relock.Client, l locktest.AnyLock) error {
		holdElsewhere(t, s, c)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, locktest.ErrMine)
		defer cancel()
		for {
			if err := l.Lock(ctx); errors.Is(err, context.DeadlineExceeded) {
				return err
			}
		}
	}, []error{context.DeadlineExceeded, locktest.ErrMine}, nil},
	{"the server is down", func(t *testing.T, s *redistest.Server, _ *relock.Client, l locktest.AnyLock) error {
		s.Kill(t)
		err := l.Lock(t.Context())
		require.True(t, relock.IsRetryableErr(err), "%v", err)
		return err
	}, []error{}, []error{relock.ErrLockAcquiredByOthers, relock.ErrDenied}},
	{"the server does not answer", func(t *testing.T, s *redistest.Server, _ *relock.Client, l locktest.AnyLock) error {
		s.Pause(t)
		defer s.Resume(t)
		err := l.Lock(t.Context())
		require.True(t, relock.IsRetryableErr(err), "%v", err)
		return err
	}, []error{}, []error{relock.ErrLockAcquiredByOthers, context.DeadlineExceeded}},
	{"the key is something else", func(t *testing.T, s *redistest.Server, c *relock.Client, l locktest.AnyLock) error {
		s.Do(t, "LPUSH", locktest.KeyOf(c, "k"), "x")
		return l.Lock(t.Context())
	}, []error{relock.ErrKeyConflict}, []error{relock.ErrLockAcquiredByOthers}},
	{"denied", func(t *testing.T, s *redistest.Server, _ *relock.Client, l locktest.AnyLock) error {
		s.Do(t, "ACL", "SETUSER", "default", "-@all", "+acl")
		return l.Lock(t.Context())
	}, []error{relock.ErrDenied}, nil},
	{"closed before", func(t *testing.T, _ *redistest.Server, c *relock.Client, l locktest.AnyLock) error {
		require.NoError(t, c.Close())
		return l.Lock(t.Context())
	}, []error{relock.ErrClosed}, nil},
	{"closed meanwhile", func(t *testing.T, s *redistest.Server, c *relock.Client, l locktest.AnyLock) error {
		s.Pause(t)
		defer s.Resume(t)
		time.AfterFunc(50*time.Millisecond, func() { _ = c.Close() })
		return l.Lock(t.Context())
	}, []error{relock.ErrClosed}, nil},
	{"a mistake", func(t *testing.T, _ *redistest.Server, c *relock.Client, _ locktest.AnyLock) error {
		return relock.NewRedisLock("", c).Lock(t.Context())
	}, []error{relock.ErrInvalid}, nil},
}

var unlockRows = []outcomeRow{
	{"released", func(t *testing.T, _ *redistest.Server, _ *relock.Client, l locktest.AnyLock) error {
		require.NoError(t, l.Lock(t.Context()))
		return l.Unlock(t.Context())
	}, nil, nil},
	{
		"never locked", func(t *testing.T, _ *redistest.Server, _ *relock.Client, l locktest.AnyLock) error {
			return l.Unlock(t.Context())
		},
		[]error{relock.ErrNotHeld},
		[]error{relock.ErrLockLost},
	},
	{"unlocked before", func(t *testing.T, _ *redistest.Server, _ *relock.Client, l locktest.AnyLock) error {
		require.NoError(t, l.Lock(t.Context()))
		require.NoError(t, l.Unlock(t.Context()))
		return l.Unlock(t.Context())
	}, []error{relock.ErrNotHeld}, []error{relock.ErrLockLost}},
	{"lost at the server", func(t *testing.T, s *redistest.Server, _ *relock.Client, l locktest.AnyLock) error {
		require.NoError(t, l.Lock(t.Context()))
		s.Do(t, "FLUSHALL")
		return l.Unlock(t.Context())
	}, []error{relock.ErrLockLost, relock.ErrNotHeld}, []error{relock.ErrMaxHold, relock.ErrUnconfirmed}},
	{"not confirmed", func(t *testing.T, s *redistest.Server, _ *relock.Client, l locktest.AnyLock) error {
		require.NoError(t, l.Lock(t.Context()))
		s.Pause(t)
		defer s.Resume(t)
		return l.Unlock(t.Context())
	}, []error{relock.ErrUnconfirmed}, []error{relock.ErrLockLost, relock.ErrNotHeld}},
	{"denied", func(t *testing.T, s *redistest.Server, _ *relock.Client, l locktest.AnyLock) error {
		require.NoError(t, l.Lock(t.Context()))
		s.Do(t, "ACL", "SETUSER", "default", "-@all", "+acl")
		return l.Unlock(t.Context())
	}, []error{relock.ErrUnconfirmed, relock.ErrDenied}, []error{relock.ErrLockLost}},
	{"closed", func(t *testing.T, _ *redistest.Server, c *relock.Client, l locktest.AnyLock) error {
		require.NoError(t, l.Lock(t.Context()))
		require.NoError(t, c.Close())
		return l.Unlock(t.Context())
	}, []error{relock.ErrClosed}, []error{relock.ErrLockLost}},
}

var doRows = []outcomeRow{
	{"fn's own error", func(t *testing.T, _ *redistest.Server, _ *relock.Client, l locktest.AnyLock) error {
		return l.Do(t.Context(), func(context.Context) error { return locktest.ErrMine })
	}, []error{locktest.ErrMine}, []error{relock.ErrLockLost}},
	{"lost before the end", func(t *testing.T, s *redistest.Server, _ *relock.Client, l locktest.AnyLock) error {
		return l.Do(t.Context(), func(context.Context) error {
			s.Do(t, "FLUSHALL")
			return locktest.ErrMine
		})
	}, []error{locktest.ErrMine, relock.ErrLockLost}, nil},
	{"closed before the end", func(t *testing.T, _ *redistest.Server, c *relock.Client, l locktest.AnyLock) error {
		return l.Do(t.Context(), func(ctx context.Context) error {
			require.NoError(t, c.Close())
			require.ErrorIs(t, context.Cause(ctx), relock.ErrClosed)
			return locktest.ErrMine
		})
	}, []error{locktest.ErrMine, relock.ErrClosed}, []error{relock.ErrLockLost}},
	{"not confirmed", func(t *testing.T, s *redistest.Server, _ *relock.Client, l locktest.AnyLock) error {
		defer s.Resume(t)
		return l.Do(t.Context(), func(context.Context) error {
			s.Pause(t)
			return nil
		})
	}, nil, nil},
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for group, rows := range map[string][]outcomeRow{"Lock": acquireRows, "Unlock": unlockRows, "Do": doRows} {
		for _, row := range rows {
			for kind, newLock := range locktest.Kinds {
				t.Run(group+"/"+row.name+"/"+kind, func(t *testing.T) {
					t.Parallel()
					s := redistest.Start(t)
					c := locktest.NewTestClient(t, s, relock.WithCommandTimeout(2*time.Second))
					if kind == "ReentrantLock" {
						s.Do(t, "SET", locktest.Prefix(c)+"kind", kind)
					}
					err := row.call(t, s, c, newLock("k", c))
					checkOutcome(t, row, err)
				})
			}
		}
	}
}

func checkOutcome(t *testing.T, row outcomeRow, err error) {
	t.Helper()
	if row.matches == nil {
		require.NoError(t, err)
		return
	}
	require.Error(t, err)
	for _, reason := range row.matches {
		require.ErrorIs(t, err, reason)
	}
	for _, reason := range row.not {
		require.NotErrorIs(t, err, reason)
	}
	var e *relock.Error
	require.True(t, errors.Is(err, locktest.ErrMine) || errors.As(err, &e), "%T", err)
}
