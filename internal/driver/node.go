package driver

import (
	"context"
	"fmt"
	"os"
)

// node is one server of a router. It notifies the topology if the server does
// not answer, or is no master.
type node struct {
	*Pool

	router  *Router
	address string
}

// Send runs one command; see [Driver].
func (n *node) Send(ctx context.Context, limit Limits, r Request) Result {
	o := n.Pool.Send(ctx, limit, r)
	o.Err = n.orRetired(o.Err)
	n.note(o.Err)
	return o
}

// Call runs one command; see [Node].
func (n *node) Call(ctx context.Context, limit Limits, r Request) Result {
	o := n.Pool.Call(ctx, limit, r)
	o.Err = n.orRetired(o.Err)
	n.note(o.Err)
	return o
}

// Link returns a connection for one worker; see [Node].
func (n *node) Link() Link { return nodeLink{n.Pool.Link(), n} }

// note calls Invalidate if the server may be the wrong one, by the error.
func (n *node) note(err error) {
	if err == nil || n.router.topology.Invalidate == nil || n.router.life.Err() != nil {
		return
	}
	if IsNetwork(err) || isNoMaster(err) {
		n.router.topology.Invalidate(n.address)
	}
}

// isNoMaster reports whether the server takes no writes of the key.
func isNoMaster(err error) bool {
	line, ok := errorLine(err)
	if !ok {
		return false
	}
	word := code(line)
	return word == "READONLY" || word == "MASTERDOWN" || word == "CLUSTERDOWN"
}

// nodeLink is a link to a node.
type nodeLink struct {
	Link

	node *node
}

// Pipeline sends the requests together; see [Link].
func (l nodeLink) Pipeline(limit BatchLimit, requests []Request) []Result {
	outcomes := l.Link.Pipeline(limit, requests)
	noted := false
	for i := range outcomes {
		o := &outcomes[i]
		if o.Err = l.node.orRetired(o.Err); o.Err != nil && !noted {
			noted = true
			l.node.note(o.Err)
		}
	}
	return outcomes
}

// Subscribe listens to a channel; see [Link].
func (l nodeLink) Subscribe(channel string, confirmed func(), message func(string)) error {
	err := l.node.orRetired(l.Link.Subscribe(channel, confirmed, message))
	l.node.note(err)
	return err
}

// nowhere is the node of a router that knows no server yet.
type nowhere struct{}

func (nowhere) Call(context.Context, Limits, Request) Result { return Result{Err: errNowhere} }

func (nowhere) Link() Link { return nowhereLink{} }

type nowhereLink struct{}

func (nowhereLink) Pipeline(_ BatchLimit, requests []Request) []Result {
	return same(requests, Result{Err: errNowhere})
}

func (nowhereLink) Subscribe(string, func(), func(string)) error { return errNowhere }

func (nowhereLink) Cut() {}

func (nowhereLink) Close() {}

var errNowhere = fmt.Errorf("no server for the key is known yet: %w", os.ErrDeadlineExceeded)
