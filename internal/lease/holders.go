package lease

import (
	"errors"
	"hash/maphash"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// A call that waits for a lock that its client holds often waits for itself:
// for work that another goroutine of its process started, or for its own outer
// call. Only the error and the log can report that. This file finds the hold
// for them, in memory.

// place returns where the grants of a key are linked: its hash, which takes
// less memory than the key. Two keys may have one place.
func (m *Manager) place(redisKey string) uint64 { return maphash.String(m.seed, redisKey) }

// link adds a grant to those of its key, as the newest; mu must be held.
func (m *Manager) link(r *Renewal) {
	at := m.place(r.grant.LockKey())
	if r.next = m.grants[at]; r.next != nil {
		r.next.prev = r
	}
	m.grants[at] = r
}

// unlink undoes link. It does nothing for a grant that is not there; mu must be
// held.
func (m *Manager) unlink(r *Renewal) {
	if !m.isLinked(r) {
		return
	}
	at := m.place(r.grant.LockKey())
	switch {
	case r.prev != nil:
		r.prev.next = r.next
	case r.next != nil:
		m.grants[at] = r.next
	default:
		delete(m.grants, at)
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	r.next, r.prev = nil, nil
	delete(m.awaited, r)
}

// isLinked reports whether link was not undone; mu must be held.
func (m *Manager) isLinked(r *Renewal) bool {
	return r.prev != nil || m.grants[m.place(r.grant.LockKey())] == r
}

// firstAwaited reports whether a lease was not awaited before, and has not
// ended.
func (m *Manager) firstAwaited(l *Lease) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.awaited[&l.Renewal]; known || !m.isLinked(&l.Renewal) {
		return false
	}
	m.awaited[&l.Renewal] = struct{}{}
	return true
}

// leasesOf returns the leases of the lock with this key in Redis, the newest
// first.
func (m *Manager) leasesOf(redisKey string) (all []*Lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for r := m.grants[m.place(redisKey)]; r != nil; r = r.next {
		if l := r.grant.single(); l != nil && l.LockKey() == redisKey {
			all = append(all, l)
		}
	}
	return all
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
// none. A lock that goes from hand to hand in this process has none. Nor has a
// semaphore, of which a client usually holds several permits.
func (m *Manager) heldFor(w Waiting) *Lease {
	if w.Kind.Family == lockspec.SemaphoreFamily {
		return nil
	}
	for _, l := range m.leasesOf(m.RedisKey(w.Key)) {
		if (l.owner == nil || l.owner != w.Owner) && l.granted().Before(w.Since) && !l.ValidUntil().IsZero() {
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
		return errs.HeldSince(err, l.granted(), errs.ContextOfHold)
	}
	return errs.HeldSince(err, l.granted(), "a ReentrantLock")
}

// WarnOfOwnClient logs that a call waits for a lock that its own client has,
// once for each hold. It reports whether the client has it.
func (m *Manager) WarnOfOwnClient(w Waiting) bool {
	l := m.heldFor(w)
	if l == nil {
		return false
	}
	if !m.firstAwaited(l) || m.Life.Err() != nil {
		return true
	}
	attributes := l.about("since", errs.Ago(l.granted()))
	if l.owner != nil && w.Owner != nil {
		attributes = append(attributes, "holder", lockspec.OwnerName(l.owner.key.ID), "waiter", lockspec.OwnerName(w.Owner.key.ID))
	}
	m.Logger.Warn("relock: waiting for a lock that this client holds, perhaps for itself", attributes...)
	return true
}
