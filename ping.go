package relock

import (
	"context"
	"fmt"

	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/redis/driver"
)

// Ping sends PING to the server and returns an error if it does not answer. A
// client of several servers sends it to each, one after another, and returns
// the first error.
//
// A replica and a sentinel are [ErrInvalid], with what they are. Clients of
// Sentinels and of a Cluster do not check this, because they find the masters
// themselves.
//
// A client of one server also asks whether it is part of a Cluster, until the
// answer is that it has all keys. A server that has not all keys is
// [ErrInvalid]; see [NewClientCluster].
func (c *Client) Ping(ctx context.Context) error {
	if err := c.ready(ctx, nil); err != nil {
		return wrap("ping", "", err)
	}
	nodes, err := c.engine.Driver.Nodes(ctx)
	for _, n := range nodes {
		if o := n.Call(ctx, driver.Limits{}, driver.Request{Cmd: "PING"}); err == nil {
			err = o.Err
		}
	}
	if err == nil {
		err = c.checkAlone(ctx)
	}
	if err == nil {
		err = c.checkRoles(ctx, nodes)
	}
	return wrap("ping", "", driver.ContextErr(ctx, err))
}

// checkRoles returns an error if a server grants no locks, because of what it
// is. A driver that looks for masters has another one soon.
func (c *Client) checkRoles(ctx context.Context, nodes []driver.Node) error {
	if c.engine.Driver.LooksForMasters() {
		return nil
	}
	for _, n := range nodes {
		if role := driver.RoleUnlessMaster(ctx, driver.Limits{}, n); role != "" {
			return fmt.Errorf("%w: the server is %s; use its master, or NewClientSentinel", ErrInvalid, role)
		}
	}
	return nil
}

// checkAlone returns an error if the client's only server has not all keys. It
// warns if it may lose some.
func (c *Client) checkAlone(ctx context.Context) error {
	pool, alone := c.engine.Driver.(*conns.Pool)
	if !alone || c.asked.Load() {
		return nil
	}
	masters, known := driver.ClusterSize(ctx, pool)
	switch {
	case masters > 1:
		return fmt.Errorf("%w: the server is part of a Cluster of %d masters, use NewClientCluster", ErrInvalid, masters)
	case known && c.asked.CompareAndSwap(false, true) && masters == 1:
		c.engine.Logger.Warn("relock: the server is part of a Cluster, follow its failovers with NewClientCluster")
	}
	return nil
}
