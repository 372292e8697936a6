package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// slowAnswer is the delay of an answer that comes in time nevertheless.
const slowAnswer = 100 * time.Millisecond

// DelayThenLose delays the answer to the first request that matches, and loses
// all later ones.
func (c *FaultBench) DelayThenLose(match faults.Match) {
	c.Proxy.On(match, 1, faults.Delay(slowAnswer))
	c.Proxy.On(match, faults.Every, faults.DropRequest)
}

// lateDriver makes the first answers look as if they had taken an hour, as for
// a process that was stopped.
type lateDriver struct {
	driver.Driver
	late atomic.Int32 // answers that are left to do so
}

func (d *lateDriver) Send(ctx context.Context, limit driver.Limits, r driver.Request) driver.Result {
	o := d.Driver.Send(ctx, limit, r)
	if o.Err == nil && d.late.Add(-1) >= 0 {
		o.Sent = o.Sent.Add(-time.Hour)
	}
	return o
}

// LateAnswers makes the next n answers to the client late.
func (c *FaultBench) LateAnswers(n int32) {
	d := &lateDriver{Driver: Engine(c.Client).Driver}
	d.late.Store(n)
	Engine(c.Client).Driver = d
}

// CallsWithDeadlines starts calls on the connection that is there, on new ones,
// and on one whose dial waits for an answer. Each returns what is wrong with
// its end.
func (c *FaultBench) CallsWithDeadlines(op Variant) map[string]<-chan error {
	behind := &redistest.Server{Network: c.Proxy.Network, Address: c.Proxy.Address}
	dialling := NewTestClient(c, behind, relock.WithDatabase(1), relock.WithCommandTimeout(DefaultCommandTimeout))
	returned := map[string]<-chan error{}
	for name, call := range map[string]func(context.Context) error{
		"one attempt":          Owned("another", op.Lock(c.Client, FaultLease)).TryLock,
		"waits":                Owned("another", op.Lock(c.Client, FaultLease, relock.WithBlock())).Lock,
		"waits, while dialled": Owned("another", op.Lock(dialling, FaultLease, relock.WithBlock())).Lock,
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

// RoundWithEndingContext takes a lock with a context that is cancelled at a
// random moment, and releases it. It returns the result as text.
func (c *FaultBench) RoundWithEndingContext(name int) string {
	lock := AnyLock(relock.NewRedisLock(fmt.Sprint("plain", name), c.Client, relock.WithBlock(), relock.WithPollInterval(10*time.Millisecond)))
	if rand.IntN(2) == 0 {
		lock = relock.NewReentrantLock(fmt.Sprint("reentrant", name), c.Client)
	}
	delay := rand.N(3 * time.Millisecond)
	ctx, cancel := context.WithTimeout(c.Context(), delay)
	if rand.IntN(2) == 0 {
		ctx, cancel = context.WithCancel(c.Context())
		defer time.AfterFunc(delay, cancel).Stop()
	}
	defer cancel()
	take := lock.Acquire
	if rand.IntN(2) == 0 {
		take = lock.TryAcquire
	}
	hold, err := take(ctx)
	switch {
	case (hold == nil) == (err == nil):
		return fmt.Sprintf("hold %v, error %v", hold, err)
	case err == nil:
		if err := hold.Unlock(ctx); err != nil {
			return "unlock: " + err.Error()
		}
		return "granted"
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return "ended"
	case errors.Is(err, relock.ErrLockAcquiredByOthers):
		return "held by others"
	}
	return "lock: " + err.Error()
}

// promptness is how much later than it is due a thing may be, beside what a
// timer of the same time is late on a busy machine.
const promptness = 100 * time.Millisecond

// Alarm notes when a timer fires.
type Alarm struct {
	At   time.Time
	rang chan struct{} // closed by then
	when time.Time     // that was
}

// SetAlarm starts an alarm that is due at a time.
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

// Prompt says what is wrong with something that ended now and was due at the
// alarm.
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
