package lease

import (
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/waitqueue"
)

// This file is what tests see of the engine, and what they force on it.

// ManagerState is what a manager has at the moment.
type ManagerState struct{ Leases, Owners, Timers int }

// State returns what the manager has at the moment.
func (m *Manager) State() ManagerState {
	m.mu.Lock()
	s := ManagerState{Leases: len(m.leases), Owners: len(m.owners)}
	m.mu.Unlock()
	m.expiry.mu.Lock()
	defer m.expiry.mu.Unlock()
	s.Timers = len(m.expiry.leases)
	return s
}

// Leases returns the leases that have not ended.
func (m *Manager) Leases() []*Lease { return m.allLeases() }

// Watchdog returns the worker that renews, but where replicas are waited for.
func (m *Manager) Watchdog() *background.Worker { return m.watchdog }

// SetReasonLimit sets how long a refused holder may look for the reason.
func (m *Manager) SetReasonLimit(d time.Duration) { m.reasonLimit = d }

// StartClose ends the life of the manager, as Close does first.
func (m *Manager) StartClose() { m.end() }

// Forced delivers the message that a hold was ended by force.
func (m *Manager) Forced(hold, redisKey string) { m.forced(hold, redisKey) }

// SetClocks makes the suspend monitor go by other clocks.
func (m *Manager) SetClocks(all func() time.Duration, split func(time.Time) (wall, awake time.Duration)) {
	m.monitor = newSuspendMonitor(m, all, split)
}

// StopTicks leaves the suspend monitor to those who ask.
func (m *Manager) StopTicks() { m.monitor.once.Do(func() {}) }

// AskClocks asks the kernel whether the machine was suspended.
func (m *Manager) AskClocks() { m.monitor.checkNow() }

// IsFresh reports whether the kernel was asked a moment ago.
func (m *Manager) IsFresh() bool { return m.monitor.watch.Fresh(time.Now()) }

// PutLost makes a lost hold of the grant the owner's until remove.
func (m *Manager) PutLost(key OwnerKey, g *Grant, why error) (remove func()) {
	o := m.Enter(key)
	o.turn.take()
	defer o.turn.give()
	o.lease = newLease(m, g)
	o.lease.over = why
	return func() {
		o.turn.take()
		o.lease = nil
		o.turn.give()
		m.Exit(o)
	}
}

// Block keeps the owner's calls from going on until the returned function is
// called.
func (m *Manager) Block(key OwnerKey) (goOn func()) {
	o := m.Enter(key)
	o.turn.take()
	return func() {
		o.turn.give()
		m.Exit(o)
	}
}

// Lease returns the lease of the hold.
func (h *Hold) Lease() *Lease { return h.lease }

// Settings returns those that the hold was acquired with.
func (h *Hold) Settings() *lockspec.Spec { return h.settings }

// Members returns the holds that the hold is made of, in the order in which
// they joined.
func (h *Hold) Members() (all []*Hold) {
	for _, one := range h.lease.group.joined() {
		all = append(all, one.hold)
	}
	return all
}

// Lengthen announces a request for a longer lease.
func (h *Hold) Lengthen(d time.Duration) error { return h.lengthen(d) }

// ReachMaxHold ends the hold as its timer does.
func (h *Hold) ReachMaxHold() { h.expire() }

// StopMaxHold stops the timer of the maximum hold, and returns its end.
func (h *Hold) StopMaxHold() time.Time {
	h.maxHold.Stop()
	return h.maxHold.end
}

// State is what a lease has at the moment.
type State struct {
	ValidUntil time.Time
	Err        error
	Key        string
	Granted    time.Time     // by Redis
	Length     time.Duration // the longest lease that was asked for
	Keep       time.Time
	Passes     int
	Aside      int64 // tokens
	Doubt      script.Indeterminate
}

// State returns what the lease has at the moment.
func (l *Lease) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stateLocked()
}

func (l *Lease) stateLocked() State {
	return State{
		ValidUntil: l.validUntil, Err: l.over, Key: l.key, Granted: l.granted(), Length: l.length, Keep: l.keep,
		Passes: int(l.passes), Aside: l.tokens.Aside, Doubt: l.doubt,
	}
}

// Set changes what the lease has, but for its key and its end. The timer stays
// as it is.
func (l *Lease) Set(change func(*State)) {
	l.mu.Lock()
	s := l.stateLocked()
	change(&s)
	l.validUntil, l.since, l.length, l.keep = s.ValidUntil, s.Granted.Sub(l.client.expiry.start), s.Length, s.Keep
	l.passes, l.tokens.Aside, l.doubt = int16(s.Passes), s.Aside, s.Doubt
	l.mu.Unlock()
	if l.memberOf != nil {
		l.memberOf.reckon()
	}
}

// Freeze stops all that asks the lease until the returned function is called.
func (l *Lease) Freeze() (thaw func()) {
	l.mu.Lock()
	return l.mu.Unlock
}

// StartTimer sets the timer anew.
func (l *Lease) StartTimer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.client.expiry.watch(l)
}

// StopTimer stops the timer for good.
func (l *Lease) StopTimer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.client.expiry.forget(l)
}

// RenewNow makes the next renewal due.
func (l *Lease) RenewNow() { l.renewer().Add(l.job, time.Now()) }

// Lose ends the lease.
func (l *Lease) Lose(why error) { l.lose(why) }

// MarkLost is Lose without what follows, which it returns.
func (l *Lease) MarkLost(why error) (follow func()) { return l.markLost(why) }

// Refuse makes the lease end within d, as one that the server has refused.
func (l *Lease) Refuse(d time.Duration) { l.endWithin(d) }

// Renewed delivers the answer to a renewal that was sent at sent.
func (l *Lease) Renewed(sent time.Time, length time.Duration) error {
	return l.extendValidity(sent, length)
}

// Release leaves the release to the retrier, for that time.
func (l *Lease) Release(at time.Time) {
	l.leave()
	l.client.Retrier.Add(background.NewJob(l.cleanup(script.Indeterminate{})), at)
}

// Deeper asks whether there may be one level more.
func (l *Lease) Deeper(s *lockspec.Spec) error {
	_, err := l.deeper(s)
	return err
}

// PassTo passes the lease on to a waiter of this process.
func (l *Lease) PassTo(next *waitqueue.Waiter) *Hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.passTo(next)
}

// Protocol returns how the lease is renewed and released.
func (l *Lease) Protocol() Protocol { return l.protocol }

// Holder returns the id of the client that has the lease.
func (l *Lease) Holder() string { return l.client.Identity.ID }

// OwnerKey returns the owner of the lease, which has one.
func (l *Lease) OwnerKey() OwnerKey { return l.owner.key }
