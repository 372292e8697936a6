package redistest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// slots is the number of slots of a Cluster.
const slots = 16384

// Cluster is a Redis Cluster of the test. A shard is a master and its replicas.
// No server changes its shard. The methods are for one goroutine at a time,
// unless they say otherwise.
type Cluster struct {
	Servers []*Server // first the masters in the order of their slots, then the replicas

	shards [][]*Server
	nodes  map[string]*Server // by the ids that the Cluster has given
	ids    map[*Server]string
}

// StartCluster runs a Cluster until the test ends, in some 3 s. Its slots are
// spread evenly. A server that has not answered for a second has failed, which
// "--cluster-node-timeout" and milliseconds among the arguments change. A
// replica is promoted however old its data is.
func StartCluster(tb testing.TB, masters, replicasEach int, args ...string) *Cluster {
	tb.Helper()
	c := &Cluster{shards: make([][]*Server, masters), nodes: map[string]*Server{}, ids: map[*Server]string{}}
	for i := range masters * (1 + replicasEach) {
		s := startInCluster(tb, args)
		c.Servers = append(c.Servers, s)
		c.shards[i%masters] = append(c.shards[i%masters], s)
		id := stringOf(tb, s, "CLUSTER", "MYID")
		c.nodes[id], c.ids[s] = s, id
	}
	c.introduce(tb)
	c.replicate(tb)
	c.AwaitWhole(tb)
	return c
}

func startInCluster(tb testing.TB, args []string) *Server {
	tb.Helper()
	port, err := FindPortWithBus()
	if err != nil {
		tb.Fatal(err)
	}
	s := onPort(TempDir(tb), port, slices.Concat([]string{
		"--appendonly", "no", "--cluster-enabled", "yes", "--cluster-node-timeout", "1000",
		"--cluster-replica-validity-factor", "0", "--cluster-migration-barrier", "100",
	}, quickCopies, args)...)
	s.run(tb)
	return s
}

// introduce gives the first servers their slots, and makes each server known
// to all others. They would find out in seconds, too. Without different
// epochs they would resolve conflicts first.
func (c *Cluster) introduce(tb testing.TB) {
	tb.Helper()
	for i, s := range c.Servers {
		s.Do(tb, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		for _, other := range c.Servers[:i] {
			host, port := other.hostPort(tb)
			s.Do(tb, "CLUSTER", "MEET", host, port)
		}
	}
	masters := len(c.shards)
	for i, s := range c.Servers[:masters] {
		args := []any{"ADDSLOTS"} // ADDSLOTSRANGE is not in Redis 6.2
		for slot := i * slots / masters; slot < (i+1)*slots/masters; slot++ {
			args = append(args, slot)
		}
		s.Do(tb, "CLUSTER", args...)
	}
}

// replicate makes the other servers replicas, as soon as they know their
// masters.
func (c *Cluster) replicate(tb testing.TB) {
	tb.Helper()
	for _, shard := range c.shards {
		for _, s := range shard[1:] {
			var err error
			await(tb, "a server does not know its master", func() bool {
				_, err = s.Try(tb, "CLUSTER", "REPLICATE", c.ids[shard[0]])
				return err == nil
			})
		}
	}
}

// Addresses returns the addresses of all servers.
func (c *Cluster) Addresses() (all []string) {
	for _, s := range c.Servers {
		all = append(all, s.Address)
	}
	return all
}

// DoAll runs a command at each server that answers.
func (c *Cluster) DoAll(tb testing.TB, command string, args ...any) {
	tb.Helper()
	for _, s := range c.answering() {
		s.Do(tb, command, args...)
	}
}

// answering returns the servers that run and are not paused.
func (c *Cluster) answering() (all []*Server) {
	for _, s := range c.Servers {
		if s.answers() {
			all = append(all, s)
		}
	}
	return all
}

func stringOf(tb testing.TB, s *Server, command string, args ...any) string {
	tb.Helper()
	text, err := redis.String(s.Do(tb, command, args...), nil)
	if err != nil {
		tb.Fatalf("%s %v: %v", command, args, err)
	}
	return text
}

// String returns the addresses, for messages.
func (c *Cluster) String() string { return fmt.Sprintf("cluster of %v", c.Addresses()) }
