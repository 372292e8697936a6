package lease

import (
	"iter"
	"sync/atomic"
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

// Holding yields the newest hold of each lock that the manager has.
func (m *Manager) Holding() iter.Seq[*Hold] {
	return func(yield func(*Hold) bool) {
		for _, l := range m.allLeases() {
			if h := l.newest(func(*Hold) bool { return true }); h != nil && !yield(h) {
				return
			}
		}
	}
}
