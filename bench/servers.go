package main

import (
	"cmp"
	"fmt"
	"net"
	"strings"
	"time"
)

// servers are the servers of one run: nodes, and replicas of the first node. A
// client gets the addresses of the nodes.
type servers struct {
	nodes, replicas []*server
}

// independent starts so many servers that know nothing of each other.
func independent(nodes int, args ...string) func() (servers, error) {
	return func() (all servers, err error) {
		for range nodes {
			s, err := startServer(args...)
			if err != nil {
				all.stop()
				return all, err
			}
			all.nodes = append(all.nodes, s)
		}
		return all, nil
	}
}

// withReplica starts a server and its replica, which has all data.
func withReplica() (servers, error) {
	all, err := independent(2)()
	if err != nil {
		return all, err
	}
	all.nodes, all.replicas = all.nodes[:1], all.nodes[1:]
	if err = all.replicas[0].follow(all.nodes[0]); err != nil {
		all.stop()
	}
	return all, err
}

// replicated is 64 goroutines, each with its own key, on a server with one
// replica. Only the first library waits for the replica.
var replicated = on(withReplica, counted("replicated", 64, oursReplicated, ours))

// on returns the scenario with its own servers.
func on(start func() (servers, error), s scenario) scenario {
	s.servers = start
	return s
}

func (a servers) stop() {
	for _, s := range append(a.nodes, a.replicas...) {
		s.stop()
	}
}

// addresses returns the addresses of the nodes, separated by commas.
func (a servers) addresses() string {
	var all []string
	for _, s := range a.nodes {
		all = append(all, cmp.Or(s.encrypted, s.address))
	}
	return strings.Join(all, ",")
}

// commands returns how many commands the nodes have run.
func (a servers) commands() (sum int64, err error) {
	for _, s := range a.nodes {
		n, err := s.commands()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// follow makes s a replica, and returns when it has all data.
func (s *server) follow(node *server) error {
	host, port, err := net.SplitHostPort(node.address)
	if err != nil {
		return err
	}
	if _, err := s.admin.Do("REPLICAOF", host, port); err != nil {
		return err
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		status, err := s.info("replication", "master_link_status")
		if err != nil || status == "up" {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("the replica of %s is not in sync", node.address)
		}
	}
}
