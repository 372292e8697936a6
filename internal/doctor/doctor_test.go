package doctor

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestMain(m *testing.M) {
	redistest.Overlap()
	goleak.VerifyTestMain(m)
}

// patient takes only a message for one.
var patient = Options{Prefix: "relock:", Timeout: testkit.Patience, Poll: 2 * testkit.Patience}

// bad returns the findings that are not ok, by their checks.
func bad(all []Finding) map[string]Level {
	levels := map[string]Level{}
	for _, f := range all {
		if f.Level != OK {
			levels[f.Check] = f.Level
		}
	}
	return levels
}

// found returns what was found by a check.
func found(all []Finding, check string) (texts []string) {
	for _, f := range all {
		if f.Check == check {
			texts = append(texts, f.Found)
		}
	}
	return texts
}

// requireLines requires that these lines are not ok, in this order, with texts
// and remedies that contain the given ones.
func requireLines(t *testing.T, want, all []Finding) {
	t.Helper()
	var got []Finding
	for _, f := range all {
		if f.Level != OK {
			got = append(got, f)
		}
	}
	require.Len(t, got, len(want), "%v", all)
	for n, w := range want {
		require.Equal(t, w.Check, got[n].Check)
		require.Equal(t, w.Level, got[n].Level, "%v", got[n])
		require.Contains(t, got[n].Found, w.Found)
		require.Contains(t, got[n].Remedy, w.Remedy)
	}
}

// The remedies of what most rows of a table lack.
const (
	grants = "docs/operations.md has all commands"
	evicts = "set maxmemory-policy noeviction"
)

// On each server that lacks one thing, exactly that is found, with what to do.
// Nothing of the doctor is left.
func TestOneThingIsWrong(t *testing.T) {
	t.Parallel()
	const good = "--appendonly"
	without := func(rules ...any) [][]any { return [][]any{append([]any{"SETUSER", "default"}, rules...)} }
	for name, tt := range map[string]struct {
		args  []string
		idle  int // connections of others
		setup [][]any
		want  []Finding
	}{
		"nothing":   {},
		"no config": {setup: without("-config")},
		"no queues": {setup: without("-hsetnx")},
		"append-only": {args: []string{good, "no"}, want: []Finding{
			{"persistence", Warn, "a restart of the server forgets", "set appendonly yes"},
		}},
		"no fsync": {args: []string{"--appendfsync", "no"}, want: []Finding{
			{"persistence", Warn, "appendfsync no", "set appendfsync everysec"},
		}},
		"policy": {args: []string{"--maxmemory-policy", "allkeys-lru"}, want: []Finding{
			{"eviction", Warn, "allkeys-lru drops locks once", evicts},
		}},
		"few connections": {args: []string{"--maxclients", "50"}, idle: 39, want: []Finding{
			{"connections", Warn, "of at most 50", "raise maxclients"},
		}},
		"policy in use": {
			args: []string{"--maxmemory-policy", "volatile-ttl", "--maxmemory", "100mb"},
			want: []Finding{{"eviction", Fail, "volatile-ttl drops locks when memory is full; 0 keys", evicts}},
		},
		"info": {setup: without("-info"), want: []Finding{
			{"settings", Warn, "permission", "give the user +info"}, {"permissions", Warn, "RedLock lack +info", grants},
		}},
		"no time": {setup: without("-time"), want: []Finding{
			{"permissions", Warn, "waiting lack +time", grants},
			{"permissions", Warn, "inspection lack +time", grants},
			{"waiting", Warn, "unknown: ", permissions},
			{"clock", Warn, "unknown: ", "give the user +time"},
		}},
		"read/write": {setup: without("-zrevrangebyscore"), want: []Finding{
			{"permissions", Warn, "read/write locks and semaphores lack +zrevrangebyscore", grants},
		}},
		"no inspection": {
			setup: without("-hgetall"), want: []Finding{{"permissions", Warn, "inspection lack +hgetall", grants}},
		},
		"no reentrance": {setup: without("-hdel"), want: []Finding{{"permissions", Fail, "plain locks lack +hdel", grants}}},
		"no locks": {setup: without("-set"), want: []Finding{
			{"permissions", Fail, "plain locks lack +set", grants},
			{"lock", Fail, "permission", "what the server refuses"},
			{"waiting", Warn, "unknown: ", permissions},
		}},
		"other keys": {setup: without("resetkeys", "~other:*"), want: []Finding{
			{"round trip", Fail, "permission", permissions},
			{"permissions", Fail, "permission", "the keys ~relock:*"},
			{"lock", Fail, "permission", "what the server refuses"},
			{"waiting", Warn, "unknown: ", permissions},
			{"clock", Warn, "unknown: ", "give the user +time"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, append([]string{good, "yes"}, tt.args...)...)
			c := locktest.CloseLater(t)(relock.NewClient(s.Network, s.Address, ""))
			for range tt.idle {
				conn := s.Dial(t)
				defer conn.Close() //nolint:errcheck // of a test
			}
			for _, args := range tt.setup {
				s.Do(t, "ACL", args...)
			}
			all := Run(t.Context(), c, patient)
			requireLines(t, tt.want, all)
			for _, f := range all {
				require.NotEmpty(t, f.Found)
			}
			require.Empty(t, s.Do(t, "KEYS", "*"), "a key is left: %q", s.Do(t, "KEYS", "*"))
		})
	}
}

// A waiter without messages is found, and so is a holder that may not send any.
func TestMessagesAreMissing(t *testing.T) {
	t.Parallel()
	lacks := Finding{"permissions", Warn, "waiting lack +publish", grants}
	polls := Finding{"waiting", Warn, "got no message of a release", permissions}
	for missing, want := range map[string][]Finding{
		"-publish": {lacks, polls}, "-subscribe": {polls}, "resetchannels": {lacks, polls},
	} {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, "--appendonly", "yes")
			c := locktest.CloseLater(t)(relock.NewClient(s.Network, s.Address, ""))
			s.Do(t, "ACL", "SETUSER", "default", missing)
			all := Run(t.Context(), c, Options{Prefix: "relock:", Timeout: testkit.Patience, Poll: 2 * time.Second})
			requireLines(t, want, all)
		})
	}
}

// The user of the documentation may do all that is tried.
func TestDocumentedPermissions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	s := redistest.Start(t, "--appendonly", "yes")
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 3 && words[0] == "ACL" {
			args := []any{}
			for _, word := range words[1:] {
				args = append(args, word)
			}
			s.Do(t, "ACL", args...)
		}
	}
	c := locktest.CloseLater(t)(relock.NewClient(s.Network, s.Address, "password", relock.WithUsername("app")))
	all := Run(t.Context(), c, patient)
	require.Equal(t, []string{
		"read/write locks and semaphores lack +zrangebyscore +zrevrangebyscore +zcount +zremrangebyscore",
		"several keys lack +mget", "RedLock lack +info", "inspection lack +hgetall",
	}, found(all, "permissions"), "%v", all)
	require.Equal(t, []string{"queues lack +hsetnx +hlen +hscan +hstrlen +zrangebyscore +zcount"},
		found(all, "permissions of queues"))
	require.Equal(t, map[string]Level{"permissions": Warn, "settings": Warn}, bad(all), "%v", all)
}

// The commands of queues are those of their documentation.
func TestPermissionsOfQueues(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/queue.md")
	require.NoError(t, err)
	want := regexp.MustCompile(`\+\w+`).FindAllString(string(text), -1)
	var got []string
	for _, name := range append(strings.Fields(queues), "eval", "evalsha", "subscribe") {
		got = append(got, "+"+name)
	}
	require.ElementsMatch(t, want, got)
	for _, name := range strings.Fields(queues) {
		require.True(t,
			slices.ContainsFunc(attempts, func(a string) bool { return a == name || strings.HasPrefix(a, name+":") }), name)
	}
}

// A server that does not answer, or refuses the login, ends the checks.
func TestServerIsAway(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "right")
	p := faults.Start(t, s.Network, s.Address)
	for name, tt := range map[string]struct {
		password string
		before   func()
		remedy   string
	}{
		"login": {"secret", func() {}, "password"},
		"away":  {"right", p.Refuse, "address"},
	} {
		tt.before()
		c := locktest.CloseLater(t)(relock.NewClient(p.Network, p.Address, tt.password))
		all := Run(t.Context(), c, patient)
		p.Accept()
		require.Len(t, all, 1, name)
		requireLines(t, []Finding{{"server", Fail, "", tt.remedy}}, all)
		require.NotContains(t, all[0].Found, "secret")
	}
}

// On a Cluster all works. A client of one of its masters, or of a replica, has
// one finding, and nothing more is tried.
func TestRoleOfTheServer(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, "--appendonly", "yes")
	all := Run(t.Context(), locktest.ClusterClient(t, cluster), patient)
	require.Empty(t, bad(all), "%v", all)
	require.Empty(t, bad(Look(t.Context(), locktest.ClusterClient(t, cluster), testkit.Patience)), "without a key")

	replica := redistest.StartTCP(t)
	replica.Do(t, "REPLICAOF", "127.0.0.1", "1")
	for found, s := range map[string]*redistest.Server{"Cluster": cluster.Masters(t)[0], "replica": replica} {
		all := Run(t.Context(), locktest.CloseLater(t)(relock.NewClient(s.Network, s.Address, "")), patient)
		require.Len(t, all, 1, found)
		requireLines(t, []Finding{{"server", Fail, found, "connect to the master, by Sentinels or as a Cluster"}}, all)
	}
}
