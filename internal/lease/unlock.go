package lease

import (
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/errs"
)

// Unlock ends the hold in this process first. Then it hands the lock off to the
// next local waiter, or releases it at the server.
func (h *Hold) Unlock() error { return h.grant.unlock(h) }

func (l *Lease) unlock(h *Hold) error {
	l.owner.take()
	defer l.owner.give()
	return l.unlockInTurn(h)
}

// unlockInTurn is unlock with the owner mutex held. It takes no longer than one
// command may, and then the time to read why the hold had ended already.
func (l *Lease) unlockInTurn(h *Hold) (err error) {
	start := time.Now()
	claimed, now := byMessage{l}.awaitFor(start)
	_ = h.errAt(now) // the clock decides, not whether a timer has fired
	l.Mu.Lock()
	if h.unlocked {
		l.Mu.Unlock()
		return errs.ErrNotHeld
	}
	defer func() { h.report.Done("unlock", err) }()
	l.drop(h)
	if h.ends.Err() != nil {
		defer l.Mu.Unlock()
		return h.unlockLost()
	}
	h.unlocked = true
	h.end(start, errs.ErrNotHeld)
	l.levels.Live--
	if rest := l.levels.Live; rest > 0 {
		l.Mu.Unlock()
		err = l.unlockInner(rest, start)
	} else {
		next := chooseNext(l, h, now)
		l.Mu.Unlock()
		err = next.complete(start)
		claimed.forget() // not before: the release must find the reservation
	}
	if err != nil {
		l.Mu.Lock()
		defer l.Mu.Unlock()
		h.noteLoss(err)
	}
	return err
}

// unlockInner sends the number of remaining levels. The server does not count
// those of a plain lock.
func (l *Lease) unlockInner(rest int, start time.Time) error {
	if l.owner == nil {
		return nil
	}
	return releaser{l}.send(rest, start)
}

// unlockLost ends a hold that was lost; the mutex is held.
func (h *Hold) unlockLost() error {
	lost := errs.NotHeld(h.ends.Err())
	h.unlocked = true
	h.noteLoss(lost)
	return lost
}

// noteLoss keeps the error of Unlock for Do if it reports a loss; the mutex is
// held.
func (h *Hold) noteLoss(err error) {
	if errs.IsLoss(err) {
		lost := err // only a loss is on the heap
		h.lost = &lost
	}
}

// FoundLost returns the error of the Unlock that found the hold lost or the
// client closed, or nil.
func (h *Hold) FoundLost() error {
	h.mu().Lock()
	defer h.mu().Unlock()
	if h.lost == nil {
		return nil
	}
	return *h.lost
}

// WarnUnconfirmed logs an unconfirmed release, for a caller that returns
// something else.
func (h *Hold) WarnUnconfirmed(why error) {
	h.grant.ofClient().Logger.Warn("relock: release not confirmed", h.grant.About("reason", why.Error())...)
}

// UnlockNewest unlocks the owner's newest level that writes, or its newest
// level that does not.
func (s *Owners) UnlockNewest(key OwnerKey, writes bool) error {
	o := s.Enter(key)
	defer o.Exit()
	o.take()
	defer o.give()
	l := o.lease
	if l == nil {
		return errs.ErrNotHeld
	}
	l.Mu.Lock()
	h := l.levels.newest(func(h *Hold) bool { return h.settings.Kind.Writes == writes })
	l.Mu.Unlock()
	if h == nil {
		return errs.ErrNotHeld
	}
	return l.unlockInTurn(h)
}

// String returns a text without ids, for code that prints a hold.
func (h *Hold) String() string { return "hold of " + strconv.Quote(h.Key()) }
