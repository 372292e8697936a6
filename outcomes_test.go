package relock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// outcomeRow is one row of the table of outcomes in doc.go: what is set up and called, and what the error matches.
type outcomeRow struct {
	name    string
	call    func(t *testing.T, s *redistest.Server, c *Client, l anyLock) error
	matches []error
	not     []error
}

var errMine = errors.New("mine")

func holdElsewhere(t *testing.T, s *redistest.Server, c *Client) {
	t.Helper()
	other := sibling(t, s, c)
	if s.Do(t, "GET", c.config.prefix+"kind") == nil {
		require.NoError(t, NewRedisLock("k", other).Lock(t.Context()))
		return
	}
	require.NoError(t, NewReentrantLock("k", other).Lock(t.Context()))
}

var acquireRows = []outcomeRow{
	{"held", func(t *testing.T, _ *redistest.Server, _ *Client, l anyLock) error { return l.Lock(t.Context()) }, nil, nil},
	{"held by others", func(t *testing.T, s *redistest.Server, c *Client, l anyLock) error {
		holdElsewhere(t, s, c)
		return l.Lock(t.Context())
	}, []error{ErrLockAcquiredByOthers}, []error{context.DeadlineExceeded}},
	{"held by others until the context ended", func(t *testing.T, s *redistest.Server, c *Client, l anyLock) error {
		holdElsewhere(t, s, c)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errMine)
		defer cancel()
		for {
			if err := l.Lock(ctx); errors.Is(err, context.DeadlineExceeded) {
				return err
			}
		}
	}, []error{context.DeadlineExceeded, errMine}, nil},
	{"the server is down", func(t *testing.T, s *redistest.Server, _ *Client, l anyLock) error {
		s.Kill(t)
		err := l.Lock(t.Context())
		require.True(t, IsRetryableErr(err), "%v", err)
		return err
	}, []error{}, []error{ErrLockAcquiredByOthers, ErrDenied}},
	{"the server does not answer", func(t *testing.T, s *redistest.Server, _ *Client, l anyLock) error {
		s.Pause(t)
		defer s.Resume(t)
		err := l.Lock(t.Context())
		require.True(t, IsRetryableErr(err), "%v", err)
		return err
	}, []error{}, []error{ErrLockAcquiredByOthers, context.DeadlineExceeded}},
	{"the key is something else", func(t *testing.T, s *redistest.Server, c *Client, l anyLock) error {
		s.Do(t, "LPUSH", keyOf(c, "k"), "x")
		return l.Lock(t.Context())
	}, []error{ErrKeyConflict}, []error{ErrLockAcquiredByOthers}},
	{"denied", func(t *testing.T, s *redistest.Server, _ *Client, l anyLock) error {
		s.Do(t, "ACL", "SETUSER", "default", "-@all", "+acl")
		return l.Lock(t.Context())
	}, []error{ErrDenied}, nil},
	{"closed before", func(t *testing.T, _ *redistest.Server, c *Client, l anyLock) error {
		require.NoError(t, c.Close())
		return l.Lock(t.Context())
	}, []error{ErrClosed}, nil},
	{"closed meanwhile", func(t *testing.T, s *redistest.Server, c *Client, l anyLock) error {
		s.Pause(t)
		defer s.Resume(t)
		time.AfterFunc(50*time.Millisecond, func() { _ = c.Close() })
		return l.Lock(t.Context())
	}, []error{ErrClosed}, nil},
	{"a mistake", func(t *testing.T, _ *redistest.Server, c *Client, _ anyLock) error {
		return NewRedisLock("", c).Lock(t.Context())
	}, []error{ErrInvalid}, nil},
}

var unlockRows = []outcomeRow{
	{"released", func(t *testing.T, _ *redistest.Server, _ *Client, l anyLock) error {
		require.NoError(t, l.Lock(t.Context()))
		return l.Unlock(t.Context())
	}, nil, nil},
	{
		"never locked", func(t *testing.T, _ *redistest.Server, _ *Client, l anyLock) error { return l.Unlock(t.Context()) },
		[]error{ErrNotHeld},
		[]error{ErrLockLost},
	},
	{"unlocked before", func(t *testing.T, _ *redistest.Server, _ *Client, l anyLock) error {
		require.NoError(t, l.Lock(t.Context()))
		require.NoError(t, l.Unlock(t.Context()))
		return l.Unlock(t.Context())
	}, []error{ErrNotHeld}, []error{ErrLockLost}},
	{"lost at the server", func(t *testing.T, s *redistest.Server, _ *Client, l anyLock) error {
		require.NoError(t, l.Lock(t.Context()))
		s.Do(t, "FLUSHALL")
		return l.Unlock(t.Context())
	}, []error{ErrLockLost, ErrNotHeld}, []error{ErrMaxHold, ErrUnconfirmed}},
	{"not confirmed", func(t *testing.T, s *redistest.Server, _ *Client, l anyLock) error {
		require.NoError(t, l.Lock(t.Context()))
		s.Pause(t)
		defer s.Resume(t)
		return l.Unlock(t.Context())
	}, []error{ErrUnconfirmed}, []error{ErrLockLost, ErrNotHeld}},
	{"denied", func(t *testing.T, s *redistest.Server, _ *Client, l anyLock) error {
		require.NoError(t, l.Lock(t.Context()))
		s.Do(t, "ACL", "SETUSER", "default", "-@all", "+acl")
		return l.Unlock(t.Context())
	}, []error{ErrUnconfirmed, ErrDenied}, []error{ErrLockLost}},
	{"closed", func(t *testing.T, _ *redistest.Server, c *Client, l anyLock) error {
		require.NoError(t, l.Lock(t.Context()))
		require.NoError(t, c.Close())
		return l.Unlock(t.Context())
	}, []error{ErrClosed}, []error{ErrLockLost}},
}

var doRows = []outcomeRow{
	{"fn's own error", func(t *testing.T, _ *redistest.Server, _ *Client, l anyLock) error {
		return l.Do(t.Context(), func(context.Context) error { return errMine })
	}, []error{errMine}, []error{ErrLockLost}},
	{"lost before the end", func(t *testing.T, s *redistest.Server, _ *Client, l anyLock) error {
		return l.Do(t.Context(), func(context.Context) error {
			s.Do(t, "FLUSHALL")
			return errMine
		})
	}, []error{errMine, ErrLockLost}, nil},
	{"closed before the end", func(t *testing.T, _ *redistest.Server, c *Client, l anyLock) error {
		return l.Do(t.Context(), func(ctx context.Context) error {
			require.NoError(t, c.Close())
			require.ErrorIs(t, context.Cause(ctx), ErrClosed)
			return errMine
		})
	}, []error{errMine, ErrClosed}, []error{ErrLockLost}},
	{"not confirmed", func(t *testing.T, s *redistest.Server, _ *Client, l anyLock) error {
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
			for kind, newLock := range kinds {
				t.Run(group+"/"+row.name+"/"+kind, func(t *testing.T) {
					t.Parallel()
					s := redistest.Start(t)
					c := newTestClient(t, s, WithCommandTimeout(2*time.Second))
					if kind == "ReentrantLock" {
						s.Do(t, "SET", c.config.prefix+"kind", kind)
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
	var e *Error
	require.True(t, errors.Is(err, errMine) || errors.As(err, &e), "%T", err)
}
