package etcdlock

import (
	"errors"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
)

// A call that waits for a lock that its Locker holds often waits for itself:
// its outer call has the lock, but not its context. Only the error and the log
// can report that.

// setHint notes that the call waits. After one TTL the log warns if it waits
// for its own Locker.
func (w *wait) setHint() {
	if !w.waited {
		w.waited = true
		w.hint = time.AfterFunc(w.locker.config.ttl, func() { w.locker.tasks.Start(w.warnOfOwn) })
	}
}

// ownLocked returns the grant that the Locker has had since before the call
// began, under another owner than the call's. It returns nil if there is none.
// A lock that goes from hand to hand in this process has none.
func (w *wait) ownLocked() *grant {
	g := w.locker.holders.held[w.name]
	if g == nil || g.owner != nil && g.owner == w.owner || !g.began.Before(w.since) || g.checkLocked() != nil {
		return nil
	}
	return g
}

// explainOwn adds to the error of a call that may wait that its own Locker has
// the lock.
func (w *wait) explainOwn(err error) error {
	if !w.block || !errors.Is(err, relock.ErrLockAcquiredByOthers) {
		return err
	}
	w.locker.sessions.mu.Lock()
	defer w.locker.sessions.mu.Unlock()
	g := w.ownLocked()
	switch {
	case g == nil:
		return err
	case g.owner != nil:
		return errs.HeldAs(err, g.owner.key.id)
	}
	return errs.HeldSince(err, g.began, errs.ContextOfHold)
}

// warnOfOwn logs, once for each hold, that a call waits for its own Locker.
func (w *wait) warnOfOwn() {
	l := w.locker
	l.sessions.mu.Lock()
	g := w.ownLocked()
	if g == nil || g.awaited {
		l.sessions.mu.Unlock()
		return
	}
	g.awaited = true
	l.sessions.mu.Unlock()
	attributes := []any{"key", g.name, "kind", kind, "since", errs.Ago(g.began)}
	if g.owner != nil && w.owner != nil {
		attributes = append(attributes, "holder", g.owner.key.id, "waiter", w.owner.key.id)
	}
	l.logger.Warn("relock: waiting for a lock that this client holds, perhaps for itself", attributes...)
}
