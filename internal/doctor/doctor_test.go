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

// On each server that lacks one thing, exactly that is found. Nothing of the
// doctor is left.
func TestOneThingIsWrong(t *testing.T) {
	t.Parallel()
	const good = "--appendonly"
	for name, tt := range map[string]struct {
		args  []string
		idle  int // connections of others
		setup [][]any
		want  map[string]Level
	}{
		"nothing":         {want: map[string]Level{}},
		"append-only":     {args: []string{good, "no"}, want: map[string]Level{"persistence": Warn}},
		"no fsync":        {args: []string{"--appendfsync", "no"}, want: map[string]Level{"persistence": Warn}},
		"no config":       {setup: [][]any{{"SETUSER", "default", "-config"}}, want: map[string]Level{}},
		"no queues":       {setup: [][]any{{"SETUSER", "default", "-hsetnx"}}, want: map[string]Level{}},
		"policy":          {args: []string{"--maxmemory-policy", "allkeys-lru"}, want: map[string]Level{"eviction": Warn}},
		"policy in use":   {args: []string{"--maxmemory-policy", "volatile-ttl", "--maxmemory", "100mb"}, want: map[string]Level{"eviction": Fail}},
		"few connections": {args: []string{"--maxclients", "50"}, idle: 39, want: map[string]Level{"connections": Warn}},
		"info":            {setup: [][]any{{"SETUSER", "default", "-info"}}, want: map[string]Level{"settings": Warn, "permissions": Warn}},
		"no time":         {setup: [][]any{{"SETUSER", "default", "-time"}}, want: map[string]Level{"clock": Warn, "permissions": Warn, "waiting": Warn}},
		"read/write":      {setup: [][]any{{"SETUSER", "default", "-zrevrangebyscore"}}, want: map[string]Level{"permissions": Warn}},
		"no inspection":   {setup: [][]any{{"SETUSER", "default", "-hgetall"}}, want: map[string]Level{"permissions": Warn}},
		"no locks":        {setup: [][]any{{"SETUSER", "default", "-set"}}, want: map[string]Level{"permissions": Fail, "lock": Fail, "waiting": Warn}},
		"no reentrance":   {setup: [][]any{{"SETUSER", "default", "-hdel"}}, want: map[string]Level{"permissions": Fail}},
		"other keys": {
			setup: [][]any{{"SETUSER", "default", "resetkeys", "~other:*"}},
			want:  map[string]Level{"round trip": Fail, "clock": Warn, "permissions": Fail, "lock": Fail, "waiting": Warn},
		},
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
			require.Equal(t, tt.want, bad(all), "%v", all)
			for _, f := range all {
				require.NotEmpty(t, f.Found)
				require.True(t, f.Level == OK || f.Remedy != "", "%v", f)
			}
			require.Empty(t, s.Do(t, "KEYS", "*"), "a key is left: %q", s.Do(t, "KEYS", "*"))
		})
	}
}

// A waiter without messages is found, and so is a holder that may not send any.
func TestMessagesAreMissing(t *testing.T) {
	t.Parallel()
	for missing, want := range map[string]map[string]Level{
		"-publish":      {"permissions": Warn, "waiting": Warn},
		"-subscribe":    {"waiting": Warn},
		"resetchannels": {"permissions": Warn, "waiting": Warn},
	} {
		t.Run(missing, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, "--appendonly", "yes")
			c := locktest.CloseLater(t)(relock.NewClient(s.Network, s.Address, ""))
			s.Do(t, "ACL", "SETUSER", "default", missing)
			all := Run(t.Context(), c, Options{Prefix: "relock:", Timeout: testkit.Patience, Poll: 2 * time.Second})
			require.Equal(t, want, bad(all), "%v", all)
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
		require.Equal(t, Fail, all[0].Level)
		require.Contains(t, all[0].Remedy, tt.remedy)
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
	for name, s := range map[string]*redistest.Server{"one master": cluster.Masters(t)[0], "replica": replica} {
		all := Run(t.Context(), locktest.CloseLater(t)(relock.NewClient(s.Network, s.Address, "")), patient)
		require.Len(t, all, 1, name)
		require.Equal(t, Fail, all[0].Level)
		require.Contains(t, all[0].Remedy, "Cluster")
	}
}
