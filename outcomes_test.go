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
	"github.com/relock-go/relock/internal/testkit"
)

// outcome is a server with one lock of one client, and the same lock of
// another.
type outcome struct {
	*testing.T

	s       *redistest.Server
	c       *relock.Client
	log     locktest.LogBuffer
	newLock func(opts ...relock.LockOption) locktest.AnyLock
	l       locktest.AnyLock
	other   locktest.AnyLock
}

// locked locks, and then runs f.
func (o *outcome) locked(f func() error) error {
	require.NoError(o, o.l.Lock(o.Context()))
	return f()
}

// heldElsewhere has the other client hold the lock.
func (o *outcome) heldElsewhere(f func() error) error {
	require.NoError(o, o.other.Lock(o.Context()))
	return f()
}

func (o *outcome) lock() error   { return o.l.Lock(o.Context()) }
func (o *outcome) unlock() error { return o.l.Unlock(o.Context()) }

// deny takes all permissions away.
func (o *outcome) deny() { o.s.Do(o, "ACL", "SETUSER", "default", "-@all", "+acl") }

// unanswered runs f while the server does not answer. f must end in time.
func (o *outcome) unanswered(f func() error) error {
	o.s.Pause(o)
	defer o.s.Resume(o)
	start := time.Now()
	err := f()
	require.Less(o, time.Since(start), silence+time.Second, "the command timeout limits it")
	return err
}

// silence is the command timeout if there is no answer.
const silence = time.Second

var errMine = errors.New("mine")

// outcomes is the table of outcomes in doc.go: what is called, and what its
// error matches and does not match. If both are empty, there is no error.
var outcomes = map[string]struct {
	call         func(o *outcome) error
	matches, not []error
	retry        bool // the error is retryable
	silent       bool // there is a call that is not answered
}{
	"Lock/held": {call: (*outcome).lock},
	"Lock/held by others": {
		call:    func(o *outcome) error { return o.heldElsewhere(o.lock) },
		matches: []error{relock.ErrLockAcquiredByOthers}, not: []error{context.DeadlineExceeded}, retry: true,
	},
	"Lock/held by others until the block timeout": {
		call: func(o *outcome) error {
			const limit = 300 * time.Millisecond
			start := time.Now()
			err := o.heldElsewhere(func() error { return o.newLock(relock.WithBlockTimeout(limit)).Lock(o.Context()) })
			require.GreaterOrEqual(o, time.Since(start), limit)
			return err
		},
		matches: []error{relock.ErrLockAcquiredByOthers}, not: []error{context.DeadlineExceeded}, retry: true,
	},
	"Lock/held by others until the deadline": {
		call: func(o *outcome) error {
			require.NoError(o, o.other.Lock(o.Context()))
			ctx, cancel := context.WithTimeoutCause(o.Context(), time.Second, errMine)
			defer cancel()
			return o.newLock(relock.WithBlock()).Lock(ctx)
		},
		matches: []error{context.DeadlineExceeded, errMine, relock.ErrLockAcquiredByOthers},
	},
	"Lock/held by others until the context is cancelled": {
		call: func(o *outcome) error {
			ctx, cancel := context.WithCancelCause(o.Context())
			time.AfterFunc(50*time.Millisecond, func() { cancel(errMine) })
			return o.heldElsewhere(func() error { return o.newLock(relock.WithBlock()).Lock(ctx) })
		},
		matches: []error{context.Canceled, errMine},
	},
	"Lock/the context was cancelled before": {
		call: func(o *outcome) error {
			ctx, cancel := context.WithCancelCause(o.Context())
			cancel(errMine)
			before := locktest.CommandCount(o.T, o.s)
			for call, f := range firstCalls(o.newLock(relock.WithBlock())) {
				if call != "Unlock" {
					require.ErrorIs(o, f(ctx), errMine, call)
				}
			}
			require.LessOrEqual(o, locktest.CommandCount(o.T, o.s)-before, int64(1), "the counting itself")
			return o.l.Lock(ctx)
		},
		matches: []error{context.Canceled, errMine}, not: []error{relock.ErrLockAcquiredByOthers},
	},
	"Lock/the server is down": {
		call: func(o *outcome) error { o.s.Kill(o); return o.lock() },
		not:  []error{relock.ErrLockAcquiredByOthers, relock.ErrDenied}, retry: true,
	},
	"Lock/the server does not answer": {
		call: func(o *outcome) error { return o.unanswered(o.lock) },
		not:  []error{relock.ErrLockAcquiredByOthers, context.DeadlineExceeded}, retry: true, silent: true,
	},
	"Lock/the key is something else": {
		call: func(o *outcome) error {
			o.s.Do(o, "LPUSH", locktest.KeyOf(o.c, "k"), "x")
			return o.lock()
		},
		matches: []error{relock.ErrKeyConflict}, not: []error{relock.ErrLockAcquiredByOthers},
	},
	"Lock/denied": {
		call:    func(o *outcome) error { o.deny(); return o.lock() },
		matches: []error{relock.ErrDenied},
	},
	"Lock/closed before": {
		call:    func(o *outcome) error { require.NoError(o, o.c.Close()); return o.lock() },
		matches: []error{relock.ErrClosed},
	},
	"Lock/closed meanwhile": {
		call: func(o *outcome) error {
			time.AfterFunc(50*time.Millisecond, func() { _ = o.c.Close() })
			return o.unanswered(o.lock)
		},
		matches: []error{relock.ErrClosed},
	},
	"Lock/a mistake": {
		call:    func(o *outcome) error { return relock.NewRedisLock("", o.c).Lock(o.Context()) },
		matches: []error{relock.ErrInvalid},
	},

	"Unlock/released by another goroutine of the owner, after the context of Lock was cancelled": {call: func(o *outcome) error {
		ctx, cancel := context.WithCancel(relock.ContextWithOwner(o.Context(), "me"))
		require.NoError(o, o.l.Lock(ctx))
		cancel()
		return testkit.ResultWithin(o, testkit.Async(o, func() error { return o.l.Unlock(ctx) }), testkit.Patience)
	}},
	"Unlock/never locked": {
		call:    (*outcome).unlock,
		matches: []error{relock.ErrNotHeld}, not: []error{relock.ErrLockLost},
	},
	"Unlock/unlocked before, and held by others": {
		call: func(o *outcome) error {
			require.NoError(o, o.locked(o.unlock))
			err := o.heldElsewhere(o.unlock)
			locktest.RequireHeld(o, o.s, o.c, "k")
			return err
		},
		matches: []error{relock.ErrNotHeld}, not: []error{relock.ErrLockLost},
	},
	"Unlock/lost at the server": {
		call: func(o *outcome) error {
			return o.locked(func() error { o.s.Do(o, "FLUSHALL"); return o.unlock() })
		},
		matches: []error{relock.ErrLockLost, relock.ErrNotHeld}, not: []error{relock.ErrMaxHold, relock.ErrUnconfirmed},
	},
	"Unlock/the loss was reported before": {
		call: func(o *outcome) error {
			return o.locked(func() error {
				o.s.Do(o, "FLUSHALL")
				require.ErrorIs(o, o.unlock(), relock.ErrLockLost)
				return o.unlock()
			})
		},
		matches: []error{relock.ErrNotHeld}, not: []error{relock.ErrLockLost},
	},
	"Unlock/not confirmed": {
		call: func(o *outcome) error {
			h, err := o.l.Acquire(o.Context())
			require.NoError(o, err)
			err = o.unanswered(func() error { return h.Unlock(o.Context()) })
			require.ErrorIs(o, h.Err(), relock.ErrNotHeld, "ended, whatever Unlock returned")
			require.ErrorIs(o, h.Unlock(o.Context()), relock.ErrNotHeld)
			testkit.Eventually(o, testkit.Patience, func() bool { return locktest.Pttl(o, o.s, o.c, "k") < 0 }, "released in the background")
			return err
		},
		matches: []error{relock.ErrUnconfirmed}, not: []error{relock.ErrLockLost, relock.ErrNotHeld}, silent: true,
	},
	"Unlock/denied": {
		call:    func(o *outcome) error { return o.locked(func() error { o.deny(); return o.unlock() }) },
		matches: []error{relock.ErrUnconfirmed, relock.ErrDenied}, not: []error{relock.ErrLockLost},
	},
	"Unlock/closed": {
		call: func(o *outcome) error {
			return o.locked(func() error { require.NoError(o, o.c.Close()); return o.unlock() })
		},
		matches: []error{relock.ErrClosed}, not: []error{relock.ErrLockLost},
	},

	"Do/fn's own error": {
		call:    func(o *outcome) error { return o.l.Do(o.Context(), func(context.Context) error { return errMine }) },
		matches: []error{errMine}, not: []error{relock.ErrLockLost},
	},
	"Do/lost before the end": {
		call: func(o *outcome) error {
			return o.l.Do(o.Context(), func(context.Context) error { o.s.Do(o, "FLUSHALL"); return errMine })
		},
		matches: []error{errMine, relock.ErrLockLost},
	},
	"Do/closed before the end": {
		call: func(o *outcome) error {
			return o.l.Do(o.Context(), func(ctx context.Context) error {
				require.NoError(o, o.c.Close())
				require.ErrorIs(o, context.Cause(ctx), relock.ErrClosed)
				return errMine
			})
		},
		matches: []error{errMine, relock.ErrClosed}, not: []error{relock.ErrLockLost},
	},
	"Do/not confirmed": {
		call: func(o *outcome) error {
			defer o.s.Resume(o)
			err := o.l.Do(o.Context(), func(context.Context) error { o.s.Pause(o); return nil })
			require.Contains(o, o.log.String(), "release not confirmed")
			return err
		},
		silent: true,
	},
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for name, row := range outcomes {
		for kind, newLock := range locktest.Kinds {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				limit := testkit.Patience
				if row.silent {
					limit = silence
				}
				o := &outcome{T: t, s: redistest.Start(t)}
				o.c = locktest.NewTestClient(t, o.s, relock.WithCommandTimeout(limit), o.log.Option())
				o.newLock = func(opts ...relock.LockOption) locktest.AnyLock { return newLock("k", o.c, opts...) }
				o.l, o.other = o.newLock(), newLock("k", locktest.Sibling(t, o.s, o.c))
				err := row.call(o)
				require.Equal(t, row.retry, relock.IsRetryableErr(err))
				if row.matches == nil && row.not == nil {
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
				require.True(t, errors.Is(err, errMine) || errors.As(err, &e), "%T", err)
			})
		}
	}
}
