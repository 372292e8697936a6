package relock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
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
			count := func() int64 { return scripttest.InfoField(o, o.s, "stats", "total_commands_processed") }
			before := count()
			for call, f := range firstCalls(o.newLock(relock.WithBlock())) {
				if call != "Unlock" {
					require.ErrorIs(o, f(ctx), errMine, call)
				}
			}
			require.LessOrEqual(o, count()-before, int64(1), "the counting itself")
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
			testkit.Eventually(o, testkit.Patience, func() bool { return locktest.PTTL(o, o.s, o.c, "k") < 0 }, "released in the background")
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

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	line := func(text string) error { return redis.Error(text) }
	for _, tt := range []struct {
		name string
		err  error
		want relock.Outcome
	}{
		{"nil", nil, relock.OutcomeOK},
		{"canceled", context.Canceled, relock.OutcomeCanceled},
		{"deadline", context.DeadlineExceeded, relock.OutcomeTimeout},
		{"held by others", relock.ErrLockAcquiredByOthers, relock.OutcomeBusy},
		{"queue full", relock.ErrQueueFull, relock.OutcomeBusy},
		{"upgrade", relock.ErrUpgrade, relock.OutcomeBusy},
		{"lost", relock.ErrLockLost, relock.OutcomeLost},
		{"not confirmed", relock.ErrUnconfirmed, relock.OutcomeUnconfirmed},
		{"denied", relock.ErrDenied, relock.OutcomeDenied},
		{"invalid", relock.ErrInvalid, relock.OutcomeInvalid},
		{"key conflict", relock.ErrKeyConflict, relock.OutcomeInvalid},
		{"not held", relock.ErrNotHeld, relock.OutcomeInvalid},
		{"closed", relock.ErrClosed, relock.OutcomeClosed},
		{"quorum", relock.ErrQuorum, relock.OutcomeUnavailable},
		{"replicas", relock.ErrReplicas, relock.OutcomeUnavailable},
		{"EOF", io.EOF, relock.OutcomeUnavailable},
		{"no answer in time", os.ErrDeadlineExceeded, relock.OutcomeUnavailable},
		{"refused", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, relock.OutcomeUnavailable},
		{"full pool", redis.ErrPoolExhausted, relock.OutcomeUnavailable},
		{"LOADING", line("LOADING Redis is loading the dataset in memory"), relock.OutcomeUnavailable},
		{"MOVED", line("MOVED 3999 127.0.0.1:6381"), relock.OutcomeOther},
		{"some error", errors.New("boom"), relock.OutcomeOther},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, relock.OutcomeOf(tt.err))
			if tt.err == nil {
				return
			}
			for _, wrapped := range []error{
				fmt.Errorf("job 7: %w", tt.err),
				&relock.Error{Op: "lock", Key: "k", Err: tt.err},
				&relock.NodeError{Node: 2, Err: tt.err},
				errors.Join(errors.New("boom"), tt.err),
			} {
				require.Equal(t, tt.want, relock.OutcomeOf(wrapped), wrapped)
			}
		})
	}
}

// Of several reasons the first one of the table counts, however they are
// wrapped.
func TestOutcomeOfSeveralReasons(t *testing.T) {
	t.Parallel()
	order := []struct {
		err  error
		want relock.Outcome
	}{
		{context.Canceled, relock.OutcomeCanceled},
		{relock.ErrLockLost, relock.OutcomeLost},
		{relock.ErrUnconfirmed, relock.OutcomeUnconfirmed},
		{relock.ErrClosed, relock.OutcomeClosed},
		{relock.ErrDenied, relock.OutcomeDenied},
		{relock.ErrInvalid, relock.OutcomeInvalid},
		{relock.ErrLockAcquiredByOthers, relock.OutcomeBusy},
		{relock.ErrQuorum, relock.OutcomeUnavailable},
		{errors.New("boom"), relock.OutcomeOther},
	}
	for i, first := range order {
		for _, later := range order[i:] {
			for _, err := range []error{errors.Join(first.err, later.err), errors.Join(later.err, first.err), fmt.Errorf("%w: %w", later.err, first.err)} {
				require.Equal(t, first.want, relock.OutcomeOf(err), err)
			}
		}
	}
	for _, later := range order[1:] {
		require.Equal(t, relock.OutcomeTimeout, relock.OutcomeOf(errors.Join(later.err, context.DeadlineExceeded)))
	}
	_, dial := net.DialTimeout("tcp", "127.0.0.1:1", 1)
	require.ErrorIs(t, dial, context.DeadlineExceeded, "what is odd about it")
	require.Equal(t, relock.OutcomeUnavailable, relock.OutcomeOf(dial), "no context of the caller's has ended")
}

// Each reason is in the table of OutcomeOf, and none is other.
func TestEachReasonHasAnOutcome(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("outcome.go")
	require.NoError(t, err)
	doc := string(text[:strings.Index(string(text), "func OutcomeOf")])
	for _, reason := range reasons {
		got := relock.OutcomeOf(reason)
		if reason != relock.ErrMaxHold && reason != relock.ErrForced { //nolint:errorlint // these come with ErrLockLost
			require.NotEqual(t, relock.OutcomeOther, got, reason)
		}
		require.Contains(t, doc, "\n//	"+string(got)+" ")
	}
}

// A wait that was cancelled is canceled, also if others hold the lock, and the
// end of a block timeout is not a timeout.
func TestOutcomeOfAWait(t *testing.T) {
	t.Parallel()
	s := newExplained(t)
	c := s.client(t)
	require.NoError(t, relock.NewRedisLock("k", s.client(t)).Lock(t.Context()))
	err := refusal(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		return relock.NewRedisLock("k", c, relock.WithBlock()).Lock(ctx)
	})
	require.Equal(t, relock.OutcomeTimeout, relock.OutcomeOf(err))
	err = refusal(t, func() error {
		return relock.NewRedisLock("k", c, relock.WithBlockTimeout(50*time.Millisecond)).Lock(t.Context())
	})
	require.Equal(t, relock.OutcomeBusy, relock.OutcomeOf(err))
}

// The Unlock of a lost hold is lost, although it also matches ErrNotHeld.
func TestOutcomeOfALoss(t *testing.T) {
	t.Parallel()
	s := newExplained(t)
	h, err := relock.NewRedisLock("k", s.client(t)).Acquire(t.Context())
	require.NoError(t, err)
	s.Do(t, "DEL", s.key("k"))
	err = h.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrNotHeld)
	require.Equal(t, relock.OutcomeLost, relock.OutcomeOf(err))
	require.Equal(t, relock.OutcomeInvalid, relock.OutcomeOf(h.Unlock(t.Context())), "a second one")
}
