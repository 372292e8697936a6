package conns_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// The server falls silent: connections stay and are taken, and nothing comes
// back on any of them. Holds are lost when their validity ends, callers return
// at their deadlines, and when the network is back the lock is free.
func TestSilentNetwork(t *testing.T) {
	t.Parallel()
	const lease = 3 * time.Second
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
			machine := testkit.NewStopwatch(t)
			c.Proxy.Stall()
			returned := callsWithDeadlines(c, op)
			requireLossInTime(c, holds[0], machine)
			for name, late := range returned {
				took, ok := testkit.Await(late, testkit.Patience)
				require.True(t, ok, name)
				machine.Check(took, prompt, name)
			}
			c.Proxy.Resume()
			for _, h := range holds {
				require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
			}
			require.NoError(t, op.Lock(c.Other, lease, relock.WithBlockTimeout(testkit.Patience)).Lock(t.Context()))
		}})
	}
	locktest.RunTogether(t, cells)
}

// prompt is how much later than it is due the end of a call or a hold may be.
const prompt = 100 * time.Millisecond

// callsWithDeadlines starts calls on the connection that is there, on new ones,
// and on one whose dial waits for an answer. Each returns how long after its
// deadline it ended.
func callsWithDeadlines(c *locktest.FaultBench, op locktest.Variant) map[string]<-chan time.Duration {
	behind := &redistest.Server{Network: c.Proxy.Network, Address: c.Proxy.Address}
	dialling := locktest.NewTestClient(c, behind,
		relock.WithDatabase(1), relock.WithCommandTimeout(locktest.DefaultCommandTimeout))
	returned := map[string]<-chan time.Duration{}
	for name, call := range map[string]func(context.Context) error{
		"one attempt":          locktest.Owned("another", op.Lock(c.Client, locktest.FaultLease)).TryLock,
		"waits":                locktest.Owned("another", op.Lock(c.Client, locktest.FaultLease, relock.WithBlock())).Lock,
		"waits, while dialled": locktest.Owned("another", op.Lock(dialling, locktest.FaultLease, relock.WithBlock())).Lock,
		"ping":                 c.Client.Ping,
	} {
		late := make(chan time.Duration, 1)
		returned[name] = late
		testkit.Async(c, func() error {
			ctx, cancel := context.WithTimeout(c.Context(), locktest.AnswerLimit)
			defer cancel()
			deadline, _ := ctx.Deadline()
			err := call(ctx)
			late <- time.Since(deadline)
			assert.ErrorIs(c, err, context.DeadlineExceeded, name)
			assert.Error(c, ctx.Err(), "%s ended too early", name)
			return nil
		})
	}
	return returned
}

// requireLossInTime waits until a hold is lost, and checks that this is when
// its validity ends.
func requireLossInTime(c *locktest.FaultBench, h relock.Hold, machine *testkit.Stopwatch) {
	c.Helper()
	due, over := h.ValidUntil(), h.Context().Done()
	testkit.Eventually(c, testkit.Patience, func() bool {
		if until := h.ValidUntil(); !until.IsZero() {
			due = until // one more answer was on its way
		}
		_, ended := testkit.Await(over, 10*time.Millisecond)
		return ended
	}, "lost")
	late := time.Since(due)
	require.ErrorIs(c, h.Err(), relock.ErrLockLost)
	require.GreaterOrEqual(c, late, time.Duration(0), "too early")
	machine.Check(late, prompt)
}
