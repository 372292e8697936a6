package relock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// promptness is how much later than it is due a thing may be, beside what a timer of the same time is late on a busy machine.
const promptness = 100 * time.Millisecond

// alarm notes when a timer fires.
type alarm struct {
	at   time.Time
	rang chan struct{} // closed by then
	when time.Time     // that was
}

func setAlarm(t testing.TB, at time.Time) *alarm {
	a := &alarm{at: at, rang: make(chan struct{})}
	timer := time.AfterFunc(time.Until(at), func() {
		a.when = time.Now()
		close(a.rang)
	})
	t.Cleanup(func() { timer.Stop() })
	return a
}

// ring waits for it, and returns when it was.
func (a *alarm) ring() time.Time {
	<-a.rang
	return a.when
}

// prompt says what is wrong with something that ended now and was due at the alarm.
func (a *alarm) prompt() error {
	ended := time.Now()
	if early := a.at.Sub(ended); early > 0 {
		return fmt.Errorf("%v too early", early)
	}
	if late := ended.Sub(a.ring()); late > promptness {
		return fmt.Errorf("%v too late", late)
	}
	return nil
}

// The server is gone without a word: connections stay and are taken, and nothing comes back on any of them. Holds are lost when their
// belief ends, callers return at their deadlines, and when the network is back the lock is free.
func TestSilentNetwork(t *testing.T) {
	const lease = 900 * time.Millisecond
	s := newFaultServer(t)
	var cells []cellRun
	for _, op := range renewers() {
		cells = append(cells, cellRun{op.name, func(t testing.TB) {
			c := newCell(t, s, WithCommandTimeout(defaultCommandTimeout))
			lock := op.lock(c.client, lease)
			holds := make([]Hold, op.levels)
			for i := range holds {
				var err error
				holds[i], err = lock.Acquire(t.Context())
				require.NoError(t, err)
			}
			c.proxy.Stall()
			returned := c.callsWithDeadlines(op)
			c.requireLossInTime(holds[0].(hold).level)
			for name, err := range returned {
				require.NoError(t, testkit.ResultWithin(t, err, cellPatience), name)
			}
			c.proxy.Resume()
			for _, h := range holds {
				require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
			}
			ctx, cancel := context.WithTimeout(t.Context(), cellPatience)
			defer cancel()
			require.NoError(t, op.lock(c.other, lease, WithBlock()).Lock(ctx))
		}})
	}
	together(t, cells)
}

// requireLossInTime sees a hold end when its belief does.
func (c *cell) requireLossInTime(h *lease.Hold) {
	c.Helper()
	due := setAlarm(c, h.ValidUntil())
	require.ErrorIs(c, testkit.EndedWithin(c, h.Context(), cellPatience), ErrLockLost)
	err := due.prompt()
	require.ErrorIs(c, h.Err(), ErrLockLost)
	if h.Lease().State().ValidUntil.Equal(due.at) { // else one more answer was on its way
		require.NoError(c, err)
	}
}

// callsWithDeadlines are calls on the connection that is there, on new ones, and on one whose dial waits for an answer. Each says
// what is wrong with its end.
func (c *cell) callsWithDeadlines(op variant) map[string]<-chan error {
	behind := &redistest.Server{Network: c.proxy.Network, Address: c.proxy.Address}
	dialling := newTestClient(c, behind, WithDatabase(1), WithCommandTimeout(defaultCommandTimeout))
	returned := map[string]<-chan error{}
	for name, call := range map[string]func(context.Context) error{
		"one attempt":          owned("another", op.lock(c.client, cellLease)).TryLock,
		"waits":                owned("another", op.lock(c.client, cellLease, WithBlock())).Lock,
		"waits, while dialled": owned("another", op.lock(dialling, cellLease, WithBlock())).Lock,
		"ping":                 c.client.Ping,
	} {
		returned[name] = testkit.Async(c, func() error {
			ctx, cancel := context.WithTimeout(c.Context(), answerLimit)
			defer cancel()
			deadline, _ := ctx.Deadline()
			due := setAlarm(c, deadline)
			err := call(ctx)
			if late := due.prompt(); late != nil {
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
