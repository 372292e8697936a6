package etcdlock

import (
	"errors"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
)

// selfWait finds out whether a call waits for a lock that its own Locker holds.
// Such a call often waits for itself: its outer call has the lock, but not its
// context. Only the error and the log can report that.
type selfWait struct {
	holders *holders
	name    string
	owner   *owner // nil if the call named none
	since   time.Time
	timer   *time.Timer // nil until the call waits
}

// setHint notes that the call waits. After one TTL the log warns if it waits
// for its own Locker.
func (s *selfWait) setHint() {
	if s.timer == nil {
		s.timer = time.AfterFunc(s.holders.config.ttl, func() { s.holders.tasks.Start(s.warnOfOwn) })
	}
}

// waited reports whether the call has paused, or has waited for a notice.
func (s *selfWait) waited() bool { return s.timer != nil }

func (s *selfWait) endHint() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// ownLocked returns the grant that the Locker has had since before the call
// began, under another owner than the call's. It returns nil if there is none.
// A lock that goes from hand to hand in this process has none.
func (s *selfWait) ownLocked() *grant {
	g := s.holders.held[s.name]
	if g == nil || g.owner != nil && g.owner == s.owner || !g.began.Before(s.since) || g.checkLocked() != nil {
		return nil
	}
	return g
}

// explainOwn adds to the error of a call that may wait that its own Locker has
// the lock.
func (s *selfWait) explainOwn(err error) error {
	if !errors.Is(err, relock.ErrLockAcquiredByOthers) {
		return err
	}
	s.holders.mu.Lock()
	defer s.holders.mu.Unlock()
	g := s.ownLocked()
	switch {
	case g == nil:
		return err
	case g.owner != nil:
		return errs.HeldAs(err, g.owner.key.id)
	}
	return errs.HeldSince(err, g.began, errs.ContextOfHold)
}

// warnOfOwn logs, once for each hold, that a call waits for its own Locker.
func (s *selfWait) warnOfOwn() {
	all := s.holders
	all.mu.Lock()
	g := s.ownLocked()
	if g == nil || g.awaited {
		all.mu.Unlock()
		return
	}
	g.awaited = true
	all.mu.Unlock()
	attributes := []any{"key", g.name, "kind", kind, "since", errs.Ago(g.began)}
	if g.owner != nil && s.owner != nil {
		attributes = append(attributes, "holder", g.owner.key.id, "waiter", s.owner.key.id)
	}
	all.logger.Warn("relock: waiting for a lock that this client holds, perhaps for itself", attributes...)
}
