package routes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/redis/driver"
)

// node is one server of a router. It notifies the topology if the server does
// not answer, or is no master.
type node struct {
	*conns.Pool

	router   *Router
	address  string
	answered atomic.Int64 // when the last answered request was sent, after router.start
}

// Address returns the address that the topology named; see [driver.Node].
func (n *node) Address() string { return n.address }

// Send runs one command; see [driver.Driver].
func (n *node) Send(ctx context.Context, limit driver.Limits, r driver.Request) driver.Result {
	return n.noted(n.Pool.Send(ctx, limit, r))
}

// Call runs one command; see [driver.Node].
func (n *node) Call(ctx context.Context, limit driver.Limits, r driver.Request) driver.Result {
	return n.noted(n.Pool.Call(ctx, limit, r))
}

// ask runs one command whose slot the server is importing.
func (n *node) ask(ctx context.Context, limit driver.Limits, r driver.Request) driver.Result {
	return n.noted(n.CallAsking(ctx, limit, r))
}

// noted returns the result of a command, after note.
func (n *node) noted(o driver.Result) driver.Result {
	o.Err = n.orRetired(o.Err)
	n.note(o.Err)
	n.noteAnswer(o)
	return o
}

// Link returns a connection for one worker; see [driver.Node].
func (n *node) Link() driver.Link { return nodeLink{n.Pool.Link(), n} }

// note calls Invalidate if the server may be the wrong one, by the error. It
// reports whether it did.
func (n *node) note(err error) bool {
	if err == nil || n.router.topology.Invalidate == nil || n.router.life.Err() != nil {
		return false
	}
	if !driver.IsNetwork(err) && !isNoMaster(err) || errors.Is(err, errRetired) {
		return false
	}
	n.router.topology.Invalidate(n.address)
	return true
}

// isNoMaster reports whether the server takes no writes of the key.
func isNoMaster(err error) bool {
	return driver.HasCode(err, "READONLY", "MASTERDOWN", "CLUSTERDOWN", "MOVED")
}

// nodeLink is a link to a node.
type nodeLink struct {
	driver.Link

	node *node
}

// Pipeline sends the requests together; see [driver.Link]. Those that the
// server redirects follow, see followBatch.
func (l nodeLink) Pipeline(limit driver.BatchLimit, requests []driver.Request) []driver.Result {
	end := time.Now().Add(limit.Borrowed + conns.WaitsOf(requests))
	outcomes := l.Link.Pipeline(limit, requests)
	noted := false
	for i := range outcomes {
		o := &outcomes[i]
		o.Err = l.node.orRetired(o.Err)
		noted = noted || l.node.note(o.Err)
		l.node.noteAnswer(*o)
	}
	l.node.followBatch(end, requests, outcomes)
	return outcomes
}

// Subscribe listens to channels; see [driver.Link].
func (l nodeLink) Subscribe(to driver.Listener) error {
	err := l.node.orRetired(l.Link.Subscribe(noting{to, l.node}))
	l.node.note(err)
	return err
}

// noting is a listener that notifies the topology if the server refuses a
// channel, because it does not have its slot.
type noting struct {
	driver.Listener

	node *node
}

// Lost notes the error; see [driver.Listener].
func (n noting) Lost(c driver.Channel, err error) {
	n.node.note(err)
	n.Listener.Lost(c, err)
}

// nowhere is the node of a router that knows no server yet.
type nowhere struct{}

func (nowhere) Address() string { return "" }

func (nowhere) Call(context.Context, driver.Limits, driver.Request) driver.Result {
	return driver.Result{Err: errNowhere}
}

func (nowhere) Link() driver.Link { return nowhereLink{} }

type nowhereLink struct{}

func (nowhereLink) Pipeline(_ driver.BatchLimit, requests []driver.Request) []driver.Result {
	return conns.Same(requests, driver.Result{Err: errNowhere})
}

func (nowhereLink) Subscribe(driver.Listener) error { return errNowhere }

func (nowhereLink) Listen(driver.Channel) {}

func (nowhereLink) Ignore(driver.Channel) {}

func (nowhereLink) Shorten(time.Time) {}

func (nowhereLink) Cut() {}

func (nowhereLink) Close() {}

var errNowhere = fmt.Errorf("no server for the key is known yet: %w", os.ErrDeadlineExceeded)
