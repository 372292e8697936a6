package relock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
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

func (o *outcome) close() { require.NoError(o, o.c.Close()) }

// paused runs f while the server does not answer. f must end in time.
func (o *outcome) paused(f func() error) error {
	o.s.Pause(o)
	defer o.s.Resume(o)
	clock := testkit.NewStopwatch(o)
	err := f()
	clock.Within(silence+promptness, "the command timeout limits it")
	return err
}

// doExpired runs f in a Do when its hold has expired.
func (o *outcome) doExpired(f func(relock.Hold) error) error {
	return inTime(o, func() error {
		return o.newLock(relock.WithExpiry(800*time.Millisecond)).Do(o.Context(), func(ctx context.Context) error {
			require.ErrorIs(o, testkit.EndedWithin(o, ctx, testkit.Patience), relock.ErrLockLost)
			return f(carried(o, ctx, "k"))
		})
	})
}

// failedUnlock checks that it was the release that failed.
func (o *outcome) failedUnlock(err error) error {
	require.Equal(o, "unlock", asError(o, err).Op)
	return err
}

// silence is the command timeout if there is no answer.
const silence = time.Second

// row is a line of the table of outcomes in doc.go: what is called, and what
// its error matches and does not match. If both are empty, there is no error.
type row struct {
	call         func(o *outcome) error
	matches, not []error
	retry        bool // the error is retryable
	silent       bool // there is a call that is not answered
}

func fails(call func(o *outcome) error, matches ...error) row {
	return row{call: call, matches: matches}
}

func (r row) butNot(reasons ...error) row { r.not = reasons; return r }

func (r row) retryable() row { r.retry = true; return r }

func (r row) unanswered() row { r.silent = true; return r }

var outcomes = map[string]row{
	"Lock/held": {call: (*outcome).lock},
	"Lock/held by others": fails(func(o *outcome) error {
		return o.heldElsewhere(o.lock)
	}, relock.ErrLockAcquiredByOthers).butNot(context.DeadlineExceeded).retryable(),
	"Lock/held by others until the block timeout": fails(func(o *outcome) error {
		const limit = 300 * time.Millisecond
		return o.heldElsewhere(func() error {
			return refusal(o, func() error {
				start := time.Now()
				defer func() { require.GreaterOrEqual(o, time.Since(start), limit) }()
				return o.newLock(relock.WithBlockTimeout(limit)).Lock(o.Context())
			})
		})
	}, relock.ErrLockAcquiredByOthers).butNot(context.DeadlineExceeded).retryable(),
	"Lock/held by others until the deadline": fails(func(o *outcome) error {
		return o.heldElsewhere(func() error {
			return refusal(o, func() error {
				ctx, cancel := context.WithTimeoutCause(o.Context(), 300*time.Millisecond, locktest.ErrMine)
				defer cancel()
				return o.newLock(relock.WithBlock()).Lock(ctx)
			})
		})
	}, context.DeadlineExceeded, locktest.ErrMine, relock.ErrLockAcquiredByOthers),
	"Lock/held by others until the context is cancelled": fails(func(o *outcome) error {
		ctx, cancel := context.WithCancelCause(o.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(locktest.ErrMine) })
		return o.heldElsewhere(func() error { return o.newLock(relock.WithBlock()).Lock(ctx) })
	}, context.Canceled, locktest.ErrMine),
	"Lock/the context was cancelled before": fails(func(o *outcome) error {
		ctx, cancel := context.WithCancelCause(o.Context())
		cancel(locktest.ErrMine)
		count := func() int64 { return o.s.Info(o, "stats", "total_commands_processed") }
		before := count()
		for call, f := range acquiringCalls(o.newLock(relock.WithBlock())) {
			require.ErrorIs(o, f(ctx), locktest.ErrMine, call)
		}
		require.LessOrEqual(o, count()-before, int64(1), "the counting itself")
		return o.l.Lock(ctx)
	}, context.Canceled, locktest.ErrMine).butNot(relock.ErrLockAcquiredByOthers),
	"Lock/the server is down": fails(func(o *outcome) error {
		o.s.Kill(o)
		return o.lock()
	}).butNot(relock.ErrLockAcquiredByOthers, relock.ErrDenied).retryable(),
	"Lock/the server does not answer": fails(func(o *outcome) error {
		return o.paused(o.lock)
	}).butNot(relock.ErrLockAcquiredByOthers, context.DeadlineExceeded).retryable().unanswered(),
	"Lock/the key is something else": fails(func(o *outcome) error {
		o.s.Do(o, "LPUSH", locktest.KeyOf(o.c, "k"), "x")
		return o.lock()
	}, relock.ErrKeyConflict).butNot(relock.ErrLockAcquiredByOthers),
	"Lock/denied":        fails(func(o *outcome) error { o.deny(); return o.lock() }, relock.ErrDenied),
	"Lock/closed before": fails(func(o *outcome) error { o.close(); return o.lock() }, relock.ErrClosed),
	"Lock/closed meanwhile": fails(func(o *outcome) error {
		time.AfterFunc(50*time.Millisecond, func() { _ = o.c.Close() })
		return o.paused(o.lock)
	}, relock.ErrClosed),
	"Lock/a mistake": fails(func(o *outcome) error { return relock.NewRedisLock("", o.c).Lock(o.Context()) },
		relock.ErrInvalid),

	"Unlock/released by another goroutine of the owner, after the context of Lock was cancelled": {
		call: func(o *outcome) error {
			ctx, cancel := context.WithCancel(relock.ContextWithOwner(o.Context(), "me"))
			require.NoError(o, o.l.Lock(ctx))
			cancel()
			return testkit.ResultWithin(o, testkit.Async(o, func() error { return o.l.Unlock(ctx) }), testkit.Patience)
		},
	},
	"Unlock/never locked": fails((*outcome).unlock, relock.ErrNotHeld).butNot(relock.ErrLockLost),
	"Unlock/unlocked before, and held by others": fails(func(o *outcome) error {
		require.NoError(o, o.locked(o.unlock))
		err := o.heldElsewhere(o.unlock)
		locktest.RequireHeld(o, o.s, o.c, "k")
		return err
	}, relock.ErrNotHeld).butNot(relock.ErrLockLost),
	"Unlock/lost at the server": fails(func(o *outcome) error {
		return o.locked(func() error { o.s.Do(o, "FLUSHALL"); return o.unlock() })
	}, relock.ErrLockLost, relock.ErrNotHeld).butNot(relock.ErrMaxHold, relock.ErrUnconfirmed),
	"Unlock/the loss was reported before": fails(func(o *outcome) error {
		return o.locked(func() error {
			o.s.Do(o, "FLUSHALL")
			require.ErrorIs(o, o.unlock(), relock.ErrLockLost)
			return o.unlock()
		})
	}, relock.ErrNotHeld).butNot(relock.ErrLockLost),
	"Unlock/not confirmed": fails(func(o *outcome) error {
		h := takeInTime(o, o.l.Acquire)
		err := o.paused(func() error { return h.Unlock(o.Context()) })
		require.ErrorIs(o, h.Err(), relock.ErrNotHeld, "ended, whatever Unlock returned")
		require.ErrorIs(o, h.Unlock(o.Context()), relock.ErrNotHeld)
		testkit.Eventually(o, testkit.Patience, func() bool { return locktest.PTTL(o, o.s, o.c, "k") < 0 },
			"released in the background")
		return err
	}, relock.ErrUnconfirmed).butNot(relock.ErrLockLost, relock.ErrNotHeld).unanswered(),
	"Unlock/denied": fails(func(o *outcome) error {
		return o.locked(func() error { o.deny(); return o.unlock() })
	}, relock.ErrUnconfirmed, relock.ErrDenied).butNot(relock.ErrLockLost),
	"Unlock/closed": fails(func(o *outcome) error {
		return o.locked(func() error { o.close(); return o.unlock() })
	}, relock.ErrClosed).butNot(relock.ErrLockLost),

	"Do/fn's own error": fails(func(o *outcome) error {
		return o.l.Do(o.Context(), func(context.Context) error { return locktest.ErrMine })
	}, locktest.ErrMine).butNot(relock.ErrLockLost),
	"Do/lost before the end": fails(func(o *outcome) error {
		return o.l.Do(o.Context(), func(context.Context) error { o.s.Do(o, "FLUSHALL"); return locktest.ErrMine })
	}, locktest.ErrMine, relock.ErrLockLost),
	"Do/found lost by the release": fails(func(o *outcome) error {
		return o.failedUnlock(o.l.Do(o.Context(), func(context.Context) error { o.s.Do(o, "FLUSHALL"); return nil }))
	}, relock.ErrLockLost),
	"Do/expired": fails(func(o *outcome) error {
		return o.doExpired(func(relock.Hold) error { return locktest.ErrMine })
	}, locktest.ErrMine, relock.ErrLockLost),
	"Do/expired, and unlocked by fn": fails(func(o *outcome) error {
		return o.failedUnlock(o.doExpired(func(h relock.Hold) error {
			require.ErrorIs(o, h.Unlock(o.Context()), relock.ErrLockLost)
			return nil
		}))
	}, relock.ErrLockLost),
	"Do/found lost by fn's Unlock": fails(func(o *outcome) error {
		return o.failedUnlock(o.l.Do(o.Context(), func(ctx context.Context) error {
			o.s.Do(o, "FLUSHALL")
			_ = carried(o, ctx, "k").Unlock(ctx)
			return nil
		}))
	}, relock.ErrLockLost),
	"Do/closed before the end": fails(func(o *outcome) error {
		return o.l.Do(o.Context(), func(ctx context.Context) error {
			o.close()
			require.ErrorIs(o, context.Cause(ctx), relock.ErrClosed)
			return locktest.ErrMine
		})
	}, locktest.ErrMine, relock.ErrClosed).butNot(relock.ErrLockLost),
	"Do/closed, and unlocked by fn": fails(func(o *outcome) error {
		return o.l.Do(o.Context(), func(ctx context.Context) error {
			o.close()
			require.ErrorIs(o, carried(o, ctx, "k").Unlock(ctx), relock.ErrClosed)
			return locktest.ErrMine
		})
	}, locktest.ErrMine, relock.ErrClosed).butNot(relock.ErrLockLost),
	"Do/not confirmed": row{call: func(o *outcome) error {
		defer o.s.Resume(o)
		err := inTime(o, func() error {
			return o.l.Do(o.Context(), func(context.Context) error { o.s.Pause(o); return nil })
		})
		require.Contains(o, o.log.String(), "release not confirmed")
		return err
	}}.unanswered(),
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
				locktest.RequireIs(t, err, row.matches...)
				for _, reason := range row.not {
					require.NotErrorIs(t, err, reason)
				}
				var e *relock.Error
				require.True(t, errors.Is(err, locktest.ErrMine) || errors.As(err, &e), "%T", err)
			})
		}
	}
}
