package inspect

import (
	"context"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Force ends the hold of the lock with this name, and hands the lock on. It
// returns errs.ErrNotHeld if the lock is free, errs.ErrKeyConflict if the key
// is something else, and errs.ErrUnconfirmed if there was no answer.
func (l Locks) Force(ctx context.Context, name, reason string) error {
	s, o := l.force(ctx, name, reason)
	switch {
	case o.Unanswered():
		return errs.Both(errs.ErrUnconfirmed, driver.Ended(ctx, o.Err))
	case o.Err != nil:
		return driver.Ended(ctx, o.Err)
	case o.Reply == int64(script.Other):
		return errs.ErrNotHeld
	case o.Reply == int64(script.More):
		l.PassOn(s)
	case o.Reply != int64(script.Ours):
		return errs.ErrKeyConflict
	}
	return nil
}

// force sends the scripts of all families, until one finds its lock. Each is
// sent once: a second copy could end the next hold.
func (l Locks) force(ctx context.Context, name, reason string) (s script.Call, o driver.Result) {
	s = script.Call{Key: l.key(name), Args: []any{reason}}
	for _, s.Script = range []*script.Script{script.Force, script.RWForce, script.SemaphoreForce} {
		o = script.RunOnce(ctx, l.Driver, driver.Limits{}, s, nil)
		if o.Err != nil || o.Reply != int64(script.Foreign) {
			break
		}
	}
	for {
		newest, err := driver.String(o.Reply, o.Err)
		if err != nil {
			return s, o
		}
		s.Args = []any{reason, newest} // of a semaphore, more holds are left
		o = script.RunOnce(ctx, l.Driver, driver.Limits{}, s, nil)
	}
}
