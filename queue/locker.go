package queue

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock"
)

var errBusy = errors.New("the lock of the task is held by others")

// busyPause is when a task is tried again whose lock others hold.
const busyPause = 250 * time.Millisecond

// attempt runs the function, under the lock of the task if it has one. It
// returns the error of the function, or of the hold if that was lost.
func (p *process) attempt(ctx context.Context, d *Delivery) error {
	name := ""
	if p.set.locker != nil {
		name = p.set.lockKey(d.Task)
	}
	if name == "" {
		return p.fn(ctx, d)
	}
	ran := false
	err := relock.TryDo(ctx, p.set.locker, name, func(ctx context.Context) error {
		ran = true
		return p.fn(ctx, d)
	})
	if !ran && relock.IsRetryableErr(err) { // held by others, too
		return errBusy
	}
	return err
}
