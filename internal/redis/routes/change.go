package routes

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
)

// Watch calls changed whenever the topology has changed, until the router is
// closed. It passes the nodes that are not to be used any more. It is called
// once.
//
// These nodes are closed a command timeout later. Then changed is called for
// them again: a call that had just got one may have used it.
func (r *Router) Watch(changed func(gone []driver.Node)) {
	if r.topology.Changes == nil {
		return
	}
	r.tasks.Start(func() {
		sweep := time.NewTimer(time.Hour)
		defer sweep.Stop()
		for {
			select {
			case _, ok := <-r.topology.Changes:
				if !ok {
					return
				}
				changed(r.change())
				sweep.Reset(r.config.CommandTimeout)
			case <-sweep.C:
				if gone := append(r.closeRetired(), r.change()...); len(gone) > 0 {
					changed(gone)
					sweep.Reset(r.config.CommandTimeout)
				}
			case <-r.life.Done():
				return
			}
		}
	})
}

// change forgets where the keys were, and retires the nodes that are no master
// any more: their connections end, so that nothing waits for a server that has
// failed. If the topology does not say which nodes there are, none is
// retired.
func (r *Router) change() (gone []driver.Node) {
	ctx, cancel := r.bound(context.Background(), driver.Limits{})
	defer cancel()
	masters, err := r.masters(ctx)
	if err != nil && !errors.Is(err, driver.ErrNoMaster) {
		masters = r.named()
	}
	for _, n := range r.retireOthers(masters) {
		n.Retire()
		gone = append(gone, n)
	}
	return gone
}

// retireOthers keeps these nodes only, and returns the others. A request for
// the address of a retired node makes another one.
func (r *Router) retireOthers(masters []*node) (gone []*node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.known)
	kept := map[*node]bool{}
	for _, n := range masters {
		kept[n] = true
	}
	for address, n := range r.nodes {
		if !kept[n] {
			delete(r.nodes, address)
			gone = append(gone, n)
		}
	}
	r.setOnly()
	r.retired = append(r.retired, gone...)
	if !kept[r.hint] {
		r.hint = nil
	}
	if len(masters) > 0 && r.hint == nil {
		r.hint = masters[0]
	}
	return gone
}

// closeRetired closes the retired nodes, and returns them.
func (r *Router) closeRetired() (closed []driver.Node) {
	for _, n := range r.takeRetired() {
		_ = n.Close() // all its connections have ended
		closed = append(closed, n)
	}
	return closed
}

func (r *Router) takeRetired() []*node {
	r.mu.Lock()
	defer r.mu.Unlock()
	retired := r.retired
	r.retired = nil
	return retired
}

// errRetired is the error of a call that came to a node after its end, or while
// it was connecting. The client is not closed.
var errRetired error = retiredError{}

// retiredError is a network error, which is retried, and no timeout.
type retiredError struct{}

func (retiredError) Error() string { return "the server is no master any more" }

func (retiredError) Timeout() bool { return false }

func (retiredError) Temporary() bool { return true }

// orRetired returns err, or errRetired if only the node was closed.
func (n *node) orRetired(err error) error {
	if errors.Is(err, errs.ErrClosed) && n.router.life.Err() == nil {
		return errRetired
	}
	return err
}

// missedNode reports whether nothing was sent, because the node was retired.
func missedNode(o driver.Result) bool { return o.Sent.IsZero() && errors.Is(o.Err, errRetired) }
