package lease

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// lengthen notes that a request is about to set the expiry to length: the key may stay as long from now on,
// whether it is answered or not, and is not passed on. It fails if the level is over: the lease may be somebody else's.
func (h *Hold) lengthen(length time.Duration) error {
	l := h.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.ends.Over() == nil {
		l.length = max(l.length, length)
	}
	return h.ends.Over()
}

// Extend makes the lease last at least d from now, and never shortens it.
func (h *Hold) Extend(ctx context.Context, d time.Duration) error {
	var m lockspec.Problems
	m.CheckMillis("Extend", d)
	m.Check(ctx != nil, "context: is nil")
	if err := m.Err(); err != nil {
		return err
	}
	if err := h.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errs.EndOf(ctx, nil)
	}
	if parts := h.lease.group; parts != nil {
		return parts.extend(ctx, h, d)
	}
	return h.renew(ctx, d)
}

// renew asks the server for a lease of d from now on.
func (h *Hold) renew(ctx context.Context, d time.Duration) error {
	if err := h.lengthen(d); err != nil {
		return err
	}
	l := h.lease
	o, _ := l.ask(ctx, h.settings, l.protocol.Renew(d))
	o.Err = driver.Ended(ctx, o.Err)
	defer l.tellRenewal(o) // what follows from the answer comes first
	switch {
	case o.Err != nil:
		return o.Err
	case o.Reply != int64(script.Ours):
		_ = l.refused()
		return h.Err() // the level may have ended before
	}
	if err := l.extendValidity(o.Sent, d); err != nil {
		return err
	}
	return h.Err() // it may have been unlocked meanwhile, and the lease passed on
}

// ask is that of a client, for another level of the lease or a longer one. It waits for the replicas of the hold, of which no level asks for more:
// belief moves for all levels.
func (l *Lease) ask(ctx context.Context, settings *lockspec.Spec, s script.Call) (driver.Result, script.Indeterminate) {
	return script.Run(ctx, l.client.Driver, driver.ForLease(settings.Lease), s, l.confirm)
}
