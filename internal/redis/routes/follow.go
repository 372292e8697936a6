package routes

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
)

// sending is how a node gets a request: Send or Call.
type sending func(*node, context.Context, driver.Limits, driver.Request) driver.Result

// follow returns the result o of a request. If n has redirected the request, it
// sends the request on, as far as that redirects it, too. It does the same if n
// was retired before the request was sent: the topology then has another node.
// Earlier copies were not executed, so the result is that of the last one.
func (n *node) follow(
	ctx context.Context, limit driver.Limits, q driver.Request, o driver.Result, send sending,
) driver.Result {
	resent := o.Resent
	for times := 0; ; times++ {
		to, moved := driver.RedirectIn(o.Err)
		var err error
		switch {
		case missedNode(o) && times < driver.MaxRedirects:
			n, err = n.router.nodeOf(ctx, limit, q)
		case !moved:
			return o
		case times == driver.MaxRedirects:
			line, _ := driver.ErrorLine(o.Err)
			o.Err = driver.RedirectsError{Last: line}
			return o
		default:
			n, err = n.redirected(q.Key(), to)
		}
		switch {
		case err != nil:
			return driver.Result{Err: err, Resent: resent}
		case to.Once:
			o = n.ask(ctx, limit, q)
		default:
			o = send(n, ctx, limit, q)
		}
		o.Resent = resent
	}
}

// redirected returns the node to which n redirects a request for a key.
func (n *node) redirected(key string, to driver.Redirect) (*node, error) {
	r := n.router
	address := to.From(n.address)
	if redirect := r.topology.Redirect; redirect != nil {
		address = redirect(key, n.address, to.To, to.Once)
	}
	if address == "" {
		return nil, driver.Unrouted(driver.ErrNoAddress)
	}
	if !to.Once {
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
func (n *node) followBatch(end time.Time, requests []driver.Request, outcomes []driver.Result) {
	for i := range outcomes {
		if _, moved := driver.RedirectIn(outcomes[i].Err); moved {
			outcomes[i] = n.follow(context.Background(), driver.Limits{End: end}, requests[i], outcomes[i], (*node).Call)
			outcomes[i].Followed = true
		}
	}
}
