package redistest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// view is what one server knows of a Cluster.
type view struct {
	masters [slots]*Server // nil for a slot that no server has
	text    string         // the same for servers that agree, also about replicas
}

// viewOf asks a server. It returns nil for a reply of which a node is unknown.
func (c *Cluster) viewOf(tb testing.TB, s *Server) *view {
	tb.Helper()
	ranges, err := redis.Values(s.Try(tb, "CLUSTER", "SLOTS"))
	if err != nil {
		return nil
	}
	v := &view{}
	var lines []string
	for _, one := range ranges {
		fields, _ := redis.Values(one, nil)
		first, _ := redis.Int(fields[0], nil)
		last, _ := redis.Int(fields[1], nil)
		ids := idsOf(fields[2:])
		for slot := first; slot <= last; slot++ {
			v.masters[slot] = c.nodes[ids[0]]
		}
		slices.Sort(ids[1:])
		lines = append(lines, fmt.Sprint(first, last, ids))
	}
	slices.Sort(lines)
	v.text = strings.Join(lines, "\n")
	return v
}

func idsOf(nodes []any) (ids []string) {
	for _, node := range nodes {
		fields, _ := redis.Values(node, nil)
		id, _ := redis.String(fields[2], nil)
		ids = append(ids, id)
	}
	return ids
}

// agreed returns what all servers that answer know, or nil if they differ, or
// one of them does not serve. A server that is paused or killed is not asked.
func (c *Cluster) agreed(tb testing.TB) (v *view) {
	tb.Helper()
	for _, s := range c.answering() {
		info, err := redis.String(s.Try(tb, "CLUSTER", "INFO"))
		if err != nil || !strings.Contains(info, "cluster_state:ok") {
			return nil
		}
		next := c.viewOf(tb, s)
		if next == nil || v != nil && v.text != next.text {
			return nil
		}
		v = next
	}
	return v
}

// awaitAgreed waits until all servers that answer agree.
func (c *Cluster) awaitAgreed(tb testing.TB) (v *view) {
	tb.Helper()
	await(tb, "the servers of the Cluster do not agree", func() bool {
		v = c.agreed(tb)
		return v != nil
	})
	return v
}

// AwaitWhole waits until all servers answer and agree, and each replica has the
// data of its master.
func (c *Cluster) AwaitWhole(tb testing.TB) {
	tb.Helper()
	await(tb, "the Cluster is not whole", func() bool {
		v := c.agreed(tb)
		return v != nil && c.allReplicas(tb, v)
	})
}

// allReplicas reports whether all shards have a master and replicas that have
// its data.
func (c *Cluster) allReplicas(tb testing.TB, v *view) bool {
	tb.Helper()
	for _, s := range c.Servers {
		if !s.answers() || !strings.Contains(v.text, c.ids[s]) {
			return false
		}
		if state := s.link(tb); state != "master" && state != "connected" {
			return false
		}
	}
	return true
}

// SlotOf returns the slot of a key, or of the name of a lock.
func (c *Cluster) SlotOf(tb testing.TB, key string) int {
	tb.Helper()
	slot, err := redis.Int(c.answering()[0].Do(tb, "CLUSTER", "KEYSLOT", key), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return slot
}

// MasterOf returns the master of a key, or of the name of a lock. It waits
// until all servers that answer agree.
func (c *Cluster) MasterOf(tb testing.TB, key string) *Server {
	tb.Helper()
	return c.Master(tb, c.SlotOf(tb, key))
}

// Master is MasterOf for a slot.
func (c *Cluster) Master(tb testing.TB, slot int) *Server {
	tb.Helper()
	return c.awaitAgreed(tb).masters[slot]
}

// Masters returns the masters of all shards, in the order of the shards.
func (c *Cluster) Masters(tb testing.TB) (all []*Server) {
	tb.Helper()
	v := c.awaitAgreed(tb)
	for _, shard := range c.shards {
		for _, s := range shard {
			if slices.Contains(v.masters[:], s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// Replicas returns the servers that replace the master when it fails.
func (c *Cluster) Replicas(master *Server) []*Server { return others(c.shardOf(master), master) }

func (c *Cluster) shardOf(s *Server) []*Server {
	i := slices.IndexFunc(c.shards, func(shard []*Server) bool { return slices.Contains(shard, s) })
	return c.shards[i]
}

// NameAt returns a name that begins with the given one, and whose slot the
// master has.
func (c *Cluster) NameAt(tb testing.TB, master *Server, begin string) string {
	tb.Helper()
	v := c.awaitAgreed(tb)
	for i := range 10_000 {
		name := fmt.Sprintf("%s-%d", begin, i)
		if v.masters[c.SlotOf(tb, name)] == master {
			return name
		}
	}
	tb.Fatalf("%s has no slots", master)
	return ""
}
