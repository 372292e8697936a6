package cluster

import (
	"slices"
	"time"

	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/search"
)

// A server that was invalidated is doubted until it answers. While a master of
// the table is, the table is invalid: its successor is named later, and nobody
// may ask for another load soon, because requests to a server that hangs end
// with their limit. Each doubted master is asked beside the loads, one request
// at a time, within the user's timeouts: it may be far away.

// missingFor is how long the table is invalid without a master that answers,
// and also without a master of a slot.
const missingFor = 30 * time.Second

// checkDoubted asks the doubted masters that are not being asked.
func (c *Cluster) checkDoubted() {
	for _, at := range c.doubtedMasters() {
		c.Mu.Lock()
		if c.asking[at] == nil {
			done := make(chan struct{})
			c.asking[at] = done
			c.Tasks.Start(func() { c.check(at, done) })
		}
		c.Mu.Unlock()
	}
}

// check asks a master whether it answers. Then it is doubted no longer, unless
// it was invalidated meanwhile.
func (c *Cluster) check(at string, done chan struct{}) {
	begun := time.Now()
	p := conns.NewPool(search.ShortConfig(c.config.Servers, at, max(firstLimit, c.config.Servers.DialTimeout)))
	o := p.Call(c.Life, driver.Limits{}, search.Command("PING"))
	_ = p.Close() // nothing is under way
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if o.Answered && c.doubted[at].Before(begun) {
		delete(c.doubted, at)
	}
	delete(c.asking, at)
	close(done)
}

// missing reports whether a master of the table is doubted, and does not answer
// by then. One that is no master any more is not waited for: it may hang.
func (c *Cluster) missing(by time.Time) bool {
	c.checkDoubted()
	timer := time.NewTimer(time.Until(by))
	defer timer.Stop()
	for _, done := range c.questions() {
		select {
		case <-done:
		case <-timer.C:
			return len(c.doubtedMasters()) > 0
		case <-c.Life.Done():
			return false
		}
	}
	return len(c.doubtedMasters()) > 0
}

// questions returns the ends of the requests to the doubted masters.
func (c *Cluster) questions() (all []chan struct{}) {
	masters := c.doubtedMasters()
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for _, at := range masters {
		if done := c.asking[at]; done != nil {
			all = append(all, done)
		}
	}
	return all
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
