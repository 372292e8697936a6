package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/search"
)

// mostAsked is how many servers are asked at the same time.
const mostAsked = 3

// answer is what a server says about its Cluster, or why it does not.
type answer struct {
	address string
	view    *view
	err     error
	took    time.Duration
}

// askAll asks the servers, in this order, until one knows the slots. If one
// does not answer within the pause, the next one is asked beside it. It returns
// nil if none knows them.
func (c *Cluster) askAll(order []string, limit, pause time.Duration) (found *answer, failures []search.Failure) {
	ctx, cancel := context.WithCancel(c.Life)
	defer cancel()
	answers := make(chan *answer, len(order))
	next := time.NewTimer(0)
	defer next.Stop()
	for asked, left := 0, len(order); left > 0; {
		select {
		case <-next.C:
			if open := asked - (len(order) - left); asked < len(order) && open < mostAsked {
				at := order[asked]
				c.Tasks.Start(func() { answers <- c.timed(ctx, at, limit) })
				asked++
				next.Reset(pause)
			}
		case a := <-answers:
			if a.err == nil {
				return a, failures
			}
			failures = append(failures, search.Failure{Address: a.address, Err: a.err})
			left--
			next.Reset(0)
		case <-ctx.Done():
			return nil, nil
		}
	}
	return nil, failures
}

// timed asks one server, and measures how long that takes.
func (c *Cluster) timed(ctx context.Context, address string, limit time.Duration) *answer {
	start := time.Now()
	found, err := c.ask(ctx, address, limit)
	return &answer{address: address, view: found, err: err, took: time.Since(start)}
}

// isLate reports whether a server did not answer in time.
func isLate(err error) bool { return driver.IsTimeout(err) && !errors.Is(err, errEmpty) }

// ask asks one server for the slots.
func (c *Cluster) ask(ctx context.Context, address string, limit time.Duration) (*view, error) {
	p := conns.NewPool(search.ShortConfig(c.config.Servers, address, limit))
	defer p.Close() //nolint:errcheck // nothing is under way
	r := &reader{asked: address, tls: c.config.Servers.UseTLS, use: c.config.Map}
	if !c.config.SlotsOnly {
		o := p.Call(ctx, driver.Limits{}, search.Command("CLUSTER", "SHARDS"))
		if o.Err == nil {
			return r.read((*reader).shards, o.Reply)
		}
		if !o.Answered || driver.IsTransient(o.Err) { // a refused log-in is no answer to the command
			return nil, o.Err
		}
	}
	o := p.Call(ctx, driver.Limits{}, search.Command("CLUSTER", "SLOTS"))
	switch {
	case o.Err == nil:
		return r.read((*reader).ranges, o.Reply)
	case !o.Answered:
		return nil, o.Err
	}
	return nil, explain(o.Err)
}

// explain adds to the refusal of a server what to do about it.
func explain(err error) error {
	switch {
	case driver.IsForbidden(err):
		return fmt.Errorf("%w; the user needs +cluster|shards or +cluster|slots", err)
	case strings.Contains(err.Error(), "cluster support disabled"):
		return search.NewReason("it is no Cluster; use NewClient", errs.ErrInvalid)
	}
	return err
}
