package relocktest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/taskdouble"
)

// attempt is the lease of a delivery of a Queue.
type attempt struct {
	queue  *Queue
	task   *task
	chosen func() (verb string, argument any)

	mu      sync.Mutex // after that of the Queue
	over    error      // why it has ended; nil while it is valid
	cancels []context.CancelCauseFunc
}

var _ taskdouble.Attempt = (*attempt)(nil)

// CancelWith has cancel called when the lease ends.
func (a *attempt) CancelWith(cancel context.CancelCauseFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over != nil {
		cancel(a.over)
		return
	}
	a.cancels = append(a.cancels, cancel)
}

// StopRenewing has no effect: only Lose ends a lease.
func (a *attempt) StopRenewing() {}

// Err returns why the lease has ended, or nil.
func (a *attempt) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.over
}

// end ends the lease. It returns why it had ended before, or nil.
func (a *attempt) end(why error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over != nil {
		return a.over
	}
	a.over = why
	for _, cancel := range a.cancels {
		cancel(why)
	}
	return nil
}

// Settle ends the lease, and does with the task what the delivery has chosen.
func (a *attempt) Settle() error {
	verb, argument := a.chosen()
	a.queue.mu.Lock()
	defer a.queue.mu.Unlock()
	if over := a.end(errs.ErrNotHeld); over != nil {
		return errs.NotHeld(over)
	}
	a.queue.settleLocked(a.task, verb, argument)
	return nil
}

// settleLocked ends an attempt at a task: ack, nack, dead letter or release.
func (q *Queue) settleLocked(t *task, verb string, argument any) {
	t.running = nil
	now := time.Now()
	switch verb {
	case "a":
		t.done = now
		q.forgetLocked()
	case "d":
		t.died, t.reason = now, argument.(string) //nolint:forcetypeassert // the reason is a text
	case "r":
		t.attempts--
		q.againLocked(t, argument)
	default:
		t.reason = ""
		if text, ok := argument.(string); ok { // the pause in milliseconds, and why
			argument, t.reason, _ = strings.Cut(text, " ")
		}
		q.againLocked(t, argument)
	}
}

// againLocked makes a task due after a pause, behind what is due by then.
func (q *Queue) againLocked(t *task, pause any) {
	var millis int64
	_, _ = fmt.Sscan(fmt.Sprint(pause), &millis) // written by package queue
	t.due, t.place = time.Now().Add(time.Duration(millis)*time.Millisecond), q.nextLocked()
}

// Lose makes a delivery lose its lease, as if its process were gone. Its
// contexts are cancelled before Lose returns. That is an interruption, and no
// attempt: the task is due again where it was, or, with the last one of
// [queue.WithMaxInterruptions], a dead letter. Lose reports whether the task
// was in flight.
func (q *Queue) Lose(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	t := q.tasks[id]
	if t == nil || t.running == nil {
		return false
	}
	_ = t.running.end(errs.Vanished)
	q.interruptLocked(t)
	return true
}

// interruptLocked ends an attempt whose process is gone.
func (q *Queue) interruptLocked(t *task) {
	t.running = nil
	t.attempts--
	t.interruptions++
	t.due, t.place = t.enqueued.Add(t.Delay), t.ticket
	if t.interruptions >= q.settings.Fatal {
		t.died, t.reason = time.Now(), fmt.Sprintf("interrupted %d times: its worker was gone", t.interruptions)
	}
}
