package lease

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// lengthen notes that a request is about to set the expiry to length. The key
// may then stay that long, even if no answer comes, so a longer lease is not
// passed on. It fails if the hold has ended, because the lease may belong to
// another hold by then.
func (l *Lease) lengthen(h *Hold, length time.Duration) error {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if h.ends.Err() == nil {
		l.request(length)
	}
	return h.ends.Err()
}

// Extend makes the lease last at least d from now. It never shortens the lease.
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
	return h.grant.extend(ctx, h, d)
}

// extend requests a lease of d from now on.
func (l *Lease) extend(ctx context.Context, h *Hold, d time.Duration) error {
	if err := (byMessage{l}).need(ctx, h); err != nil {
		return err
	}
	if err := l.lengthen(h, d); err != nil {
		return err
	}
	o, _ := l.ask(ctx, h.settings, l.protocol.Renew(d))
	o.Err = driver.ContextErr(ctx, o.Err)
	// deferred: the answer takes effect before the hook runs
	defer l.ReportRenewal(func() context.Context { return ctx }, o)
	switch {
	case o.Err != nil:
		return o.Err
	case o.Reply != int64(script.OK):
		_ = refusal{l}.end(o.Reply)
		return h.Err() // the hold may have ended earlier
	}
	if err := l.ExtendValidity(o.Sent, d); err != nil {
		return err
	}
	marked{l}.plan(o.Sent)
	return h.Err() // the hold may have been unlocked meanwhile, and the lease passed on
}

// ask is the counterpart of [Manager.Ask] for an existing lease: it requests
// another level or a longer lease. It waits for the replicas of the lease,
// because validity is extended for all levels. No level may request more
// replicas than the lease has.
func (l *Lease) ask(ctx context.Context, settings *lockspec.Spec, s script.Call) (driver.Result, script.Indeterminate) {
	return script.Run(ctx, l.client.Driver, driver.ForLease(settings.Lease), s, l.Settings.Ack())
}
