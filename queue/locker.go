package queue

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock"
)

// errBusy reports that others hold the lock of a task.
var errBusy = errors.New("the lock of the task is held by others")

// busyPause is when a task is tried again whose lock others hold.
const busyPause = 250 * time.Millisecond

// lock acquires the lock of a task, if it has one. cancel is called when the
// hold is lost. free releases it: it returns the error of the function, or of
// the hold if that was lost.
func (p *process) lock(ctx context.Context, d *Delivery, cancel context.CancelCauseFunc) (free func(error) error, err error) {
	name := ""
	if p.set.locker != nil {
		name = p.set.lockKey(d.Task)
	}
	if name == "" {
		return func(err error) error { return err }, nil
	}
	hold, err := p.set.locker.TryLock(ctx, name)
	switch {
	case relock.IsRetryableErr(err): // held by others, too
		return nil, errBusy
	case err != nil:
		return nil, err
	}
	stop := context.AfterFunc(hold.Context(), func() { cancel(context.Cause(hold.Context())) })
	return func(err error) error {
		stop()
		lost := hold.Err()
		released := hold.Unlock(ctx)
		if lost == nil && errors.Is(released, relock.ErrLockLost) {
			lost = released
		}
		return errors.Join(err, lost)
	}, nil
}
