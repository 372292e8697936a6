package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
)

// Lock waits until it gets the lock or ctx is cancelled. It goes on waiting
// while servers cannot be reached. A fair wait whose place in the queue is gone
// ends with [ErrPlaceLost].
//
// With a ctx that carries a live hold of this Locker and name (see
// [relock.HoldFromContext]), or that names an owner which has one
// ([relock.ContextWithOwner]), it adds a level and sends nothing.
func (l *Locker) Lock(ctx context.Context, key string) (relock.Hold, error) {
	return l.hold(ctx, key, true)
}

// TryLock makes one attempt. The error matches [relock.ErrLockAcquiredByOthers]
// if another call has the lock or, for a fair lock, waits for it. TryLock adds
// a level as Lock does.
func (l *Locker) TryLock(ctx context.Context, key string) (relock.Hold, error) {
	return l.hold(ctx, key, false)
}

// hold is acquire with reports to the observer. Its errors are wrapped.
func (l *Locker) hold(ctx context.Context, key string, block bool) (relock.Hold, error) {
	var o relock.Observer
	if l != nil && l.server != nil {
		o = l.config.observer
	}
	seen, start := ctx, relock.LockStart{Key: key, Kind: kind, Block: block}
	if seen == nil {
		seen = context.Background() // the call fails, but a hook may ask for a value
	}
	if o.LockStart != nil {
		o.LockStart(seen, start)
	}
	began := time.Now()
	h, waited, err := l.acquire(ctx, key, block)
	err = wrap("lock", key, err)
	if o.LockDone != nil {
		o.LockDone(seen, relock.LockDone{LockStart: start, Start: began, End: time.Now(), Err: err, Waited: waited})
	}
	if err != nil {
		return nil, err
	}
	h.report.Announce()
	return h, nil
}

func (l *Locker) acquire(ctx context.Context, name string, block bool) (h *level, waited bool, err error) {
	if err := l.ready(ctx, name); err != nil {
		return nil, false, err
	}
	if h, ok, err := l.holders.reenter(ctx, name); ok {
		return h, false, err
	}
	o, err := l.holders.ownerOf(ctx, name)
	if err != nil {
		return nil, false, err
	}
	own := selfWait{l.holders, name, o, time.Now(), nil}
	c := call{&wait{server: l.server, selfWait: own, lines: l.lines, ctx: ctx, block: block}, l}
	defer c.endHint()
	if block {
		c.outage = l.outages.begin()
		defer c.outage.end()
	}
	if o == nil {
		h, err = c.compete()
	} else {
		defer l.holders.exit(o)
		h, err = c.asOwner()
	}
	if block {
		err = c.explainOwn(err)
	}
	return h, c.waited(), err
}

// call is one Lock or TryLock. It makes claims until one is granted, or its
// wait ends.
type call struct {
	*wait
	locker *Locker
}

// asOwner adds a level if the owner has the lock. The calls of an owner acquire
// one after another.
func (c call) asOwner() (*level, error) {
	o := c.owner
	if !c.block && !o.turn.try() || c.block && !c.take(o.turn) {
		c.note(relock.ErrLockAcquiredByOthers)
		return nil, c.reason()
	}
	defer o.turn.give()
	if h, ok, err := c.holders.deeper(c.ctx, o); ok {
		return h, err
	}
	return c.compete()
}

func (c call) compete() (*level, error) {
	if c.config.fair {
		return c.attempts((*claim).fair)
	}
	if c.block {
		e, err := c.enter()
		if err != nil {
			return nil, c.reason()
		}
		defer e.leave()
		c.line = e.line
	}
	return c.attempts((*claim).unfair)
}

// attempts makes claims, one under each session. It stops when one is granted,
// one fails for good, or the wait ends.
func (c call) attempts(attempt func(*claim) (*level, error)) (*level, error) {
	for again := false; ; again = true {
		h, err := c.attempt(attempt)
		if err == nil {
			return h, nil
		}
		c.note(err)
		switch {
		case errors.Is(err, errSession) && !again: // immediately, under the next lease
		case !c.block, errors.Is(err, ErrPlaceLost), !relock.IsRetryableErr(err), !c.pause(err):
			return nil, c.reason()
		}
		if c.ctx.Err() != nil || c.life.Err() != nil {
			return nil, c.reason()
		}
	}
}

func (c call) attempt(attempt func(*claim) (*level, error)) (*level, error) {
	one, err := c.claim()
	if err != nil {
		return nil, err
	}
	h, err := attempt(one)
	if err != nil && !one.left {
		one.remove()
	}
	return h, err
}

// claim waits for what a claim needs, and makes one.
func (c call) claim() (*claim, error) {
	var e *entry
	var err error
	if c.block && c.config.fair {
		if e, err = c.enter(); err != nil {
			return nil, err
		}
	}
	s, err := c.join()
	if err != nil {
		e.leave()
		return nil, err
	}
	return newClaim(c.locker, c.wait, s, e), nil
}

// join makes a claim one of the users of a session. It opens a session if none
// has room.
func (c call) join() (*session, error) {
	for {
		s, o := c.locker.opener.enter()
		switch {
		case s != nil:
			return s, nil
		case o == nil:
			return nil, c.closed()
		case !c.outage.await(c.ctx, o.done): // Close ends the opening
			return nil, errLeft
		case o.err != nil:
			return nil, o.err
		}
	}
}

// ready returns why a call cannot begin, or nil.
func (l *Locker) ready(ctx context.Context, key string) error {
	switch {
	case l == nil || l.server == nil:
		return errNotMade
	case ctx == nil:
		return errNilContext
	case key == "":
		return fmt.Errorf("%w: key: is empty", relock.ErrInvalid)
	case len(key) > maxKey:
		return fmt.Errorf("%w: key: %d bytes are above %d", relock.ErrInvalid, len(key), maxKey)
	case ctx.Err() != nil:
		return errs.EndOf(ctx, nil)
	case l.life.Err() != nil:
		return l.closed()
	}
	return nil
}
