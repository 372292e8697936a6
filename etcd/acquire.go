package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
)

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
	w := &wait{locker: l, name: name, ctx: ctx, block: block, owner: o}
	w.own = selfWait{holders: l.holders, name: name, owner: o, since: time.Now()}
	defer w.own.end()
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
		err = w.own.explain(err)
	}
	return h, w.own.waited(), err
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
	if err != nil {
		c.abandon()
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
	c := newClaim(w, s)
	c.entry = e
	return c, nil
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
