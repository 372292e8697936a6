package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/search"
)

const (
	loadLimit = time.Second // for each server

	// Between two loads, while the table is valid. No message reports another
	// master: an idle client with holds finds it so.
	loadPoll = 10 * time.Second

	// Between the end of a load and the next one, while the table is invalid.
	// Up to half of it is added.
	loadPause = 100 * time.Millisecond

	// A master that was invalidated is asked whether it answers, and looked for
	// until it does. That must not delay the next load.
	checkLimit = loadPause
	missingFor = 30 * time.Second // also the master of a slot
)

// loadUntilClosed loads the table. The first load is wanted now.
func (c *Cluster) loadUntilClosed() {
	var last time.Time
	for c.rest(last) {
		c.load()
		last = time.Now()
		if c.missing() || c.table.Load().hasNewHole() {
			search.Signal(c.Soon)
		}
	}
}

// missing reports whether a master of the table was invalidated, and still does
// not answer. Its successor is named later. Nobody may ask for another load
// soon, because requests to a server that hangs end with their limit.
func (c *Cluster) missing() bool {
	for _, at := range c.doubtedMasters() {
		p := conns.NewPool(search.ShortConfig(c.config.Servers, at, checkLimit))
		o := p.Call(c.Life, driver.Limits{}, search.Command("PING"))
		_ = p.Close() // nothing is under way
		if !o.Answered {
			return true
		}
		c.Mu.Lock()
		delete(c.doubted, at)
		c.Mu.Unlock()
	}
	return false
}

// doubtedMasters returns the masters of the table that were invalidated not
// long ago.
func (c *Cluster) doubtedMasters() (all []string) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	t := c.table.Load()
	for at, since := range c.doubted {
		if t != nil && slices.Contains(t.masters, at) && time.Since(since) < missingFor {
			all = append(all, at)
		}
	}
	return all
}

// rest waits until it is time for a load, after the end of the last one. It
// reports whether there is one. Clients must not load at the same time.
func (c *Cluster) rest(last time.Time) bool {
	earliest := last.Add(loadPause + rand.N(loadPause/2))
	timer := time.NewTimer(loadPoll - rand.N(loadPoll/10))
	defer timer.Stop()
	for soon := c.Soon; ; {
		select {
		case <-timer.C:
			return true
		case <-soon:
			soon = nil
			timer.Reset(time.Until(earliest))
		case <-c.Life.Done():
			return false
		}
	}
}

// load asks one server after another until one knows the slots.
func (c *Cluster) load() {
	var failures []search.Failure
	for _, at := range c.begin() {
		found, err := c.ask(c.Life, at)
		if c.Life.Err() != nil {
			return
		}
		if err == nil {
			c.finish(at, found, failures)
			return
		}
		failures = append(failures, search.Failure{Address: at, Err: err})
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.doubt(failures)
	c.Conclude(search.Failed("no slots of the Cluster", "server", failures, c.config.Addresses))
}

// begin returns the servers to ask: those that are known, in random order, and
// then those of the settings. A server that has failed is asked later, and one
// that has redirected a request first.
func (c *Cluster) begin() (order []string) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.Search.Begin()
	c.corrected = map[int]string{}
	defer func() { c.newest = "" }()
	order = slices.Clone(c.nodes)
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, seed := range c.config.Addresses {
		if !slices.Contains(order, seed) {
			order = append(order, seed)
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return c.rank(a) - c.rank(b) })
	return order
}

// rank returns when a server is asked; mu is held.
func (c *Cluster) rank(address string) int {
	switch {
	case address == c.newest:
		return 0
	case !c.doubted[address].IsZero():
		return 2
	}
	return 1
}

// finish takes the answer of a server. It never undoes a correction that came
// after the load began: the server may have answered before.
func (c *Cluster) finish(at string, found *view, failures []search.Failure) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for slot, address := range c.corrected {
		found.table.assign(slot, slot, address)
	}
	c.nodes = found.nodes
	c.doubt(failures)
	delete(c.doubted, at)
	found.table.noteHoles(c.table.Load(), time.Now())
	c.replace(found.table)
	c.Conclude(nil)
}

// doubt notes the servers that did not help, and forgets those that are not
// known any more; mu is held.
func (c *Cluster) doubt(failures []search.Failure) {
	for _, f := range failures {
		if c.doubted[f.Address].IsZero() {
			c.doubted[f.Address] = time.Now()
		}
	}
	for address := range c.doubted {
		if !slices.Contains(c.nodes, address) && !slices.Contains(c.config.Addresses, address) {
			delete(c.doubted, address)
		}
	}
}

// ask asks one server for the slots.
func (c *Cluster) ask(ctx context.Context, address string) (*view, error) {
	p := conns.NewPool(search.ShortConfig(c.config.Servers, address, loadLimit))
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
