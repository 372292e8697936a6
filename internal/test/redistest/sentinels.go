package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// SentinelName is the name of the master of all sets.
const SentinelName = "orders"

// Sentinels is a master with two replicas, and three sentinels that watch them.
// redis-server runs the sentinels, too.
type Sentinels struct {
	Servers   []*Server // the first one is the master at first
	Sentinels []*Server
}

// StartSentinels starts a set. A master that has not answered for downAfter is
// replaced by the first sentinel. The others find it down later. If all found
// it down together, they would vote for themselves, and try again in seconds.
func StartSentinels(tb testing.TB, downAfter time.Duration, args ...string) *Sentinels {
	tb.Helper()
	s := &Sentinels{}
	for range 3 {
		s.Servers = append(s.Servers, StartTCP(tb, append(slices.Clone(quickCopies), args...)...))
	}
	for _, replica := range s.Servers[1:] {
		replica.Follow(tb, s.Servers[0])
	}
	for _, replica := range s.Servers[1:] {
		replica.awaitCopy(tb)
	}
	s.startSentinels(tb, downAfter)
	return s
}

// LaunchSentinel runs a server and its only sentinel until stop is called, as
// [Launch] does. It returns the sentinel's address.
func LaunchSentinel() (address string, stop func(), err error) {
	l, err := newLaunch()
	if err != nil {
		return "", nil, err
	}
	s := &Sentinels{}
	for _, all := range []*[]*Server{&s.Servers, &s.Sentinels} {
		port, err := FindPort()
		if err != nil {
			return "", l.stop, err
		}
		*all = []*Server{onPort(l.dir, port)}
	}
	master, sentinel := s.Servers[0], s.Sentinels[0]
	if err := l.boot(master); err != nil {
		return "", l.stop, err
	}
	if err := s.configure(sentinel, time.Minute); err != nil {
		return "", l.stop, err
	}
	return sentinel.Address, l.stop, l.boot(sentinel)
}

// configure writes the configuration of a sentinel.
func (s *Sentinels) configure(one *Server, downAfter time.Duration) error {
	one.file = filepath.Join(one.dir, "sentinel.conf")
	return os.WriteFile(one.file, []byte(s.configOf(one, downAfter)), 0o600)
}

// startSentinels starts three sentinels that know each other and the servers.
// They would need some seconds to find out.
func (s *Sentinels) startSentinels(tb testing.TB, downAfter time.Duration) {
	tb.Helper()
	for range 3 {
		s.Sentinels = append(s.Sentinels, onPort(TempDir(tb), FreePort(tb)))
	}
	for i, one := range s.Sentinels {
		if err := s.configure(one, time.Duration(i+1)*downAfter); err != nil {
			tb.Fatal(err)
		}
		one.run(tb)
		// A machine that stalls must not stop failovers for half a minute. The
		// rest is faster than by default. Redis 6.2 does not know this.
		_, _ = one.Try(tb, "SENTINEL", "DEBUG", "tilt-trigger", 60_000, "info-period", 500, "ping-period", 200, "ask-period",
			200, "publish-period", 500)
	}
}

func (s *Sentinels) configOf(one *Server, downAfter time.Duration) string {
	var text strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&text, "sentinel "+format+"\n", args...) }
	line("myid %s", runIDOf(one))
	line("monitor %s %s 1", SentinelName, spaced(s.Servers[0]))
	line("down-after-milliseconds %s %d", SentinelName, downAfter.Milliseconds())
	line("failover-timeout %s 2000", SentinelName)
	line("parallel-syncs %s 2", SentinelName)
	for _, replica := range s.Servers[1:] {
		line("known-replica %s %s", SentinelName, spaced(replica))
	}
	for _, other := range s.Sentinels {
		if other != one {
			line("known-sentinel %s %s %s", SentinelName, spaced(other), runIDOf(other))
		}
	}
	return text.String()
}

// spaced returns an address as the configuration of Redis has it.
func spaced(s *Server) string { return strings.ReplaceAll(s.Address, ":", " ") }

func runIDOf(s *Server) string { return fmt.Sprintf("%040x", s.Address[len("127.0.0.1:"):]) }

// Addresses returns the addresses of the sentinels.
func (s *Sentinels) Addresses() (all []string) {
	for _, one := range s.Sentinels {
		all = append(all, one.Address)
	}
	return all
}

// Master returns the server that a sentinel names.
func (s *Sentinels) Master(tb testing.TB, sentinel *Server) *Server {
	tb.Helper()
	found, err := redis.Strings(sentinel.Try(tb, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", SentinelName))
	if err != nil || len(found) != 2 {
		tb.Fatalf("%s names %q: %v", sentinel, found, err)
	}
	for _, one := range s.Servers {
		if one.Address == net.JoinHostPort(found[0], found[1]) {
			return one
		}
	}
	tb.Fatalf("%s names %q, which is none of the set", sentinel, found)
	return nil
}

// Agreed returns the master that all sentinels name, or nil if they differ.
func (s *Sentinels) Agreed(tb testing.TB) *Server {
	tb.Helper()
	master := s.Master(tb, s.Sentinels[0])
	for _, one := range s.Sentinels[1:] {
		if s.Master(tb, one) != master {
			return nil
		}
	}
	return master
}

// AwaitSuccessor waits until all sentinels name the same other master, and
// returns it. On a busy machine it may be replaced soon, too.
func (s *Sentinels) AwaitSuccessor(tb testing.TB, of *Server) (next *Server) {
	tb.Helper()
	await(tb, "no failover", func() bool {
		next = s.Agreed(tb)
		return next != nil && next != of
	})
	return next
}

// FailOver replaces the master as an operator does, and returns the new one.
// The old one takes writes until it is demoted.
func (s *Sentinels) FailOver(tb testing.TB) *Server {
	tb.Helper()
	old := s.MasterOf(tb, "")
	await(tb, "no failover begins", func() bool {
		_, err := s.Sentinels[0].Try(tb, "SENTINEL", "FAILOVER", SentinelName)
		return err == nil // it is refused while another one is under way
	})
	return s.AwaitSuccessor(tb, old)
}

// MasterOf returns the master that all sentinels name once they agree. It has
// all keys.
func (s *Sentinels) MasterOf(tb testing.TB, _ string) (master *Server) {
	tb.Helper()
	await(tb, "the sentinels do not agree", func() bool {
		master = s.Agreed(tb)
		return master != nil
	})
	return master
}

// Replicas returns the servers that replace the master when it fails.
func (s *Sentinels) Replicas(master *Server) []*Server { return others(s.Servers, master) }

// Replaced reports whether a sentinel names another master.
func (s *Sentinels) Replaced(tb testing.TB, old *Server) bool {
	tb.Helper()
	return slices.ContainsFunc(s.Sentinels, func(one *Server) bool { return s.Master(tb, one) != old })
}

// Return makes a server that was replaced a replica. A killed one is started
// again, a paused one goes on. It returns the master once the set is whole.
func (s *Sentinels) Return(tb testing.TB, old *Server) (master *Server) {
	tb.Helper()
	old.revive(tb)
	await(tb, "the set is not whole", func() bool {
		master = s.Agreed(tb)
		return master != nil && s.follow(tb, master) && s.isWhole(tb)
	})
	return master
}

// follow reports whether the other servers are replicas of the master, and
// makes them replicas. The sentinels would do it after some seconds.
func (s *Sentinels) follow(tb testing.TB, master *Server) bool {
	tb.Helper()
	all := true
	for _, one := range s.Servers {
		if one != master && !one.follows(tb, master) {
			all = false
			one.Follow(tb, master)
		}
	}
	return all
}

// isWhole reports whether all sentinels see a master and two replicas that have
// its data, and no failover.
func (s *Sentinels) isWhole(tb testing.TB) bool {
	tb.Helper()
	for _, sentinel := range s.Sentinels {
		state, err := redis.StringMap(sentinel.Try(tb, "SENTINEL", "MASTER", SentinelName))
		if err != nil || state["flags"] != "master" {
			return false
		}
		replicas, _ := redis.Values(sentinel.Try(tb, "SENTINEL", "REPLICAS", SentinelName))
		well := 0
		for _, one := range replicas {
			if fields, _ := redis.StringMap(one, nil); fields["flags"] == "slave" && fields["master-link-status"] == "ok" {
				well++
			}
		}
		if well < 2 {
			return false
		}
	}
	return true
}

// TakeOver makes a sentinel replace the master, and returns immediately. The
// old one takes writes until a sentinel sees that it should be a replica.
func (s *Sentinels) TakeOver(tb testing.TB, _ *Server) {
	tb.Helper()
	s.Sentinels[0].Do(tb, "SENTINEL", "FAILOVER", SentinelName)
}

// CutReplication ends the links of the replicas, until RestoreReplication.
func (s *Sentinels) CutReplication(tb testing.TB, master *Server) {
	tb.Helper()
	CutReplication(tb, master, s.Replicas(master)...)
}

// RestoreReplication lets replicas connect again.
func (s *Sentinels) RestoreReplication(tb testing.TB) {
	tb.Helper()
	restoreReplication(tb, s.Servers)
}
