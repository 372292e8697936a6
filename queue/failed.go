package queue

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/relock-go/relock/internal/lockspec"
)

// guarded runs code of the user for a delivery. A panic is logged, and is an
// error.
func (d *Delivery) guarded(run func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			stack := debug.Stack()
			err = fmt.Errorf("panic: %v\n%s", value, stack)
			d.queue.engine.Logger.Error("relock: a function of a task panicked",
				d.about("panic", value, "stack", string(stack))...)
		}
	}()
	return run()
}

// fail settles a delivery whose attempt has failed. Once life has ended, that
// is no attempt.
func (d *Delivery) fail(life context.Context, why error, backoff func(int, error) time.Duration) error {
	switch {
	case isPermanent(why):
		return d.DeadLetter(life, why)
	case life.Err() != nil:
		return d.settle("release", verbRelease, 0, Released, why)
	case d.Attempt >= cmp.Or(d.MaxAttempts, d.queue.set.attempts):
		return d.DeadLetter(life, why)
	}
	earlier := d.doing.Swap(doingBackoff)
	pause := backoff(d.Attempt, why)
	d.doing.Store(earlier)
	return d.Nack(life, min(max(0, pause), lockspec.MaxLease), why)
}
