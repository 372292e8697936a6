package lease

import (
	"errors"
	"fmt"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// A goroutine that waits for a lock of the same client, under another owner,
// often waits for itself: for work that another goroutine of its process
// started, or for its own outer call. Nothing but the error and the log can say
// so. This file finds the holder for them, in memory.

// addHolder notes that the owner has a lease. The owner stays until dropHolder.
func (m *Manager) addHolder(o *Owner, l *Lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o.users++
	o.holding = l
	at := o.key.anyOwner()
	if o.next = m.holders[at]; o.next != nil {
		o.next.prev = o
	}
	m.holders[at] = o
}

// dropHolder undoes addHolder.
func (m *Manager) dropHolder(o *Owner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := o.key.anyOwner()
	switch {
	case o.prev != nil:
		o.prev.next = o.next
	case o.next != nil:
		m.holders[at] = o.next
	default:
		delete(m.holders, at)
	}
	if o.next != nil {
		o.next.prev = o.prev
	}
	o.holding, o.next, o.prev = nil, nil, nil
	m.exitLocked(o)
}

// anyOwner returns the key without the ID of an owner.
func (k OwnerKey) anyOwner() OwnerKey {
	k.ID = ""
	return k
}

// otherHolder returns the name of another owner that holds the lock, or "".
func (o *Owner) otherHolder() string {
	m := o.client
	m.mu.Lock()
	other := m.holders[o.key.anyOwner()]
	if other == o {
		other = o.next
	}
	var held *Lease
	if other != nil {
		held = other.holding
	}
	m.mu.Unlock()
	if held == nil || held.ends().IsZero() {
		return ""
	}
	return lockspec.OwnerName(other.key.ID)
}

// Explain adds to the error of a call that has waited that its own client has
// the lock, under another owner.
func (o *Owner) Explain(err error) error {
	if !errors.Is(err, errs.ErrLockAcquiredByOthers) {
		return err
	}
	if other := o.otherHolder(); other != "" {
		return fmt.Errorf("%w (this client holds it as %q; see ContextWithOwner)", err, other)
	}
	return err
}

// WarnOfOwnClient logs that a call of the owner waits for a lock that its own
// client has, under another owner.
func (o *Owner) WarnOfOwnClient() {
	m := o.client
	m.Tasks.Start(func() {
		if other := o.otherHolder(); other != "" && m.Life.Err() == nil {
			m.Logger.Warn("relock: waiting for a lock that this client holds under another owner",
				"key", o.key.Lock, "holder", other, "waiter", lockspec.OwnerName(o.key.ID))
		}
	})
}
