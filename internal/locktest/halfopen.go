package locktest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// promptness is how much later than it is due a thing may be, beside what a timer of the same time is late on a busy machine.
const promptness = 100 * time.Millisecond

// Alarm notes when a timer fires.
type Alarm struct {
	At   time.Time
	rang chan struct{} // closed by then
	when time.Time     // that was
}

func SetAlarm(t testing.TB, at time.Time) *Alarm {
	a := &Alarm{At: at, rang: make(chan struct{})}
	timer := time.AfterFunc(time.Until(at), func() {
		a.when = time.Now()
		close(a.rang)
	})
	t.Cleanup(func() { timer.Stop() })
	return a
}

// Ring waits for it, and returns when it was.
func (a *Alarm) Ring() time.Time {
	<-a.rang
	return a.when
}

// Prompt says what is wrong with something that ended now and was due at the alarm.
func (a *Alarm) Prompt() error {
	ended := time.Now()
	if early := a.At.Sub(ended); early > 0 {
		return fmt.Errorf("%v too early", early)
	}
	if late := ended.Sub(a.Ring()); late > promptness {
		return fmt.Errorf("%v too late", late)
	}
	return nil
}

// RequireLossInTime sees a hold end when its belief does.
func (c *Cell) RequireLossInTime(h *lease.Hold) {
	c.Helper()
	due := SetAlarm(c, h.ValidUntil())
	require.ErrorIs(c, testkit.EndedWithin(c, h.Context(), CellPatience), relock.ErrLockLost)
	err := due.Prompt()
	require.ErrorIs(c, h.Err(), relock.ErrLockLost)
	if h.Lease().State().ValidUntil.Equal(due.At) { // else one more answer was on its way
		require.NoError(c, err)
	}
}

// CallsWithDeadlines are calls on the connection that is there, on new ones, and on one whose dial waits for an answer. Each says
// what is wrong with its end.
func (c *Cell) CallsWithDeadlines(op Variant) map[string]<-chan error {
	behind := &redistest.Server{Network: c.Proxy.Network, Address: c.Proxy.Address}
	dialling := NewTestClient(c, behind, relock.WithDatabase(1), relock.WithCommandTimeout(DefaultCommandTimeout))
	returned := map[string]<-chan error{}
	for name, call := range map[string]func(context.Context) error{
		"one attempt":          op.Lock(c.Client, CellLease, differentOwner(op)...).TryLock,
		"waits":                op.Lock(c.Client, CellLease, append(differentOwner(op), relock.WithBlock())...).Lock,
		"waits, while dialled": op.Lock(dialling, CellLease, append(differentOwner(op), relock.WithBlock())...).Lock,
		"ping":                 c.Client.Ping,
	} {
		returned[name] = testkit.Async(c, func() error {
			ctx, cancel := context.WithTimeout(c.Context(), AnswerLimit)
			defer cancel()
			deadline, _ := ctx.Deadline()
			due := SetAlarm(c, deadline)
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

// differentOwner makes another owner of a reentrant lock.
func differentOwner(op Variant) []relock.LockOption {
	if op.reentrant {
		return []relock.LockOption{relock.WithOwner("another")}
	}
	return nil
}
