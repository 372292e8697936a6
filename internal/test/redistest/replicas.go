package redistest

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/test/testkit"
)

// quickCopies lets a replica have the data of its master immediately, and
// report often how far it is.
var quickCopies = []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}

// Follow makes the server a replica.
func (s *Server) Follow(tb testing.TB, master *Server) {
	tb.Helper()
	host, port := master.hostPort(tb)
	s.Do(tb, "REPLICAOF", host, port)
}

// hostPort returns the two parts of the address.
func (s *Server) hostPort(tb testing.TB) (host, port string) {
	tb.Helper()
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		tb.Fatal(err)
	}
	return host, port
}

// follows reports whether the server is a replica of the master.
func (s *Server) follows(tb testing.TB, master *Server) bool {
	role, err := redis.Values(s.Try(tb, "ROLE"))
	if err != nil || len(role) < 5 {
		return false
	}
	port, _ := redis.Int(role[2], nil)
	return strings.HasSuffix(master.Address, fmt.Sprintf(":%d", port))
}

// link returns "master", the state of a replica's link ("connected" if it has
// the data), or why it is unknown.
func (s *Server) link(tb testing.TB) string {
	tb.Helper()
	role, err := redis.Values(s.Try(tb, "ROLE"))
	if err != nil || len(role) < 3 {
		return fmt.Sprint(role, err)
	}
	if len(role) == 3 { // a master, and its replicas
		return "master"
	}
	state, _ := redis.String(role[3], nil)
	return state
}

// awaitCopy waits until a replica has the data of its master.
func (s *Server) awaitCopy(tb testing.TB) {
	tb.Helper()
	state := ""
	defer func() {
		if tb.Failed() {
			tb.Logf("%s is %q", s, state)
		}
	}()
	await(tb, "the replica has no link", func() bool {
		state = s.link(tb)
		return state == "connected"
	})
}

func await(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	testkit.Eventually(tb, testkit.Patience, done, what)
}

// wrongPassword is not the password of any server.
const wrongPassword = "wrong"

// CutReplication ends the links of replicas. They log in with a password that
// the master does not know, until the RestoreReplication of their set.
func CutReplication(tb testing.TB, master *Server, replicas ...*Server) {
	tb.Helper()
	for _, one := range replicas {
		one.logsIn(tb, wrongPassword)
	}
	master.Do(tb, "CLIENT", "KILL", "TYPE", "replica")
}

func restoreReplication(tb testing.TB, replicas []*Server) {
	tb.Helper()
	for _, one := range replicas {
		if one.answers() {
			one.logsIn(tb, "")
		}
	}
}

// logsIn sets the password for a replica's master. It repeats the command: a
// sentinel that gives a replica a new master ends the replica's connections.
func (s *Server) logsIn(tb testing.TB, password string) {
	tb.Helper()
	await(tb, "no password is set", func() bool {
		_, err := s.Try(tb, "CONFIG", "SET", "masterauth", password)
		return err == nil
	})
}

func others(all []*Server, without *Server) (rest []*Server) {
	for _, one := range all {
		if one != without {
			rest = append(rest, one)
		}
	}
	return rest
}
