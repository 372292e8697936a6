package lease

import (
	"sync/atomic"
	"time"
)

// Counts are what a client counts as it works.
type Counts struct {
	Waiting       atomic.Int64 // calls that wait at the moment
	Renewals      atomic.Int64
	RenewalErrors atomic.Int64
	Losses        atomic.Int64 // of leases that had a hold
}

// renewed counts an attempt to renew a lease.
func (c *Counts) renewed(err error) {
	if err != nil {
		c.RenewalErrors.Add(1)
		return
	}
	c.Renewals.Add(1)
}

// Holding returns how many locks the manager has, and when Redis granted the
// oldest. That is zero if there is none. A delivery of a task is no lock.
func (m *Manager) Holding() (n int, oldest time.Time) {
	for _, l := range m.allLeases() {
		if l.isDelivery() {
			continue
		}
		n++
		if at := l.granted(); oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	return n, oldest
}
