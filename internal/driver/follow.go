package driver

import (
	"context"
	"time"
)

// sending is how a node gets a request: Send or Call.
type sending func(*node, context.Context, Limits, Request) Result

// follow returns the result o of a request. If n has redirected the request, it
// sends the request on, as far as that redirects it, too. So it does if n was
// retired before the request was sent: the topology then has another node.
// Earlier copies were not executed, so the result is that of the last one.
func (n *node) follow(ctx context.Context, limit Limits, q Request, o Result, send sending) Result {
	resent := o.Resent
	for times := 0; ; times++ {
		to, moved := redirectIn(o.Err)
		var err error
		switch {
		case o.missedNode() && times < maxRedirects:
			n, err = n.router.nodeOf(ctx, limit, q)
		case !moved:
			return o
		case times == maxRedirects:
			line, _ := errorLine(o.Err)
			o.Err = redirectsError{line}
			return o
		default:
			n, err = n.redirected(q.Key(), to)
		}
		switch {
		case err != nil:
			return Result{Err: err, Resent: resent}
		case to.once:
			o = n.ask(ctx, limit, q)
		default:
			o = send(n, ctx, limit, q)
		}
		o.Resent = resent
	}
}

// redirected returns the node to which n redirects a request for a key.
func (n *node) redirected(key string, to redirect) (*node, error) {
	r := n.router
	address := to.from(n.address)
	if redirect := r.topology.Redirect; redirect != nil {
		address = redirect(key, n.address, to.to, to.once)
	}
	if address == "" {
		return nil, unrouted(errNoAddress)
	}
	if !to.once {
		return r.remember(key, address)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at(address)
}

// followBatch sends those requests of a batch, until end, that n has
// redirected. Each goes over a connection of the pool of its new node. So one
// that waits for replicas has a separate WAIT.
//
// The limit is that of a borrowed connection: the job that waits longest must
// not let the new node delay the jobs that this one has.
func (n *node) followBatch(end time.Time, requests []Request, outcomes []Result) {
	for i := range outcomes {
		if _, moved := redirectIn(outcomes[i].Err); moved {
			outcomes[i] = n.follow(context.Background(), Limits{End: end}, requests[i], outcomes[i], (*node).Call)
			outcomes[i].followed = true
		}
	}
}
