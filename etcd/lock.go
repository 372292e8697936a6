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
	if l != nil && l.server != nil && l.config.observer != nil {
		o = *l.config.observer
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
	w := &wait{selfWait: selfWait{l.holders, name, o, time.Now(), nil}, locker: l, ctx: ctx, block: block}
	defer w.endHint()
	if block {
		w.outage = l.outages.begin()
		defer w.outage.end()
	}
	if o == nil {
		h, err = w.compete()
	} else {
		defer l.holders.exit(o)
		h, err = w.asOwner()
	}
	if block {
		err = w.explainOwn(err)
	}
	return h, w.waited(), err
}

// asOwner adds a level if the owner has the lock. The calls of an owner acquire
// one after another.
func (w *wait) asOwner() (*level, error) {
	l, o := w.locker, w.owner
	switch {
	case !w.block && !o.turn.try(), w.block && !w.take(o.turn):
		w.note(relock.ErrLockAcquiredByOthers)
		return nil, w.reason()
	}
	defer o.turn.give()
	if h, ok, err := l.holders.deeper(w.ctx, o); ok {
		return h, err
	}
	return w.compete()
}

func (w *wait) compete() (*level, error) {
	if w.locker.config.fair {
		return w.attempts((*claim).fair)
	}
	if w.block {
		e, err := w.enter()
		if err != nil {
			return nil, w.reason()
		}
		defer e.leave()
		w.line = e.line
	}
	return w.attempts((*claim).unfair)
}

// attempts makes claims, one under each session. It stops when one is granted,
// one fails for good, or the wait ends.
func (w *wait) attempts(attempt func(*claim) (*level, error)) (*level, error) {
	for again := false; ; again = true {
		h, err := w.attempt(attempt)
		if err == nil {
			return h, nil
		}
		w.note(err)
		switch {
		case errors.Is(err, errSession) && !again: // immediately, under the next lease
		case !w.block, errors.Is(err, ErrPlaceLost), !relock.IsRetryableErr(err), !w.pause(err):
			return nil, w.reason()
		}
		if w.ctx.Err() != nil || w.locker.life.Err() != nil {
			return nil, w.reason()
		}
	}
}

func (w *wait) attempt(attempt func(*claim) (*level, error)) (*level, error) {
	c, err := w.claim()
	if err != nil {
		return nil, err
	}
	h, err := attempt(c)
	if err != nil && !c.left {
		c.remove()
	}
	return h, err
}

// claim waits for what a claim needs, and makes one.
func (w *wait) claim() (*claim, error) {
	var e *entry
	var err error
	if w.block && w.locker.config.fair {
		if e, err = w.enter(); err != nil {
			return nil, err
		}
	}
	s, err := w.join()
	if err != nil {
		e.leave()
		return nil, err
	}
	return newClaim(w, s, e), nil
}

// join makes a claim one of the users of a session. It opens a session if none
// has room.
func (w *wait) join() (*session, error) {
	for {
		s, o := w.locker.opener.enter()
		switch {
		case s != nil:
			return s, nil
		case o == nil:
			return nil, w.locker.closed()
		case !w.outage.await(w.ctx, o.done): // Close ends the opening
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
