package driver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/errs"
)

// SendAll runs commands of several keys; see [Driver]. No node waits for the
// answers of another one.
func (r *Router) SendAll(ctx context.Context, limit Limits, requests []Request) []Result {
	parts, err := r.split(ctx, limit, requests)
	if err != nil {
		return same(requests, Result{Err: err}) // the others would be of no use
	}
	var group sync.WaitGroup
	for _, p := range parts {
		p.node.checkRoute()
		if p.together = p.node.begin(ctx, limit, p.requests); p.together != nil {
			continue
		}
		group.Add(1) // it may have to connect
		if !r.tasks.Start(func() { defer group.Done(); p.outcomes = p.node.SendAll(ctx, limit, p.requests) }) {
			p.outcomes = same(p.requests, Result{Err: errs.ErrClosed})
			group.Done()
		}
	}
	outcomes := make([]Result, len(requests))
	for _, p := range parts {
		if p.together != nil {
			p.outcomes = p.together.await(ctx, limit)
		}
	}
	group.Wait()
	for _, p := range parts {
		p.finish(ctx, limit, outcomes)
	}
	return outcomes
}

// part is what one node gets of the commands of SendAll.
type part struct {
	node     *node
	at       []int // of the requests among all
	requests []Request
	together *together // nil if a goroutine sends them
	outcomes []Result
}

// split returns the requests by their nodes.
func (r *Router) split(ctx context.Context, limit Limits, requests []Request) (parts []*part, err error) {
	for i, q := range requests {
		n, err := r.nodeOf(ctx, limit, q)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(parts, func(p *part) bool { return p.node == n })
		if at < 0 {
			at = len(parts)
			parts = append(parts, &part{node: n})
		}
		parts[at].at = append(parts[at].at, i)
		parts[at].requests = append(parts[at].requests, q)
	}
	return parts, nil
}

// finish follows redirects, as Send does, and puts the results among all.
func (p *part) finish(ctx context.Context, limit Limits, all []Result) {
	lost := false // the others would wait for a look each, too
	for i, o := range p.outcomes {
		o = p.node.follow(ctx, limit, p.requests[i], p.node.noted(o), (*node).Send)
		if !lost {
			o = p.node.orElsewhere(ctx, limit, p.requests[i], o, (*node).Send)
			lost = o.missedMaster()
		}
		all[p.at[i]] = o
	}
}

// SendAll runs commands of several keys; see [Driver]. If the shared connection
// cannot be opened, they go over connections of the pool, one after another.
func (d *Pool) SendAll(ctx context.Context, limit Limits, requests []Request) []Result {
	if t := d.begin(ctx, limit, requests); t != nil {
		return t.await(ctx, limit)
	}
	switch {
	case len(requests) == 1:
		return []Result{d.Send(ctx, limit, requests[0])}
	case ctx.Err() != nil:
		return same(requests, Result{Err: ErrAbandoned})
	}
	now := time.Now()
	if limit.hasPassed(now) {
		return same(requests, Result{Err: ErrTimeout})
	}
	if _, err := d.shared.connect(ctx, now, limit.at(now).Connect); err == nil {
		if t := d.begin(ctx, limit, requests); t != nil {
			return t.await(ctx, limit)
		}
	}
	return d.callEach(ctx, limit, requests)
}

// callEach runs the commands one after another, until one cannot connect.
func (d *Pool) callEach(ctx context.Context, limit Limits, requests []Request) []Result {
	outcomes := make([]Result, len(requests))
	for i, r := range requests {
		o := d.Call(ctx, limit, r)
		if o.Sent.IsZero() {
			fill(outcomes[i:], o)
			break
		}
		outcomes[i] = o
	}
	return outcomes
}

// together is a number of commands that the shared connection has taken.
type together struct {
	pipeline *pipeline
	stream   *stream
	requests []Request
	calls    []*Call
	start    time.Time
}

// begin sends the commands over the shared connection, written together. It
// does not block. It returns nil, and has sent nothing, if there is no such
// connection, or if nothing may be sent.
func (d *Pool) begin(ctx context.Context, limit Limits, requests []Request) *together {
	s := d.shared.open()
	now := time.Now()
	if s == nil || ctx.Err() != nil || limit.hasPassed(now) {
		return nil
	}
	t := d.shared.sendAll(s, limit.at(now).Answer, requests, now)
	if t != nil {
		d.busy.Add(int64(len(requests)))
	}
	return t
}

// sendAll sends the commands over s at now, written together. It returns nil if
// s takes none any more.
func (p *pipeline) sendAll(s *stream, limit time.Duration, requests []Request, now time.Time) *together {
	t := &together{p, s, requests, make([]*Call, len(requests)), now}
	until := now.Add(below(p.driver.commandTimeout, limit))
	for i := range t.calls {
		t.calls[i] = newSharedCall(&p.driver.calls, until)
	}
	if !s.sendAll(t.calls, requests, now) {
		return nil
	}
	return t
}

// await returns the results. A request that was not written before the
// connection was lost is sent over the next one.
func (t *together) await(ctx context.Context, limit Limits) []Result {
	defer t.pipeline.driver.busy.Add(-int64(len(t.calls)))
	outcomes := t.results(ctx)
	for i, o := range outcomes {
		if errors.Is(o.Err, errUnsent) {
			outcomes[i] = t.pipeline.call(ctx, limit, t.requests[i])
		}
	}
	return outcomes
}

// results waits for the results of all commands.
func (t *together) results(ctx context.Context) []Result {
	outcomes := make([]Result, len(t.calls))
	for i, c := range slices.Backward(t.calls) { // with the last answer, all are there
		outcomes[i] = t.pipeline.await(ctx, t.stream, c, t.start)
	}
	return outcomes
}

// sendAll takes several requests at now, which are written together. It reports
// whether it did, as send does.
func (s *stream) sendAll(calls []*Call, requests []Request, now time.Time) bool {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return false
	}
	for i, c := range calls {
		s.enqueue(c, requests[i])
	}
	s.writeUnlessOther(now)
	return true
}
