package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/search"
)

// Config is what the options of a client say about its Cluster.
type Config struct {
	Addresses []string                    // of some servers, which are asked first
	Map       func(address string) string // of what servers name; nil for none
	Servers   *driver.Config              // of all connections

	// SlotsOnly says that Servers.Dial may encrypt. Only CLUSTER SLOTS names
	// the ports for connections such as the one that has asked.
	SlotsOnly bool
}

// Cluster knows the masters of the slots of a Redis Cluster. Its methods may be
// called concurrently.
type Cluster struct {
	*search.Search

	config Config
	table  atomic.Pointer[table] // nil before the first answer; stored while mu is held

	// These are guarded by mu.
	nodes     []string                 // that the last answer named, masters and replicas
	doubted   map[string]time.Time     // servers that failed, and have not answered since
	corrected map[int]string           // masters of slots, since the load under way began
	newest    string                   // the server that has redirected a request since then, or ""
	limit     time.Duration            // for each server
	longer    bool                     // the limit has just been doubled
	took      time.Duration            // of the last answer; 0 before
	asking    map[string]chan struct{} // doubted masters; closed when one was asked
}

// New returns the topology of a Cluster. It makes no network call.
func New(c Config) *Cluster {
	t := &Cluster{
		Search: search.New(), config: c, doubted: map[string]time.Time{},
		limit: firstLimit, asking: map[string]chan struct{}{},
	}
	t.Run = t.loadUntilClosed
	return t
}

// Topology returns the functions that a router calls.
func (c *Cluster) Topology() *driver.Topology {
	return &driver.Topology{
		Master: c.Master, Cached: c.Cached, Masters: c.Masters, Invalidate: c.Invalidate, Refresh: c.Refresh,
		Redirect: c.Redirect, Sharded: true,
		Changes: c.Changes, LogTo: c.LogTo, Close: c.Close,
	}
}

// Master returns the address of the master of a key. Before the first answer
// of a server, it waits for the end of a load. It does not wait for the master
// of a slot that has none: see [driver.ErrNoMaster].
func (c *Cluster) Master(ctx context.Context, key string) (string, error) {
	t, err := c.current(ctx)
	if err != nil {
		return "", err
	}
	if key == "" {
		return t.masters[0], nil
	}
	slot := slotOf(key)
	address := t.master(slot)
	if address == "" {
		search.Signal(c.Soon)
		return "", search.NewReason(fmt.Sprintf("CLUSTERDOWN: slot %d has no master that is online", slot), t.kindOfHole())
	}
	return address, nil
}

// Cached returns the address of the master of a key, if the table has one.
func (c *Cluster) Cached(key string) (address string, known bool) {
	t := c.table.Load()
	if t == nil || key == "" {
		return "", false
	}
	address = t.master(slotOf(key))
	return address, address != ""
}

// Masters returns the addresses of all masters that have slots. If slots have
// none now, it also returns [driver.ErrNoMaster].
func (c *Cluster) Masters(ctx context.Context) ([]string, error) {
	t, err := c.current(ctx)
	if err != nil {
		return nil, err
	}
	if t.hasNewHole() {
		search.Signal(c.Soon)
		err = search.NewReason("CLUSTERDOWN: slots have no master that is online", driver.ErrNoMaster)
	}
	return t.owners(), err
}

// current returns the table, if need be after a load. While loads only need
// more time, it waits for the next one.
func (c *Cluster) current(ctx context.Context) (*table, error) {
	for {
		if t := c.table.Load(); t != nil {
			return t, nil
		}
		next, last := c.request()
		if err := search.Await(ctx, next, last); err != nil && (ctx.Err() != nil || !c.hasMoreTime()) {
			return nil, err
		}
	}
}

// hasMoreTime reports whether all servers were late in the last load, and have
// more time in the next one.
func (c *Cluster) hasMoreTime() bool {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	return c.longer
}

// request asks for a load, and returns it with the error of the last one.
func (c *Cluster) request() (next *search.Look, last error) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.Start()
	if !c.Looking {
		search.Signal(c.Soon)
	}
	return c.Next, c.Err
}

// Invalidate notes that a server does not answer, or takes no writes.
func (c *Cluster) Invalidate(address string) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.doubted[address] = time.Now()
	if t := c.table.Load(); t != nil && slices.Contains(t.masters, address) {
		search.Signal(c.Soon)
	}
}

// Redirect returns the address to use for one that a server has named, or "" if
// there is none. Unless it is for once, the key's slot has its master there
// from now on.
func (c *Cluster) Redirect(key, from, to string, once bool) (address string) {
	at := strings.LastIndex(to, ":") // an IPv6 address has no brackets there
	if at < 0 {
		return ""
	}
	address, err := named(c.config.Map, from, strings.Trim(to[:at], "[]"), to[at+1:])
	if err == nil && address != "" && !once && key != "" {
		c.correct(slotOf(key), address, from)
	}
	return address
}

// correct notes the master of a slot, by the answer of a server. The rest of
// the table is loaded soon: a slot rarely moves alone. That server is asked,
// because others may learn of the move later. It works, although the router
// invalidates it.
func (c *Cluster) correct(slot int, address, by string) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	delete(c.doubted, by)
	c.newest = by
	if c.Looking {
		c.corrected[slot] = address
	}
	if t := c.table.Load(); t != nil && t.master(slot) != address {
		c.replace(t.with(slot, address))
		search.Signal(c.Soon)
	}
}

// replace makes a table the one in use, and notes whether masters have come or
// gone; mu is held.
func (c *Cluster) replace(t *table) {
	old := c.table.Swap(t)
	if old != nil && !slices.Equal(old.owners(), t.owners()) {
		search.Signal(c.Changes)
	}
}
