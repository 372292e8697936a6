package etcdlock

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/outage"
)

// wait is one call that acquires a lock.
type wait struct {
	locker *Locker
	name   string
	ctx    context.Context // the caller's
	block  bool
	owner  *owner // nil if ctx names none
	line   *line  // where it waits; nil if it is fair or does not wait
	last   error  // the last reason seen
	pauses pauses // after errors of the server
	waited bool   // the call has paused, or has waited for a change of the key
	outage outage.Call
	since  time.Time   // when the call began
	hint   *time.Timer // see setHint; nil until the call waits
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
	w := &wait{locker: l, name: name, ctx: ctx, block: block, owner: o, since: time.Now()}
	w.begin()
	defer w.end()
	if o == nil {
		h, err = w.compete()
		return h, w.waited, w.explainOwn(err)
	}
	defer l.holders.exit(o)
	h, err = w.asOwner()
	return h, w.waited, w.explainOwn(err)
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

// take reports whether w got the turn. It notes that w has waited for it.
func (w *wait) take(t turn) bool {
	if t.try() {
		return true
	}
	w.setHint()
	w.endOutage() // the call that has the turn is the one that asks
	return t.take(w.ctx, w.locker.life)
}

func (w *wait) compete() (*level, error) {
	if w.locker.config.fair {
		return w.attempts(w.fair)
	}
	if w.block {
		e, err := w.enter()
		if err != nil {
			return nil, w.reason()
		}
		defer e.leave()
		w.line = e.line
	}
	return w.attempts(w.unfair)
}

// enter waits for the turn. Calls get it in their order.
func (w *wait) enter() (*entry, error) {
	e := w.locker.lines.join(w.name)
	if w.take(e.line.turn) {
		return e, nil
	}
	w.note(relock.ErrLockAcquiredByOthers)
	e.quit()
	return nil, errLeft
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
		case !w.awaitAnswer(o.done): // Close ends the opening
			return nil, errLeft
		case o.err != nil:
			return nil, o.err
		}
	}
}

// pause waits after an error. It reports whether the call goes on.
func (w *wait) pause(why error) bool {
	w.setHint()
	w.noteFailure(why)
	ctx, leave := both(w.ctx, w.locker.life)
	defer leave()
	return sleep(ctx, w.pauses.next())
}

// note keeps the reason of a failed attempt. If the caller left or the lease
// ended, an earlier reason says more, and stays.
func (w *wait) note(err error) {
	switch {
	case errors.Is(err, errLeft):
	case w.last != nil && (errors.Is(err, errSession) || errors.Is(err, errLate)):
	default:
		w.last = err
	}
}

// reason returns why the wait ended without a grant.
func (w *wait) reason() error {
	switch {
	case w.locker.life.Err() != nil:
		return w.locker.closed()
	case w.ctx.Err() != nil:
		return errs.EndOf(w.ctx, cmp.Or(w.locker.unreachable(), w.last))
	case w.last == nil:
		return errTimeout
	case !w.block && w.last == relock.ErrLockAcquiredByOthers: //nolint:errorlint // our own reason
		return errs.Refused
	}
	return w.last
}
