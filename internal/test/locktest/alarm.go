package locktest

import (
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/test/testkit"
)

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
