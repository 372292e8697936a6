package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// doctorOf returns a doctor that has checked nothing yet.
func doctorOf(c *relock.Client) *doctor { return &doctor{Options: patient, client: c, key: "doctor/x"} }

// What a crash forgets depends on appendfsync, which only Run reads.
func TestAppendfsync(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnOwn(t)
	s.Do(t, "CONFIG", "SET", "appendonly", "yes")
	for value, want := range map[string]string{"always": "forgets no lock", "everysec": "second or two", "no": "30s"} {
		s.Do(t, "CONFIG", "SET", "appendfsync", value)
		d := doctorOf(c)
		d.server(t.Context())
		require.Contains(t, found(d.findings, "persistence")[0], "appendfsync "+value)
		require.Contains(t, found(d.findings, "persistence")[0], want)
	}
	before := locktest.Calls(t, s, "config|get")
	require.Contains(t, found(Look(t.Context(), c, testkit.Patience), "persistence")[0], "not known")
	require.Equal(t, before, locktest.Calls(t, s, "config|get"))
	s.Do(t, "ACL", "SETUSER", "default", "-config|get")
	d := doctorOf(c)
	d.server(t.Context())
	require.Contains(t, found(d.findings, "persistence")[0], "not known")
}

// A round trip is compared with the lease that locks have by default.
func TestRoundTripIsSlow(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, p := locktest.Behind(t, s)
	d := doctorOf(c)
	d.roundTrip(t.Context())
	require.Empty(t, bad(d.findings), "%v", d.findings)
	require.Contains(t, d.findings[0].Found, "the slowest of 20")

	late := func(times int) {
		for n := range times {
			p.On(faults.Command("EVALSHA"), n+1, faults.Delay(slow+100*time.Millisecond))
		}
	}
	late(1)
	d = doctorOf(c)
	d.roundTrip(t.Context())
	require.Empty(t, bad(d.findings), "one slow answer: %v", d.findings)

	late(2)
	d = doctorOf(c)
	d.roundTrip(t.Context())
	requireLines(t, []Finding{{"round trip", Warn, "the slowest of 2 ", "use longer leases"}}, d.findings)
	require.Contains(t, d.findings[0].Found, "renewed each 10s")
}

// WithReplicas needs the number of all replicas, and those must have copied the
// data.
func TestReplicas(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t, "--appendonly", "yes", "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0")
	c := locktest.CloseLater(t)(relock.NewClient(s.Network, s.Address, ""))
	check := func() Finding {
		d := doctorOf(c)
		d.server(t.Context())
		for _, f := range d.findings {
			if f.Check == "replicas" {
				return f
			}
		}
		return Finding{}
	}
	require.Equal(t, Finding{"replicas", OK, "none", "do not set WithReplicas: it would grant nothing"}, check())

	host, port, _ := strings.Cut(s.Address, ":")
	redistest.StartTCP(t).Do(t, "REPLICAOF", host, port)
	testkit.Eventually(t, testkit.Patience, func() bool { return check().Found == "1 online" },
		"the replica is not online")
	require.Equal(t, OK, check().Level)
	require.Contains(t, check().Remedy, "WithReplicas(n, timeout)")

	s.Do(t, "CONFIG", "SET", "repl-diskless-sync-delay", "3600") // the next replica gets no data
	conn := s.Dial(t)
	defer conn.Close() //nolint:errcheck // of a test
	require.NoError(t, conn.Send("SYNC"))
	require.NoError(t, conn.Flush())
	testkit.Eventually(t, testkit.Patience, func() bool { return check().Level == Warn },
		"a replica without data is not found")
	require.Equal(t, "2, but 1 are not online", check().Found)
	require.Contains(t, check().Remedy, "see their logs")
}

// A slot that is half moved is found, whichever of its masters is asked first.
// A master that has fewer replicas, or other settings, is found, too.
func TestClusterInTrouble(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 1, "--appendonly", "yes")
	c := locktest.ClusterClient(t, cluster)
	masters := cluster.Masters(t)
	check := func() []Finding {
		d := doctorOf(c)
		d.server(t.Context())
		return d.findings
	}
	testkit.Eventually(t, testkit.Patience, func() bool { return len(bad(check())) == 0 }, "it is not in order")
	require.Equal(t, []string{"none is half moved"}, found(check(), "slots"))
	require.Equal(t, []string{"1 online"}, found(check(), "replicas"))

	moves := []*redistest.Move{}
	for _, slot := range []int{5, 1, 4, 3, 2} {
		moves = append(moves, cluster.BeginMove(t, slot, masters[2]))
	}
	from, to := cluster.Master(t, 1).Address, masters[2].Address
	requireLines(t, []Finding{{"slots", Warn, "half moved: 1 from ", "end each move by CLUSTER SETSLOT"}}, check())
	const moved = "half moved: 1 from %[1]s to %[2]s, 2 from %[1]s to %[2]s, 3 from %[1]s to %[2]s, and 2 more"
	require.Equal(t, []string{fmt.Sprintf(moved, from, to)}, found(check(), "slots"))
	require.Equal(t, map[string]Level{"slots": Warn}, bad(Look(t.Context(), c, testkit.Patience)))
	cluster.DoAll(t, "ACL", "SETUSER", "default", "-cluster|nodes")
	require.Empty(t, bad(check()))
	require.Contains(t, found(check(), "slots")[0], "not known")
	cluster.DoAll(t, "ACL", "SETUSER", "default", "+cluster|nodes")
	for _, m := range moves[1:] {
		m.Finish(t)
	}
	masters[2].Do(t, "CLUSTER", "SETSLOT", 5, "STABLE") // only the source knows
	require.Equal(t, []string{fmt.Sprintf("half moved: 5 from %s to %s", from, to)}, found(check(), "slots"))
	masters[0].Do(t, "CLUSTER", "SETSLOT", 5, "STABLE")
	// only the target does
	masters[2].Do(t, "CLUSTER", "SETSLOT", 5, "IMPORTING", stringOf(t, masters[0], "CLUSTER", "MYID"))
	require.Equal(t, []string{fmt.Sprintf("half moved: 5 from %s to %s", from, to)}, found(check(), "slots"))
	masters[2].Do(t, "CLUSTER", "SETSLOT", 5, "STABLE")

	masters[1].Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	requireLines(t, []Finding{{"eviction", Warn, "1 of 3 masters: allkeys-lru", evicts}}, check())
}

func stringOf(t *testing.T, s *redistest.Server, command string, args ...any) string {
	t.Helper()
	text, err := redis.String(s.Do(t, command, args...), nil)
	require.NoError(t, err)
	return text
}

// A clock that is set meanwhile is found. One that only differs is no fault.
func TestClock(t *testing.T) {
	t.Parallel()
	s, clock := redistest.StartWithClock(t)
	c := locktest.CloseLater(t)(relock.NewClient(s.Network, s.Address, ""))
	for _, tt := range []struct {
		before, between time.Duration
		level           Level
		found, remedy   string
	}{
		{0, 0, OK, "agrees", "^$"},
		{time.Hour, 0, OK, "ahead by (1h0m|59m59)", "no lock depends on it"},
		{-2 * time.Hour, 0, OK, "ahead by -(1h0m|59m59)", "no lock depends on it"},
		{0, 10 * time.Second, Warn, "set by (10|9.9)", "be slewed, not set"},
		{0, -10 * time.Second, Warn, "set by -(10|9.9)", "be slewed, not set"},
	} {
		clock.Advance(t, tt.before)
		d := doctorOf(c)
		first := d.readClock(t.Context())
		clock.Advance(t, tt.between)
		d.clock(first, d.readClock(t.Context()))
		require.Equal(t, tt.level, d.findings[0].Level, "%v", d.findings)
		require.Regexp(t, tt.found, d.findings[0].Found)
		require.Regexp(t, tt.remedy, d.findings[0].Remedy)
	}
}
