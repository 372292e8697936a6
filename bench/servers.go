package main

import (
	"fmt"
	"net"
	"strings"
	"time"
)

// servers are the servers of one run: independent nodes, and replicas of the
// first node.
type servers struct {
	nodes, replicas []*server
}

// startServers returns when all servers answer and the replicas have all data.
func startServers(nodes, replicas int) (all servers, err error) {
	for range max(nodes, 1) {
		s, err := startServer()
		if err != nil {
			all.stop()
			return all, err
		}
		all.nodes = append(all.nodes, s)
	}
	for range replicas {
		s, err := startServer()
		if err == nil {
			all.replicas = append(all.replicas, s)
			err = s.follow(all.nodes[0])
		}
		if err != nil {
			all.stop()
			return all, err
		}
	}
	return all, nil
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
		all = append(all, s.address)
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
