package relock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestOutcomeOf(t *testing.T) {
	t.Parallel()
	for want, all := range map[relock.Outcome][]error{
		relock.OutcomeCanceled:    {context.Canceled},
		relock.OutcomeTimeout:     {context.DeadlineExceeded},
		relock.OutcomeBusy:        {relock.ErrLockAcquiredByOthers, relock.ErrQueueFull, relock.ErrUpgrade},
		relock.OutcomeLost:        {relock.ErrLockLost},
		relock.OutcomeUnconfirmed: {relock.ErrUnconfirmed},
		relock.OutcomeDenied:      {relock.ErrDenied},
		relock.OutcomeInvalid:     {relock.ErrInvalid, relock.ErrKeyConflict, relock.ErrNotHeld},
		relock.OutcomeClosed:      {relock.ErrClosed},
		relock.OutcomeUnavailable: {
			relock.ErrQuorum, relock.ErrReplicas, io.EOF, os.ErrDeadlineExceeded,
			&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
			redis.ErrPoolExhausted, redis.Error("LOADING Redis is loading the dataset in memory"),
		},
		relock.OutcomeOther: {redis.Error("MOVED 3999 127.0.0.1:6381"), errors.New("boom")},
	} {
		for _, err := range all {
			for _, wrapped := range []error{
				err, fmt.Errorf("job 7: %w", err), locking(err), &relock.NodeError{Node: 2, Err: err},
				errors.Join(errors.New("boom"), err),
			} {
				require.Equal(t, want, relock.OutcomeOf(wrapped), "%#v", wrapped)
			}
		}
	}
	require.Equal(t, relock.OutcomeOK, relock.OutcomeOf(nil))
}

// Of several reasons the first one of the table counts, however they are
// wrapped.
func TestOutcomeOfSeveralReasons(t *testing.T) {
	t.Parallel()
	order := []struct {
		err  error
		want relock.Outcome
	}{
		{relock.ErrLockLost, relock.OutcomeLost},
		{context.Canceled, relock.OutcomeCanceled},
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
			for _, err := range []error{
				errors.Join(first.err, later.err), errors.Join(later.err, first.err), fmt.Errorf("%w: %w", later.err, first.err),
			} {
				require.Equal(t, first.want, relock.OutcomeOf(err), err)
			}
		}
	}
	for _, later := range order[2:] {
		require.Equal(t, relock.OutcomeTimeout, relock.OutcomeOf(errors.Join(later.err, context.DeadlineExceeded)))
	}
	_, dial := net.DialTimeout("tcp", "127.0.0.1:1", 1)
	require.ErrorIs(t, dial, context.DeadlineExceeded, "what is odd about it")
	require.Equal(t, relock.OutcomeUnavailable, relock.OutcomeOf(dial), "no context of the caller's has ended")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, dial = new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:1")
	require.ErrorIs(t, dial, context.Canceled, "what is odd about it")
	require.Equal(t, relock.OutcomeUnavailable, relock.OutcomeOf(dial), "whose context it was is unknown")
}

// The cause of a context that a signal has cancelled is canceled, however it is
// wrapped.
func TestOutcomeOfASignal(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGHUP)
	defer stop()
	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	require.NoError(t, self.Signal(syscall.SIGHUP))
	cause := testkit.EndedWithin(t, ctx, testkit.Patience)
	c := locktest.NewTestClient(t, s)
	done := relock.NewRedisLock("k", c).Do(t.Context(), func(context.Context) error { return cause })
	get := &url.Error{Op: "Get", URL: "http://localhost", Err: cause}
	for _, err := range []error{cause, done, get, fmt.Errorf("job 7: %w", get)} {
		require.Equal(t, relock.OutcomeCanceled, relock.OutcomeOf(err), "%#v", err)
	}
}

// Each reason is in the table of OutcomeOf, and none is other.
func TestEachReasonHasAnOutcome(t *testing.T) {
	t.Parallel()
	doc, _, _ := strings.Cut(readFile(t, "errors.go"), "func OutcomeOf")
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
	s, c := locktest.OnShared(t)
	require.NoError(t, relock.NewRedisLock("k", locktest.Sibling(t, s, c)).Lock(t.Context()))
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
	s, c := locktest.OnShared(t)
	h := locktest.Take(t, relock.NewRedisLock("k", c).Acquire)
	s.Do(t, "DEL", locktest.KeyOf(c, "k"))
	err := h.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrNotHeld)
	require.Equal(t, relock.OutcomeLost, relock.OutcomeOf(err))
	require.Equal(t, relock.OutcomeInvalid, relock.OutcomeOf(h.Unlock(t.Context())), "a second one")
	err = relock.NewRedisLock("k", c).Do(t.Context(), func(ctx context.Context) error {
		s.Do(t, "DEL", locktest.KeyOf(c, "k"))
		return context.Canceled // as ctx.Err() is after a loss
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, relock.OutcomeLost, relock.OutcomeOf(err), "of a Do")
	h = locktest.Take(t, relock.NewRedisLock("outer", c).Acquire)
	defer h.Unlock(t.Context()) //nolint:errcheck // it is lost
	s.Do(t, "DEL", locktest.KeyOf(c, "outer"))
	require.ErrorIs(t, h.Extend(t.Context(), time.Minute), relock.ErrLockLost)
	err = relock.NewRedisLock("inner", c, relock.WithBlock()).Lock(h.Context())
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, relock.OutcomeLost, relock.OutcomeOf(err), "of a call under a hold that was lost")
}
