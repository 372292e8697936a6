package routes

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
)

// A route may have become old while it was not used. docs/internals/routes.md
// says how that is noticed, and what is done about it.

// routeIdle is how long a node may not have answered before its route is
// checked.
const routeIdle = 5 * time.Second

// noteAnswer notes that the node has answered a request that was sent then.
func (n *node) noteAnswer(o driver.Result) {
	if o.Answered {
		n.answered.Store(int64(o.Sent.Sub(n.router.start)))
	}
}

// checkRoute looks for the masters beside the next request of an idle node.
func (n *node) checkRoute() {
	r := n.router
	if r.topology.Refresh == nil {
		return
	}
	now, checked := int64(time.Since(r.start)), r.checked.Load()
	if now-max(checked, n.answered.Load()) < int64(routeIdle) || !r.checked.CompareAndSwap(checked, now) {
		return
	}
	r.tasks.Start(func() { r.look(r.life, driver.Limits{}) })
}

// look waits for a look of the topology that begins now, within the limit for
// connecting.
func (r *Router) look(ctx context.Context, limit driver.Limits) {
	ctx, cancel := r.bound(ctx, limit)
	defer cancel()
	_ = r.topology.Refresh(ctx) // what it found is asked for next
}

// orElsewhere returns the result o of a request that went to n first. If it was
// surely not executed, it is sent to the node that has its key after a look,
// unless that is n.
func (n *node) orElsewhere(
	ctx context.Context, limit driver.Limits, q driver.Request, o driver.Result, send sending,
) driver.Result {
	r := n.router
	if r.topology.Refresh == nil || !missedMaster(o) {
		return o
	}
	limit = remaining(limit, r.config, time.Now())
	next, err := r.nodeOf(ctx, limit, q)
	if next == n {
		r.look(ctx, limit)
		next, err = r.nodeOf(ctx, limit, q)
	}
	switch {
	case err != nil:
		return driver.Result{Err: err, Resent: o.Resent}
	case next == n:
		return o
	}
	again := next.follow(ctx, limit, q, send(next, ctx, limit, q), send)
	again.Resent = again.Resent || o.Resent
	return again
}

// missedMaster reports whether nothing was executed, because the server may not
// be the master. If connecting took too long, nothing is left of the limit.
func missedMaster(o driver.Result) bool {
	if o.Sent.IsZero() {
		return driver.IsNetwork(o.Err) && !driver.IsTimeout(o.Err)
	}
	return isNoMaster(o.Err) && driver.IsUnexecuted(o.Err) && !driver.IsEndless(o.Err)
}

// remaining returns limits that end after what they allow for one request, if
// no earlier end is set.
func remaining(l driver.Limits, c *driver.Config, now time.Time) driver.Limits {
	end := now.Add(driver.Below(c.DialTimeout, l.Connect) + driver.Below(c.CommandTimeout, l.Answer))
	if l.End.IsZero() || end.Before(l.End) {
		l.End = end
	}
	return l
}
