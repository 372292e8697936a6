package lease

import (
	"slices"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/waitqueue"
)

// What Unlock does: the level ends here first, and then at the server, or goes to the next call of the client.

// Unlock ends the level here, and then at the server.
func (h *Hold) Unlock() error {
	h.lease.turn.take()
	defer h.lease.turn.give()
	return h.unlockInTurn(time.Now())
}

// unlockInTurn is unlock in the owner's turn. It takes no longer than one command may, counted from start.
func (h *Hold) unlockInTurn(start time.Time) (err error) {
	l := h.lease
	_ = h.Err() // the clock decides, not whether a timer has fired
	l.mu.Lock()
	if h.unlocked {
		l.mu.Unlock()
		return errs.ErrNotHeld
	}
	h.unlocked = true
	defer func() { h.report.Done("unlock", err) }()
	l.drop(h)
	if over := h.ends.Over(); over != nil {
		defer l.mu.Unlock()
		h.noteLoss(errs.Gone(over))
		return errs.Gone(over)
	}
	h.end(errs.ErrNotHeld)
	l.levels.Live--
	rest := l.levels.Live
	var next *Transfer
	var left *waitqueue.Entry // a place in the queue that is nobody's now
	passed := false
	if rest == 0 {
		if left, passed = l.pass(h); !passed {
			next, left = l.choose(h)
			l.end(errs.ErrNotHeld)
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
	err = l.giveOn(rest, next, start)
	l.mu.Lock()
	defer l.mu.Unlock()
	h.noteLoss(err)
	return err
}

// noteLoss keeps the answer to Unlock, for Do, when it is not what it should be; mu is held.
func (h *Hold) noteLoss(err error) {
	if errs.IsLoss(err) {
		h.lost = err
	}
}

// giveOn gives the lock to the next call of the client, if there is one to which it can be transferred, or else back. It
// keeps the levels that are left.
func (l *Lease) giveOn(levels int, next *Transfer, start time.Time) error {
	if done, err := l.transfer(next, start); done {
		return err
	}
	var spared *waitqueue.Entry
	if levels == 0 {
		spared = l.takeRetained()
	}
	err := l.giveBack(levels, start)
	spared.LeaveWith(err)
	return err
}

// FoundLost is the answer to the Unlock that found the hold lost, or the client closed; nil when none did.
func (h *Hold) FoundLost() error {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	return h.lost
}

// WarnUnconfirmed logs a release that was not confirmed, for a caller that
// returns something else.
func (h *Hold) WarnUnconfirmed(why error) {
	h.lease.client.Logger.Warn("relock: release not confirmed", "key", h.Key(), "reason", why.Error())
}

// IsUnlocked reports whether Unlock was called.
func (h *Hold) IsUnlocked() bool {
	h.lease.mu.Lock()
	defer h.lease.mu.Unlock()
	return h.unlocked
}

// drop takes an unlocked level off; mu is held. With the last one the owner is without a lease.
func (l *Lease) drop(h *Hold) {
	if last := l.levels.Drop(h); last && l.owner != nil {
		l.owner.lease = nil
		l.client.Exit(l.owner)
	}
}

// newest is the newest level that writes, or that does not; nil if there is
// none.
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

// String keeps ids out of whatever prints a hold.
func (h *Hold) String() string { return "hold of " + strconv.Quote(h.Key()) }
