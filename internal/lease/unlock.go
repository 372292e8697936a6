package lease

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/waitqueue"
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
// command may.
func (l *Lease) unlockInTurn(h *Hold) (err error) {
	start := time.Now()
	now := start
	c := l.unsettled()
	if c != nil {
		l.await(context.Background(), c, min(l.client.CommandTimeout, l.settings.Lease/3)/2)
		now = time.Now()
	}
	_ = h.errAt(now) // the clock decides, not whether a timer has fired
	l.mu.Lock()
	if h.unlocked {
		l.mu.Unlock()
		return errs.ErrNotHeld
	}
	h.unlocked = true
	defer func() { h.report.Done("unlock", err) }()
	l.drop(h)
	if over := h.ends.Err(); over != nil {
		defer l.mu.Unlock()
		h.noteLoss(errs.Gone(over))
		return errs.Gone(over)
	}
	h.end(start, errs.ErrNotHeld)
	l.levels.Live--
	rest := l.levels.Live
	var next *Transfer
	var left *waitqueue.Entry // a queue entry that belongs to nobody now
	passed := false
	if rest == 0 {
		if left, passed = l.pass(h, now); !passed {
			next, left = l.choose(h, now)
			l.over = errs.ErrNotHeld
		}
	}
	l.mu.Unlock()
	left.Leave()
	if passed {
		return nil
	}
	if rest == 0 {
		l.leave()
	}
	err = l.handOff(rest, next, start)
	if rest == 0 {
		c.forget() // not before: the release must find the reservation
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h.noteLoss(err)
	return err
}

// noteLoss keeps the error of Unlock for Do if it reports a loss; the mutex is
// held.
func (h *Hold) noteLoss(err error) {
	if errs.IsLoss(err) {
		h.lost = err
	}
}

// handOff transfers the lock to the local waiter of next. If there is none, or
// the transfer fails, it sends the number of remaining levels instead. The
// server does not count those of a plain lock.
func (l *Lease) handOff(levels int, next *Transfer, start time.Time) error {
	if levels > 0 && l.owner == nil {
		return nil
	}
	if done, err := l.transfer(next, start); done {
		return err
	}
	var retained *waitqueue.Entry
	if levels == 0 {
		retained = l.takeRetained()
	}
	err := l.sendLevels(levels, start)
	retained.LeaveWith(err)
	return err
}

// FoundLost returns the error of the Unlock that found the hold lost or the
// client closed, or nil.
func (h *Hold) FoundLost() error {
	h.mu().Lock()
	defer h.mu().Unlock()
	return h.lost
}

// WarnUnconfirmed logs an unconfirmed release, for a caller that returns
// something else.
func (h *Hold) WarnUnconfirmed(why error) {
	h.grant.valid().client.Logger.Warn("relock: release not confirmed", h.grant.about("reason", why.Error())...)
}

// IsUnlocked reports whether Unlock was called.
func (h *Hold) IsUnlocked() bool {
	h.mu().Lock()
	defer h.mu().Unlock()
	return h.unlocked
}

// drop removes an unlocked level; mu must be held. After the last one the owner
// has no lease.
func (l *Lease) drop(h *Hold) {
	if last := l.levels.Drop(h); last && l.owner != nil {
		l.owner.lease = nil
		l.client.Exit(l.owner)
	}
}

// newest returns the newest level that writes, or the newest level that does
// not. It returns nil if there is none.
func (l *Lease) newest(writes bool) *Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range slices.Backward(l.levels.All) {
		if h.settings.Kind.Writes == writes {
			return h
		}
	}
	return nil
}

// String returns a text without ids, for code that prints a hold.
func (h *Hold) String() string { return "hold of " + strconv.Quote(h.Key()) }
