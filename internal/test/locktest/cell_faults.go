package locktest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/testkit"
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

// promptness is how much later than it is due a thing may be, beside what a
// timer of the same time is late on a busy machine.
const promptness = 100 * time.Millisecond

// Alarm notes when a timer fires.
type Alarm struct {
	At   time.Time
	rang chan struct{} // closed by then
	when time.Time     // that was
	late *testkit.Stopwatch
}

// SetAlarm starts an alarm that is due at a time.
func SetAlarm(t testing.TB, at time.Time) *Alarm {
	a := &Alarm{At: at, rang: make(chan struct{}), late: testkit.NewStopwatch(t)}
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
// alarm. Several goroutines may pass it on, and each may be late.
func (a *Alarm) Prompt() error {
	ended := time.Now()
	if early := a.At.Sub(ended); early > 0 {
		return fmt.Errorf("%v too early", early)
	}
	if err := a.late.Judge(ended.Sub(a.Ring()), promptness); err != nil {
		return fmt.Errorf("too late: %w", err)
	}
	return nil
}
