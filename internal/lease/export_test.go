package lease

import (
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/suspend"
)

// SetClocks replaces the clocks of the suspend monitor. It must be called
// before the first hold.
func (m *Manager) SetClocks(c suspend.Clocks) { m.Books = m.newBooks(c) }

// PutLost gives the owner a lost lease of the grant, until remove is called.
func (m *Manager) PutLost(key OwnerKey, g *Grant, why error) (remove func()) {
	o := m.Owners.Enter(key)
	o.take()
	defer o.give()
	o.lease = newLease(m.client, g)
	o.lease.Finish(why)
	return func() {
		o.take()
		o.lease = nil
		o.give()
		o.Exit()
	}
}

// StopRenewing lets the lease end by itself.
func (h *Hold) StopRenewing() {
	l := h.Lease()
	l.Mu.Lock()
	defer l.Mu.Unlock()
	s := *h.settings
	s.Watched = false
	h.settings = &s
	l.unwatch(h.settings.Lease)
}

// StopMaxHold stops the timer of the maximum hold. It returns when the maximum
// hold ends.
func (h *Hold) StopMaxHold() time.Time {
	h.maxHold.Stop()
	return h.maxHold.end
}

// ReachMaxHold ends the hold as the timer of its maximum hold does.
func (h *Hold) ReachMaxHold() { h.expire() }

// Freeze blocks all users of the lease until thaw is called.
func (l *Lease) Freeze() (thaw func()) {
	l.Mu.Lock()
	return l.Mu.Unlock
}

// FreezeGroup blocks all users of the hold's group until thaw is called.
func (h *Hold) FreezeGroup() (thaw func()) {
	g := h.grant.(*Group)
	g.Mu.Lock()
	return g.Mu.Unlock
}

// RenewNow makes the next renewal due immediately.
func (l *Lease) RenewNow() { l.RunNow(time.Now()) }

// Release schedules the release with the retrier, for the time at.
func (l *Lease) Release(at time.Time) {
	l.leave()
	l.client.Retrier.Add(background.NewJob(releaser{l}.cleanup(script.Indeterminate{})), at)
}

// Deeper returns why the lease cannot have one more level, or nil.
func (l *Lease) Deeper(s *lockspec.Spec) error {
	_, err := (&Owner{lease: l}).deeper(s)
	return err
}

// Members returns the holds of the hold's group, in the order in which they
// joined.
func (h *Hold) Members() (all []*Hold) {
	for _, one := range h.grant.(*Group).joined() {
		all = append(all, one.hold)
	}
	return all
}

// Block blocks the calls of the owner until goOn is called.
func (m *Manager) Block(key OwnerKey) (goOn func()) {
	o := m.Owners.Enter(key)
	o.take()
	return func() {
		o.give()
		o.Exit()
	}
}

// Lengthen notes that a longer lease is about to be requested.
func (h *Hold) Lengthen(d time.Duration) error { return h.Lease().lengthen(h, d) }

// Settings returns the settings that the hold was acquired with.
func (h *Hold) Settings() *lockspec.Spec { return h.settings }

// PassTo passes the lease on to a waiter of this process.
func (l *Lease) PassTo(next *LocalWaiter) *Hold {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return handTo(l, next, time.Now())
}

// ManagerState counts what a manager has at the moment.
type ManagerState struct{ Leases, Owners int }

// State returns what the manager has at the moment.
func (m *Manager) State() ManagerState {
	s := ManagerState{Leases: len(m.allLeases())}
	m.Owners.mu.Lock()
	defer m.Owners.mu.Unlock()
	s.Owners = len(m.Owners.all)
	return s
}

// Leases returns the leases that have not ended.
func (m *Manager) Leases() []*Lease { return m.allLeases() }

// Lease returns the lease of the hold.
func (h *Hold) Lease() *Lease { return h.grant.single() }

// State is the state of a lease at one moment.
type State struct {
	ValidUntil    time.Time
	Err           error
	Key           string
	Granted       time.Time     // when Redis granted it
	Length        time.Duration // the longest lease that was requested
	Keep          time.Time
	Passes        int
	Aside         int64 // tokens set aside
	Indeterminate script.Indeterminate
}

// State returns the state of the lease at the moment.
func (l *Lease) State() State {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.stateLocked()
}

func (l *Lease) stateLocked() State {
	return State{
		ValidUntil: l.Until(), Err: l.Over(), Key: l.Name, Granted: l.Granted(), Length: l.maxRequested, Keep: l.keptUntil(),
		Passes: int(l.passes), Aside: l.tokens.Aside, Indeterminate: l.indeterminate,
	}
}

// Set changes the state of the lease, except for its key and its end. It does
// not change the timer.
func (l *Lease) Set(change func(*State)) {
	l.Mu.Lock()
	s := l.stateLocked()
	change(&s)
	l.SetUntil(s.ValidUntil)
	l.Since, l.maxRequested, l.minHoldUntil = l.client.Count(s.Granted), s.Length, l.client.Count(s.Keep)
	l.passes, l.tokens.Aside, l.indeterminate = int16(s.Passes), s.Aside, s.Indeterminate
	l.Mu.Unlock()
	l.Moved()()
}

// Protocol returns the protocol that renews and releases the lease.
func (l *Lease) Protocol() Protocol { return l.protocol }
