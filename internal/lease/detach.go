package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/utils"
)

// Detacher is the protocol of a kind whose holds can be detached.
type Detacher interface {
	// Detach gives the lock to the detached hold next, and returns how a
	// release names that.
	Detach(next string, i lockspec.Identity, s *lockspec.Spec, stay time.Duration) (call script.Call, successor string)
}

// Detach ends the hold in this process first, without a release. Then it gives
// the lock to a new hold that nobody renews. The key stays for d, or for the
// rest of a longer minimum hold.
//
// A cancelled ctx, or a hold that cannot be detached or is not of the client m,
// is an error that leaves the hold as it was. From then on ctx only provides
// values: it may be the hold's own.
func (h *Hold) Detach(ctx context.Context, m *Manager, d time.Duration) (*lockspec.Detached, error) {
	if ctx.Err() != nil {
		return nil, errs.EndOf(ctx, nil)
	}
	next, err := utils.NewID()
	if err != nil {
		return nil, err
	}
	l := h.grant.single()
	if l == nil {
		return nil, h.notDetached()
	}
	l.owner.take()
	defer l.owner.give()
	if err := (byMessage{l}).need(ctx, h); err != nil {
		return nil, err
	}
	_ = h.Err() // the clock decides, not whether a timer has fired
	detached, err := endDetached(m, l, h, lockspec.DetachedHold(next), d)
	if err != nil {
		return nil, err
	}
	l.leave()
	retained{l}.end(errs.ErrDetached)
	err = sendDetached(context.WithoutCancel(ctx), l, h, detached)
	h.report.Done("detach", err)
	if err != nil {
		l.Mu.Lock()
		defer l.Mu.Unlock()
		h.noteLoss(err)
		return nil, err
	}
	return detached, nil
}

// endDetached ends the hold here. An error leaves it as it was.
func endDetached(m *Manager, l *Lease, h *Hold, next string, d time.Duration) (*lockspec.Detached, error) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	switch _, can := l.protocol.(Detacher); {
	case h.unlocked:
		return nil, errs.ErrNotHeld
	case h.ends.Err() != nil:
		l.drop(h)
		return nil, h.unlockLost()
	case !can:
		return nil, h.errDetach()
	case l.client != m.client:
		return nil, fmt.Errorf("%w: hold: is of another client", errs.ErrInvalid)
	case len(l.levels.All) > 1:
		return nil, fmt.Errorf("%w: hold: has %d levels, only a single one can be detached",
			errs.ErrInvalid, len(l.levels.All))
	}
	h.unlocked = true
	l.drop(h)
	h.end(time.Now(), errs.ErrDetached)
	l.levels.Live--
	l.Finish(errs.ErrDetached)
	keep := max(0, time.Until(l.keptUntil()))
	stay := max(d, roundUp(keep))
	l.request(stay) // a late copy of the request keeps the key for that long
	return &lockspec.Detached{
		Key: []byte(l.Name), Family: h.Family(), Fair: h.settings.Fair, Hold: next, Fence: h.fence, Stay: stay, Keep: keep,
	}, nil
}

// notDetached returns why the hold of a group is not detached.
func (h *Hold) notDetached() error {
	_ = h.Err() // the clock decides, not whether a timer has fired
	h.mu().Lock()
	defer h.mu().Unlock()
	switch {
	case h.unlocked:
		return errs.ErrNotHeld
	case h.ends.Err() != nil:
		return h.unlockLost()
	}
	return h.errDetach()
}

func (h *Hold) errDetach() error {
	return fmt.Errorf("%w: hold: a %s cannot be detached", errs.ErrInvalid, h.settings.Noun())
}

// errTwoCopies is the error of a granted Detach that a late copy could repeat.
var errTwoCopies = errors.New("a late copy of the acquire and one of this request may still come")

// sendDetached sends the request. If it is not known to have been granted, the
// lock is released in the background, in whichever of its two holds it is.
//
// It is no success if copies of the acquire and of the request are under way.
// Once the lock is free, these two would make the detached hold again.
func sendDetached(ctx context.Context, l *Lease, h *Hold, d *lockspec.Detached) error {
	c := l.client
	request, successor := l.protocol.(Detacher).Detach(d.Hold, c.Identity, h.settings, d.Stay)
	o, left := l.ask(ctx, h.settings, request)
	granted := o.Err == nil && o.Reply == int64(script.OK)
	switch {
	case granted && l.indeterminate.IsLate() && left.IsLate():
		o.Err = errTwoCopies
	case granted:
		if l.indeterminate.Exists() {
			c.Retrier.Retry(releaser{l}.cleanup(l.indeterminate))
		}
		return nil
	}
	l.Mu.Lock()
	l.setSuccessor(successor, l.indeterminate)
	l.Mu.Unlock()
	c.Retrier.Retry(releaser{l}.cleanup(l.indeterminate.Merge(left)))
	switch {
	case o.Err != nil:
		return errs.Join(errs.ErrUnconfirmed, o.Err)
	case left.Exists() && o.Reply != int64(script.Forced):
		// An earlier copy may have done it, and that hold has ended.
		return errs.Join(errs.ErrUnconfirmed, errs.ErrAnswerLost)
	}
	return errs.NotHeld(refusal{l}.end(o.Reply))
}

// roundUp returns d in whole milliseconds.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}
