package lease

import (
	"time"

	"github.com/relock-go/relock/internal/script"
)

// This file lets tests see and change the state of the engine.

// Leases returns the leases that have not ended.
func (m *Manager) Leases() []*Lease { return m.allLeases() }

// SetReasonLimit sets how long a refused holder may take to read the reason.
func (m *Manager) SetReasonLimit(d time.Duration) { m.reasonLimit = d }

// Lease returns the lease of the hold.
func (h *Hold) Lease() *Lease { return h.lease }

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
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stateLocked()
}

func (l *Lease) stateLocked() State {
	return State{
		ValidUntil: l.validUntil, Err: l.over, Key: l.key, Granted: l.granted(), Length: l.length, Keep: l.keptUntil(),
		Passes: int(l.passes), Aside: l.tokens.Aside, Indeterminate: l.indeterminate,
	}
}

// Set changes the state of the lease, except for its key and its end. It does
// not change the timer.
func (l *Lease) Set(change func(*State)) {
	l.mu.Lock()
	s := l.stateLocked()
	change(&s)
	start := l.client.expiry.start
	l.validUntil, l.since, l.length, l.keep = s.ValidUntil, s.Granted.Sub(start), s.Length, s.Keep.Sub(start)
	l.passes, l.tokens.Aside, l.indeterminate = int16(s.Passes), s.Aside, s.Indeterminate
	l.mu.Unlock()
	if l.memberOf != nil {
		l.memberOf.revalidate()
	}
}

// Protocol returns the protocol that renews and releases the lease.
func (l *Lease) Protocol() Protocol { return l.protocol }
