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
)

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

// Of several reasons the first one of the table counts, however they are wrapped.
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
	err := refused(t, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		return relock.NewRedisLock("k", c, relock.WithBlock()).Lock(ctx)
	})
	require.Equal(t, relock.OutcomeTimeout, relock.OutcomeOf(err))
	err = refused(t, func() error {
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
