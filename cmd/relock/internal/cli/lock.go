package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/relock-go/relock"
)

// locking has the methods of a lock that relock run needs.
type locking interface {
	Validate() error
	Acquire(ctx context.Context) (relock.Hold, error)
	TryAcquire(ctx context.Context) (relock.Hold, error)
}

// reading is the read side of a read/write lock.
type reading struct{ *relock.RWLock }

func (l reading) Acquire(ctx context.Context) (relock.Hold, error) { return l.RAcquire(ctx) }

func (l reading) TryAcquire(ctx context.Context) (relock.Hold, error) { return l.TryRAcquire(ctx) }

// lock returns the lock that the flags describe.
func (r *runner) lock(c *relock.Client) locking {
	switch opts := r.options(); {
	case r.shared:
		return reading{relock.NewRWLock(r.key, c, opts...)}
	case r.exclusive:
		return relock.NewRWLock(r.key, c, opts...)
	case r.limited:
		return relock.NewSemaphore(r.key, r.permits, c, opts...)
	default:
		return relock.NewRedisLock(r.key, c, opts...)
	}
}

// options has no WithMaxHold: it releases the lock, and the command ends only
// after that.
func (r *runner) options() []relock.LockOption {
	opts := []relock.LockOption{relock.WithWatchdog(time.Duration(r.lease)), relock.WithBlock()}
	if !r.limited { // a semaphore has no order
		opts = append(opts, relock.WithFencing())
	}
	if r.waits && r.wait > 0 {
		opts = append(opts, relock.WithBlockTimeout(time.Duration(r.wait)))
	}
	if r.fair {
		opts = append(opts, relock.WithFair())
	}
	if r.minHold > 0 {
		opts = append(opts, relock.WithMinHold(time.Duration(r.minHold)))
	}
	if r.label != "" {
		opts = append(opts, relock.WithLabel(r.label))
	}
	return opts
}

// acquire acquires the lock. Its error has the exit code.
func (r *runner) acquire(ctx context.Context, c *relock.Client, stderr io.Writer) (relock.Hold, error) {
	hold, err := r.attempt(ctx, c, stderr)
	switch {
	case err == nil:
		return hold, nil
	case !errors.Is(err, relock.ErrLockAcquiredByOthers):
		return nil, exit(codeFailed, err)
	case !r.verbose:
		err = nil // as flock(1): the code is the answer
	}
	return nil, &exitError{r.busy, err}
}

func (r *runner) attempt(ctx context.Context, c *relock.Client, stderr io.Writer) (relock.Hold, error) {
	lock := r.lock(c)
	if err := lock.Validate(); err != nil {
		return nil, err
	}
	if r.nonblock || r.waits && r.wait == 0 {
		return lock.TryAcquire(ctx)
	}
	if err := c.Ping(ctx); err != nil {
		if !relock.IsRetryableErr(err) {
			return nil, err
		}
		// or a wrong address would look like a lock that others hold
		say(stderr, fmt.Errorf("waiting for the server: %w", err))
	}
	return lock.Acquire(ctx)
}
