package cluster

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/redis/search"
)

const (
	// firstLimit is for a server to connect, and for each answer, until it is
	// known to be too short.
	firstLimit = time.Second

	// Between two loads, while the table is valid. No message reports another
	// master: an idle client with holds finds it so.
	loadPoll = 10 * time.Second

	// Between the end of a load and the next one, while the table is invalid.
	// Up to half of it is added.
	loadPause = 100 * time.Millisecond
)

// loadUntilClosed loads the table. The first load is wanted now. Beside a load,
// the masters that were invalidated are asked whether they answer.
func (c *Cluster) loadUntilClosed() {
	var last time.Time
	for c.rest(last) {
		c.checkDoubted()
		c.load()
		last = time.Now()
		if c.missing(last.Add(loadPause)) || c.table.Load().hasNewHole() {
			search.Signal(c.Soon)
		}
	}
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

// load asks the servers until one knows the slots.
func (c *Cluster) load() {
	order, limit, pause := c.begin()
	found, failures := c.askAll(order, limit, pause)
	switch {
	case c.Life.Err() != nil:
	case found != nil:
		c.finish(found, failures)
	default:
		c.fail(failures)
	}
}

// begin returns the servers to ask, the limit for each, and the pause between
// two of them.
func (c *Cluster) begin() (order []string, limit, pause time.Duration) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.Begin()
	c.corrected = map[int]string{}
	order, c.newest = c.order(), ""
	return order, c.limit, max(c.limit/mostAsked, 2*c.took)
}

// order returns the servers that are known, in random order, and then those of
// the settings. A server that has failed comes later, and one that has
// redirected a request first; mu is held.
func (c *Cluster) order() (order []string) {
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
func (c *Cluster) finish(found *answer, failures []search.Failure) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.took, c.limit, c.longer = found.took, max(firstLimit, min(c.limit, 4*found.took)), false
	for slot, address := range c.corrected {
		found.view.table.assign(slot, slot, address)
	}
	c.nodes = found.view.nodes
	c.doubt(failures)
	delete(c.doubted, found.address)
	found.view.table.noteHoles(c.table.Load(), time.Now())
	c.replace(found.view.table)
	c.Conclude(nil)
}

// fail notes that no server knows the slots. If all were late, the network may
// be slow: the limit doubles, up to the dial timeout.
func (c *Cluster) fail(failures []search.Failure) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	longest := max(firstLimit, c.config.Servers.DialTimeout)
	c.longer = c.limit < longest && !slices.ContainsFunc(failures, func(f search.Failure) bool { return !isLate(f.Err) })
	if c.longer {
		c.limit = min(2*c.limit, longest)
	}
	c.doubt(failures)
	c.Conclude(search.Failed("no slots of the Cluster", "server", failures, c.config.Addresses))
}
