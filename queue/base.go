package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// maxTogether is how many tasks one script takes at most.
const maxTogether = 64

// base is what all parts of a queue share: its name, settings and keys, and the
// way to its server. It never changes, and knows none of the parts.
type base struct {
	name   string
	redis  string // its name in Redis, from which its keys are made
	caller string // names its requests, and its receiver
	engine *host  // nil if it was made by hand
	set    settings
	spec   lockspec.Spec // of the leases of its deliveries
	due    signal        // a task may be due
	// The keys of the scripts that are sent most.
	renewKeys, settleKeys, enqueueKeys, putKeys []string
}

// connect names what the queue has in Redis. The name and the engine are set.
func (b *base) connect() {
	b.redis = b.engine.Prefix + "queue:{" + b.name + "}"
	b.caller = b.engine.Queue.NewHold()
	b.spec = lockspec.Spec{Kind: lockspec.Delivery, Watched: true, Lease: b.set.lease}
	b.enqueueKeys = script.TaskEnqueue.On(b.redis, "")
	b.putKeys = script.TaskPut.On(b.redis, "")
	b.renewKeys = script.TaskRenew.On(b.redis, "")
	b.settleKeys = script.TaskSettle.On(b.redis, "")
}

// ready returns an error if a call cannot begin.
func (b *base) ready(ctx context.Context) error {
	switch {
	case b.engine == nil:
		return errByHand
	case ctx == nil:
		return fmt.Errorf("%w: context: is nil", relock.ErrInvalid)
	case b.engine.Life.Err() != nil:
		return relock.ErrClosed
	case ctx.Err() != nil:
		return errs.EndOf(ctx, nil)
	}
	return nil
}

var errByHand = fmt.Errorf("%w: queue: was not made by New", relock.ErrInvalid)

// wrap adds the operation and the name of the queue to err.
func (b *base) wrap(op string, err error) error { return wrapped(op, b.name, err) }

// run sends a script for a caller, with the time that a command has.
func (b *base) run(ctx context.Context, s *script.TaskScript, args ...any) (driver.Result, script.Indeterminate) {
	return b.runOn(ctx, s, s.On(b.redis, b.caller), args)
}

func (b *base) runOn(
	ctx context.Context, s *script.TaskScript, keys []string, args []any,
) (driver.Result, script.Indeterminate) {
	return script.Run(ctx, b.engine.Driver, driver.Limits{},
		script.Call{Script: s.Script, Together: keys, Args: args}, nil)
}

// wait waits for the pause. It returns an error if ctx or the client has ended.
func (b *base) wait(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return errs.EndOf(ctx, nil)
	case <-b.engine.Life.Done():
		return errs.ErrClosed
	}
	return nil
}

// unconfirmed returns the error of a request that may have been executed, and
// must not be sent again without the caller's knowledge.
func unconfirmed(ctx context.Context, o driver.Result, d script.Indeterminate) error {
	err := driver.ContextErr(ctx, o.Err)
	if !d.Last.IsZero() {
		return errs.Join(relock.ErrUnconfirmed, err)
	}
	return err
}

// signal wakes a goroutine that waits.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) notify() {
	select {
	case s <- struct{}{}:
	default: // one is pending
	}
}
