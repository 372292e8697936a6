package redistest

import (
	"slices"
	"testing"
)

// AwaitSuccessor waits until a replica has replaced a master that was killed
// or paused, and all servers that answer agree. It returns the new master. With
// one second until a master has failed it takes 2 to 3 s.
func (c *Cluster) AwaitSuccessor(tb testing.TB, of *Server) (next *Server) {
	tb.Helper()
	await(tb, "no failover", func() bool {
		v := c.agreed(tb)
		if v == nil {
			return false
		}
		next = nil
		for _, master := range v.masters {
			if master == of || master == nil {
				return false
			}
		}
		next = c.masterAmong(tb, c.Replicas(of))
		return next != nil
	})
	return next
}

// Replaced reports whether a server that answers knows another master in its
// place.
func (c *Cluster) Replaced(tb testing.TB, old *Server) bool {
	tb.Helper()
	return slices.ContainsFunc(c.answering(), func(s *Server) bool {
		v := c.viewOf(tb, s)
		return v != nil && !slices.Contains(v.masters[:], old)
	})
}

// masterAmong returns the first of the servers that answers and is a master, or
// nil.
func (c *Cluster) masterAmong(tb testing.TB, servers []*Server) *Server {
	tb.Helper()
	for _, s := range servers {
		if s.answers() && s.link(tb) == "master" {
			return s
		}
	}
	return nil
}

// Return makes a server that was replaced a replica. A killed one is started
// again, a paused one goes on. It returns the master of its shard once the
// Cluster is whole.
func (c *Cluster) Return(tb testing.TB, old *Server) (master *Server) {
	tb.Helper()
	old.revive(tb)
	c.AwaitWhole(tb)
	return c.masterAmong(tb, c.shardOf(old))
}

// TakeOver makes a replica the master without asking the old one, which takes
// writes until it learns of it.
func (c *Cluster) TakeOver(tb testing.TB, master *Server) {
	tb.Helper()
	c.Replicas(master)[0].Do(tb, "CLUSTER", "FAILOVER", "TAKEOVER")
}

// CutReplication ends the links of the master's replicas until
// RestoreReplication. What is written meanwhile is lost by a failover.
func (c *Cluster) CutReplication(tb testing.TB, master *Server) {
	tb.Helper()
	CutReplication(tb, master, c.Replicas(master)...)
}

// RestoreReplication lets replicas connect again.
func (c *Cluster) RestoreReplication(tb testing.TB) {
	tb.Helper()
	restoreReplication(tb, c.Servers)
}
