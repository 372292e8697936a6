package routes

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/goroutines"
	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/redis/driver"
)

// Router is the driver of a client with several servers. It has a node for each
// address that its topology has named. docs/internals/routes.md has its design.
type Router struct {
	topology *driver.Topology
	config   *driver.Config
	life     context.Context // cancelled by Close
	end      context.CancelFunc
	tasks    goroutines.Group
	start    time.Time
	checked  atomic.Int64         // when the routes were checked, see checkRoute
	only     atomic.Pointer[node] // the node while there is one

	mu    sync.Mutex
	nodes map[string]*node // by address
	hint  *node            // for a key of which nothing is known
	known map[string]*node // by tag, for Known
	// retired are the nodes that the topology no longer names, until they
	// are closed.
	retired []*node
}

// maxKnown limits the keys whose nodes are remembered. More of them are
// forgotten together.
const maxKnown = 10000

// NewRouter returns a driver on the servers of a topology. It calls none of its
// functions.
func NewRouter(c *driver.Config, t *driver.Topology) *Router {
	r := &Router{topology: t, config: c, start: time.Now(), nodes: map[string]*node{}, known: map[string]*node{}}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

// Send runs one command at the node of its key; see [driver.Driver].
func (r *Router) Send(ctx context.Context, limit driver.Limits, q driver.Request) driver.Result {
	return r.run(ctx, limit, q, (*node).Send)
}

// Call runs one command at the node of its key; see [driver.Driver].
func (r *Router) Call(ctx context.Context, limit driver.Limits, q driver.Request) driver.Result {
	return r.run(ctx, limit, q, (*node).Call)
}

func (r *Router) run(ctx context.Context, limit driver.Limits, q driver.Request, send sending) driver.Result {
	n, err := r.nodeOf(ctx, limit, q)
	if err != nil {
		return driver.Result{Err: err}
	}
	n.checkRoute()
	o := n.follow(ctx, limit, q, send(n, ctx, limit, q), send)
	return n.orElsewhere(ctx, limit, q, o, send)
}

// remember returns the node of an address, which has the key.
func (r *Router) remember(key, address string) (*node, error) {
	if n := r.only.Load(); n != nil && n.address == address {
		return n, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := r.at(address)
	if err != nil || key == "" {
		return n, err
	}
	tag := driver.TagOf(key)
	if r.known[tag] == n {
		return n, nil
	}
	if len(r.known) >= maxKnown {
		clear(r.known)
	}
	r.known[tag] = n
	return n, nil
}

// at returns the node of an address, and makes it if there is none; mu is held.
func (r *Router) at(address string) (*node, error) {
	n := r.nodes[address]
	if n == nil {
		if r.life.Err() != nil {
			return nil, errs.ErrClosed
		}
		n = &node{Pool: conns.NewPool(r.topology.ConfigOf(r.config, address)), router: r, address: address}
		n.answered.Store(int64(time.Since(r.start))) // the topology has just named it
		r.nodes[address] = n
		r.setOnly()
	}
	if r.hint == nil {
		r.hint = n
	}
	return n, nil
}

// setOnly notes the only node, if there is one; mu is held.
func (r *Router) setOnly() {
	r.only.Store(nil)
	for _, n := range r.nodes {
		if len(r.nodes) == 1 {
			r.only.Store(n)
		}
	}
}

// Known returns the node that a key had last; see [driver.Driver]. Before the
// first request there is none: the node that it returns then opens no
// connection.
func (r *Router) Known(key string) driver.Node {
	if n := r.only.Load(); n != nil {
		return n
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.known[driver.TagOf(key)]; n != nil {
		return n
	}
	if r.hint != nil {
		return r.hint
	}
	return nowhere{}
}

// Nodes returns the nodes that the topology names; see [driver.Driver]. It
// waits for a master that the topology expects.
func (r *Router) Nodes(ctx context.Context) ([]driver.Node, error) {
	ctx, cancel := r.bound(ctx, driver.Limits{})
	defer cancel()
	some, err := r.masters(ctx)
	for r.topology.Refresh != nil && errors.Is(err, driver.ErrNoMaster) && ctx.Err() == nil {
		_ = r.topology.Refresh(ctx) // if it fails, the old error says more
		some, err = r.masters(ctx)
	}
	if err != nil {
		return nil, err
	}
	all := make([]driver.Node, len(some))
	for i, n := range some {
		all[i] = n
	}
	return all, nil
}

// masters returns the nodes that the topology names, also with ErrNoMaster.
func (r *Router) masters(ctx context.Context) (all []*node, missing error) {
	addresses, err := r.topology.Masters(ctx)
	switch {
	case errors.Is(err, driver.ErrNoMaster):
		missing = driver.Unrouted(err)
	case err != nil:
		return nil, driver.Unrouted(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, address := range addresses {
		n, err := r.at(address)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, missing
}

// every returns all open nodes, also those that the topology no longer names.
func (r *Router) every() []*node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.AppendSeq(slices.Clone(r.retired), maps.Values(r.nodes))
}

// named returns the nodes without those that the topology no longer names.
func (r *Router) named() []*node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.nodes))
}

// LooksForMasters reports whether the topology can look for another master.
func (r *Router) LooksForMasters() bool { return r.topology.Refresh != nil }

// Sharded reports whether messages about a lock go to a sharded channel in the
// slot of the lock.
func (r *Router) Sharded() bool { return r.topology.Sharded }

// Connections returns how many connections are open; see [driver.Driver].
func (r *Router) Connections() (sum int) {
	for _, n := range r.every() {
		sum += n.Connections()
	}
	return sum
}

// Close closes every connection, and the topology; see [driver.Driver].
func (r *Router) Close() error {
	r.mu.Lock()
	r.end()
	r.mu.Unlock()
	var group sync.WaitGroup
	failed := make([]error, 0)
	var mu sync.Mutex
	for _, n := range r.every() {
		group.Go(func() {
			err := n.Close()
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, err)
		})
	}
	group.Wait()
	if r.topology.Close != nil {
		failed = append(failed, r.topology.Close())
	}
	r.tasks.WaitFor(conns.CloseWait)
	return errors.Join(failed...)
}
