package driver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// The server is gone without a word: connections stay and are taken, and
// nothing comes back on any of them. Holds are lost when their validity ends,
// callers return at their deadlines, and when the network is back the lock is
// free.
func TestSilentNetwork(t *testing.T) {
	t.Parallel()
	const lease = 900 * time.Millisecond
	s := locktest.NewServerWithScripts(t)
	var cells []locktest.Subtest
	for _, op := range locktest.Renewers() {
		cells = append(cells, locktest.Subtest{Name: op.Name, Run: func(t testing.TB) {
			c := locktest.NewFaultBench(t, s, relock.WithCommandTimeout(locktest.DefaultCommandTimeout))
			lock := op.Lock(c.Client, lease, relock.WithBlock()) // the answer may be late on a busy machine
			holds := make([]relock.Hold, op.Levels)
			for i := range holds {
				var err error
				holds[i], err = lock.Acquire(t.Context())
				require.NoError(t, err)
			}
			c.Proxy.Stall()
			returned := callsWithDeadlines(c, op)
			requireLossInTime(c, locktest.Level(holds[0]))
			for name, err := range returned {
				require.NoError(t, testkit.ResultWithin(t, err, locktest.FaultPatience), name)
			}
			c.Proxy.Resume()
			for _, h := range holds {
				require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
			}
			ctx, cancel := context.WithTimeout(t.Context(), locktest.FaultPatience)
			defer cancel()
			require.NoError(t, op.Lock(c.Other, lease, relock.WithBlock()).Lock(ctx))
		}})
	}
	locktest.RunTogether(t, cells)
}

// callsWithDeadlines starts calls on the connection that is there, on new ones,
// and on one whose dial waits for an answer. Each returns what is wrong with
// its end.
func callsWithDeadlines(c *locktest.FaultBench, op locktest.Variant) map[string]<-chan error {
	behind := &redistest.Server{Network: c.Proxy.Network, Address: c.Proxy.Address}
	dialling := locktest.NewTestClient(c, behind, relock.WithDatabase(1), relock.WithCommandTimeout(locktest.DefaultCommandTimeout))
	returned := map[string]<-chan error{}
	for name, call := range map[string]func(context.Context) error{
		"one attempt":          locktest.Owned("another", op.Lock(c.Client, locktest.FaultLease)).TryLock,
		"waits":                locktest.Owned("another", op.Lock(c.Client, locktest.FaultLease, relock.WithBlock())).Lock,
		"waits, while dialled": locktest.Owned("another", op.Lock(dialling, locktest.FaultLease, relock.WithBlock())).Lock,
		"ping":                 c.Client.Ping,
	} {
		returned[name] = testkit.Async(c, func() error {
			ctx, cancel := context.WithTimeout(c.Context(), locktest.AnswerLimit)
			defer cancel()
			deadline, _ := ctx.Deadline()
			due := locktest.SetAlarm(c, deadline)
			err := call(ctx)
			if late := due.Prompt(); late != nil {
				return late
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("not the end of its context: %w", err)
			}
			return nil
		})
	}
	return returned
}

// requireLossInTime waits until a hold is lost, and checks that this is when
// its validity ends.
func requireLossInTime(c *locktest.FaultBench, h *lease.Hold) {
	c.Helper()
	due := locktest.SetAlarm(c, h.ValidUntil())
	require.ErrorIs(c, testkit.EndedWithin(c, h.Context(), locktest.FaultPatience), relock.ErrLockLost)
	err := due.Prompt()
	require.ErrorIs(c, h.Err(), relock.ErrLockLost)
	if h.Lease().State().ValidUntil.Equal(due.At) { // else one more answer was on its way
		require.NoError(c, err)
	}
}
