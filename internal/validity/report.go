package validity

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/holds"
)

// Counts are what became of renewals.
type Counts struct{ Renewals, RenewalErrors atomic.Int64 }

// renewed counts an attempt to renew a lease.
func (c *Counts) renewed(err error) {
	if err != nil {
		c.RenewalErrors.Add(1)
		return
	}
	c.Renewals.Add(1)
}

// reports counts the renewals of a client, and notifies its observer of them.
type reports struct {
	Counts Counts
	done   func(context.Context, holds.End) // the observer; may be nil
}

// report reports a renewal that ends now, in a context.
func (r *reports) report(in func() context.Context, e holds.End) {
	r.Counts.renewed(e.Err)
	if r.done == nil {
		return
	}
	e.End = time.Now()
	if e.Start.IsZero() {
		e.Start = e.End
	}
	r.done(in(), e)
}
