package lease

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// A call that waits for a lock that its client holds often waits for itself:
// for work that another goroutine of its process started, or for its own outer
// call. Only the error and the log can report that. This file finds the hold
// for them, in memory.

// leasesOf returns the leases of the lock with this key in Redis, the newest
// first.
func (m *Manager) leasesOf(redisKey string) []*Lease { return leasesAmong(m.Of(redisKey)) }

// allLeases returns the leases in the books.
func (m *Manager) allLeases() []*Lease { return leasesAmong(m.All()) }

// Holding yields the newest hold of each lock that the manager has.
func (m *Manager) Holding() iter.Seq[*Hold] {
	return func(yield func(*Hold) bool) {
		for _, l := range m.allLeases() {
			l.Mu.Lock()
			h := l.levels.newest(func(*Hold) bool { return true })
			l.Mu.Unlock()
			if h != nil && !yield(h) {
				return
			}
		}
	}
}

// Held returns the newest hold of this client and key that ctx carries, or nil.
// The hold must be of this family, and not unlocked.
func (m *Manager) Held(ctx context.Context, key string, of lockspec.Family) *Hold {
	for one := carried.By(ctx); one != nil; one = one.Next {
		h, ok := one.Hold.(*Hold)
		if !ok {
			continue // of another backend
		}
		if h.grant.ofClient() == m.client && h.Covers(key) && h.Family() == of && !h.IsUnlocked() {
			return h
		}
	}
	return nil
}

// Waiting is a call that waits for a lock of this client.
type Waiting struct {
	Key   string
	Owner *Owner    // nil for a lock without owners
	Since time.Time // when it began to wait; zero if it has not
	Kind  *lockspec.Kind
}

// heldFor returns a lease that the client has held since before the call began
// to wait, under another owner than the call's. It returns nil if there is
// none. A lock that goes from hand to hand in this process has none. The same
// is true of a semaphore, of which a client usually holds several permits.
func (m *Manager) heldFor(w Waiting) *Lease {
	if w.Kind.Counted {
		return nil
	}
	for _, l := range m.leasesOf(m.RedisKey(w.Key)) {
		if (l.owner == nil || l.owner != w.Owner) && l.Granted().Before(w.Since) && !l.ValidUntil().IsZero() {
			return l
		}
	}
	return nil
}

// Explain adds to the error of a call that has waited that its own client has
// the lock.
func (m *Manager) Explain(err error, w Waiting) error {
	if !errors.Is(err, errs.ErrLockAcquiredByOthers) {
		return err
	}
	l := m.heldFor(w)
	switch {
	case l == nil:
		return err
	case l.owner != nil:
		return errs.HeldAs(err, lockspec.OwnerName(l.owner.key.ID))
	case w.Kind.Nests:
		return errs.HeldSince(err, l.Granted(), errs.ContextOfHold)
	}
	return errs.HeldSince(err, l.Granted(), "a ReentrantLock")
}

// WarnOfOwnClient logs that a call waits for a lock that its own client has,
// once for each hold. It reports whether the client has it.
func (m *Manager) WarnOfOwnClient(w Waiting) bool {
	l := m.heldFor(w)
	if l == nil {
		return false
	}
	if !m.Await(&l.Renewal) || m.Life.Err() != nil {
		return true
	}
	attributes := l.About("since", errs.Ago(l.Granted()))
	if l.owner != nil && w.Owner != nil {
		attributes = append(attributes, "holder", lockspec.OwnerName(l.owner.key.ID), "waiter",
			lockspec.OwnerName(w.Owner.key.ID))
	}
	m.Logger.Warn("relock: waiting for a lock that this client holds, perhaps for itself", attributes...)
	return true
}
