package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
)

// behindLock is the error of a run whose lock is not free now: its task goes
// behind that.
type behindLock struct{ lock string }

func (b behindLock) Error() string { return fmt.Sprintf("lock %q is held by others", b.lock) }

// errAway is that of a run whose lock cannot be had in time: its server is
// away, for example. Other processes may reach that, so the task is released.
var errAway = errors.New("the lock of the task cannot be had now")

// errNoLock is that of a run whose lock cannot be had at all: its name is
// invalid, for example. The function was not run, so it is no attempt.
var errNoLock = errors.New("the lock of the task cannot be had")

// noLockPause is when such a task is due again.
const noLockPause = 10 * time.Second

// attempt runs the function, under the lock of the task if it has one. It
// returns the error of the function, or of the hold if that was lost.
func (p *process) attempt(ctx context.Context, r *run) error {
	d, locker := r.delivery, p.set.locker
	lock := ""
	if locker != nil {
		lock = p.set.lockKey(d.Task)
	}
	switch {
	case lock == "":
		return p.fn(ctx, d)
	case r.lock == lock && r.held.Err() == nil:
		locker = given{r.held}
	case p.gates.isOpen(lock):
		return behindLock{lock}
	}
	err := relock.TryDo(ctx, locker, lock, func(ctx context.Context) error { return p.fn(ctx, d) })
	switch {
	case !relock.NotRun(err):
		return err
	case errors.Is(err, relock.ErrLockAcquiredByOthers) || errors.Is(err, relock.ErrQueueFull):
		return behindLock{lock}
	case relock.IsRetryableErr(err) || ctx.Err() != nil:
		return fmt.Errorf("%w: %w", errAway, err)
	}
	return fmt.Errorf("%w: %w", errNoLock, err)
}

// given is a Locker whose one lock its gate has acquired already.
type given struct{ hold relock.Hold }

func (g given) Lock(context.Context, string) (relock.Hold, error)    { return g.hold, nil }
func (g given) TryLock(context.Context, string) (relock.Hold, error) { return g.hold, nil }
