package relock_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestSentinelMistakes(t *testing.T) {
	t.Parallel()
	three := []string{"h1:26379", "h2:26379"}
	for _, tt := range []struct {
		master    string
		sentinels []string
		opts      []relock.ClientOption
		names     []string
	}{
		{"", nil, nil, []string{"master: the name is empty", "sentinels: none is given"}},
		{"m", []string{"h1:26379", "h2", "", "h:0"}, nil, []string{
			"sentinels[1]: address", "sentinels[2]: address: is empty", "sentinels[3]: address",
		}},
		{"m", three, []relock.ClientOption{relock.WithSentinelLogin("", "")}, []string{
			"WithSentinelLogin: the password is empty",
		}},
		{"m", three, []relock.ClientOption{relock.WithAddressMap(nil)}, []string{"WithAddressMap: is nil"}},
		{"m", three, []relock.ClientOption{relock.WithUsername("app")}, []string{"WithUsername: needs a password"}},
		{"m", three, []relock.ClientOption{relock.WithMaxIdle(-1), nil}, []string{"WithMaxIdle", "opts[1]"}},
	} {
		requireMistakes(t, second(relock.NewClientSentinel(tt.master, tt.sentinels, "", tt.opts...)),
			"new client", tt.names...)
	}
}

// What only sentinels can use is refused without them.
func TestSentinelOptionsWithoutSentinels(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]relock.ClientOption{
		"WithSentinelLogin: needs NewClientSentinel": relock.WithSentinelLogin("watch", "password"),
		"WithAddressMap: needs NewClientSentinel or NewClientCluster": relock.WithAddressMap(func(address string) string {
			return address
		}),
	} {
		requireMistakes(t, second(relock.NewClient("tcp", "h:1", "", opt)), "new client", name)
		requireMistakes(t, second(relock.NewClientURL("redis://h", opt)), "new client", name)
		requireMistakes(t, second(locktest.NewRoutedClient(oneServer(&redistest.Server{}), opt)), "new client", name)
	}
}

func TestSentinelURLMistakes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, map[string]string{
		"redis+sentinel://h1,h2":                     "master",
		"redis+sentinel://h1/":                       "master",
		"redis+sentinel://h1/%zz":                    "master",
		"redis+sentinel://h1/m/first":                "database",
		"redis+sentinel://h1/m/1/2":                  "database",
		"redis+sentinel://h1/m/1?db=2":               "database",
		"redis+sentinel://h1/m?sentinels=3":          "sentinels",
		"redis+sentinel://h1:x,h2/m":                 "sentinel",
		"redis+sentinel://h1,h2:1:2/m":               "sentinel",
		"redis+sentinel://h1:0/m":                    "sentinels[0]",
		"redis+sentinel://h1,/m":                     "",
		"redis+sentinel://me@h1/m":                   "password",
		"redis+sentinel:h1/m":                        "scheme",
		"sentinel://h1/m":                            "scheme",
		"http+sentinel://h1/m":                       "scheme",
		"redis+sentinel://me:hunter2/x@h1/m":         "URL",
		"redis+sentinel://12:26379/hunter2@h1/m":     "URL",
		"redis+sentinel://me:hunter2\x7f@h1/m":       "URL",
		"redis+sentinel://me:hunter2@h1/m#hunter2":   "URL",
		"redis+sentinel://me:hunter2,x@h1:99999/m":   "sentinels[0]",
		"rediss+sentinel://me:hunter2@h1/m?hunter2@": "parameter",
	}, requireURL)
}

// requireURL checks what is wrong with a URL, or that nothing is. No error has
// the password.
func requireURL(t *testing.T, rawURL, wrong string) {
	t.Helper()
	c, err := relock.NewClientURL(rawURL)
	if wrong == "" {
		require.NoError(t, err, rawURL)
		require.NoError(t, c.Close())
		return
	}
	requireMistakes(t, err, "new client", wrong)
	require.NotContains(t, err.Error(), secret)
}

// A URL of sentinels connects to the master, with user, password and database.
func TestSentinelURLConnects(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, 20*time.Second)
	s.Servers[0].Do(t, "ACL", "SETUSER", "app", "on", ">p,w/@", "~*", "&*", "+@all")
	hosts := s.Sentinels[0].Address + "," + s.Sentinels[1].Address
	for i, rawURL := range []string{
		"redis+sentinel://" + hosts + "/" + redistest.SentinelName,
		"REDIS+Sentinel://app:p%2Cw%2F%40@" + hosts + "/%6Frders/3",
		"redis+sentinel://" + hosts + "/orders?db=3",
	} {
		c := locktest.CloseLater(t)(relock.NewClientURL(rawURL))
		require.NoError(t, c.Ping(t.Context()))
		require.NoError(t, relock.NewRedisLock(fmt.Sprint("k", i), c).Lock(t.Context()))
	}
	require.Contains(t, string(s.Servers[0].Do(t, "INFO", "keyspace").([]byte)), "db3:keys=2")
}

// Neither a client nor an error shows a password, if it is right or wrong.
func TestSentinelHidesSecrets(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, 20*time.Second)
	for _, c := range []*relock.Client{
		locktest.SentinelClient(t, s, relock.WithSentinelLogin("watch", secret)),
		locktest.SentinelClient(t, s,
			relock.WithCredentials(func(context.Context) (user, password string, err error) { return "app", secret, nil })),
	} {
		err := c.Ping(t.Context())
		require.ErrorIs(t, err, relock.ErrDenied)
		copied := reflect.ValueOf(c).Elem().Interface() // which vet lets pass
		for _, v := range []any{c, copied, err, relock.NewRedisLock("k", c)} {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
				require.NotContains(t, fmt.Sprintf(verb, v), secret)
				require.NotContains(t, fmt.Sprintf(verb, v), hex.EncodeToString([]byte(secret)))
			}
		}
	}
}

// Whatever a URL of sentinels is, it is a client or ErrInvalid. It has no host
// that cannot be connected to.
func FuzzSentinelURL(f *testing.F) {
	for _, rest := range []string{
		"h1,h2:1/m/3", "me:p@[::1]:1,h/m?db=2", "a@b@c/%41", "h1:1:2/m", ",/m", "/m", "h?db=1#x", "[h]:1/m",
	} {
		f.Add(rest)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		c, err := relock.NewClientURL("redis+sentinel://" + rest)
		if err != nil {
			require.ErrorIs(t, err, relock.ErrInvalid)
			return
		}
		require.NoError(t, c.Close())
	})
}

func TestClusterMistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		addresses []string
		opts      []relock.ClientOption
		names     []string
	}{
		{nil, nil, []string{"addresses: none is given"}},
		{[]string{"h1:6379", "h2", "", "h:0"}, nil, []string{
			"addresses[1]: address", "addresses[2]: address: is empty", "addresses[3]: address",
		}},
		{[]string{"h1:6379"}, []relock.ClientOption{relock.WithSentinelLogin("", "p")}, []string{
			"WithSentinelLogin: needs NewClientSentinel",
		}},
		{[]string{"h1:6379"}, []relock.ClientOption{relock.WithAddressMap(nil)}, []string{"WithAddressMap: is nil"}},
		{[]string{"h1:6379"}, []relock.ClientOption{relock.WithDatabase(1), nil}, []string{
			"database: a Cluster has only 0", "opts[1]",
		}},
		{[]string{"h1:6379"}, []relock.ClientOption{relock.WithDatabase(-1)}, []string{"WithDatabase: -1 is negative"}},
	} {
		requireMistakes(t, second(relock.NewClientCluster(tt.addresses, "", tt.opts...)), "new client", tt.names...)
	}
	for _, scheme := range []string{"redis", "rediss", "valkey", "valkeys"} {
		for rest, want := range map[string]string{
			"h1,[::1]:1":            "",
			"h1,/0":                 "",
			"h1/?db=0":              "",
			":p%2Cw%2F%40@h1":       "",
			"h1/1":                  "database: a Cluster has only 0",
			"h1?db=1":               "database: a Cluster has only 0",
			"h1/first":              "database",
			"h1/0?db=0":             "more than one database",
			"h1:x,h2":               "a server is not host:port",
			"h1:0":                  "addresses[0]",
			"h1?read_only=1":        "read_only",
			"me@h1":                 "password",
			"me:hunter2/x@h1":       "URL",
			"me:hunter2@h1#hunter2": "URL",
			"me:hunter2,x@h1:99999": "addresses[0]",
		} {
			requireURL(t, scheme+"+cluster://"+rest, want)
		}
	}
	for _, rawURL := range []string{
		"redis+cluster:h1", "redis+clusters://h1", "http+cluster://h1", "valkey+unix://h1", "valkeyss://h1", "redis+cluster",
	} {
		requireMistakes(t, second(relock.NewClientURL(rawURL)), "new client", "scheme")
	}
}

// The URLs of Valkey are those of Redis.
func TestValkeyURLs(t *testing.T) {
	t.Parallel()
	for _, names := range [][2]string{{"redis", "valkey"}, {"rediss", "valkeys"}} {
		for _, rest := range []string{"://me:p@h:1/3", "+sentinel://me:p@h:1,h2/m/3", "+cluster://me:p@h:1,h2"} {
			a := *relock.ConfigOf(locktest.CloseLater(t)(relock.NewClientURL(names[0] + rest)))
			b := *relock.ConfigOf(locktest.CloseLater(t)(relock.NewClientURL(names[1] + rest)))
			require.Equal(t, a, b)
			require.Equal(t, names[0] == "rediss", a.UseTLS)
		}
	}
}

// A URL of a Cluster connects to it, with user and password. Locks are at the
// masters of their slots, whichever server was given.
func TestClusterURLConnects(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 2, 0)
	s.DoAll(t, "ACL", "SETUSER", "app", "on", ">p,w/@", "~*", "&*", "+@all")
	for i, rawURL := range []string{
		"redis+cluster://" + s.Servers[0].Address, "valkey+cluster://app:p%2Cw%2F%40@" + s.Servers[1].Address + ",h:1",
		"Redis+Cluster://" + s.Servers[1].Address + "/0",
	} {
		c := locktest.CloseLater(t)(relock.NewClientURL(rawURL))
		require.NoError(t, c.Ping(t.Context()))
		for j := range 10 {
			h := locktest.Take(t, relock.NewRedisLock(fmt.Sprint("k", i, j), c).Acquire)
			key := "relock:{" + h.Key() + "}"
			require.EqualValues(t, 1, s.MasterOf(t, key).Do(t, "EXISTS", key))
			require.NoError(t, h.Unlock(t.Context()))
		}
	}
}

// A client of one server that is part of a Cluster finds out by Ping: it
// returns an error if the server lacks keys, and warns once otherwise. If the
// server may not be asked, nothing is known.
func TestPingOfAServerInACluster(t *testing.T) {
	t.Parallel()
	s := redistest.StartCluster(t, 2, 0)
	one := redistest.StartCluster(t, 1, 0).Servers[0]
	var log strings.Builder
	logger := relock.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))
	client := func(s *redistest.Server) *relock.Client {
		return locktest.CloseLater(t)(relock.NewClient("tcp", s.Address, "", logger))
	}
	c := client(s.Servers[0])
	for range 2 {
		err := c.Ping(t.Context())
		require.ErrorIs(t, err, relock.ErrInvalid)
		require.ErrorContains(t, err, "the server is part of a Cluster of 2 masters, use NewClientCluster")
	}
	require.Empty(t, log.String())
	c = client(one)
	for range 3 {
		require.NoError(t, c.Ping(t.Context()))
	}
	require.Equal(t, 1,
		strings.Count(log.String(), "the server is part of a Cluster, follow its failovers with NewClientCluster"))
	log.Reset()
	s.DoAll(t, "ACL", "SETUSER", "default", "-cluster|info")
	require.NoError(t, client(s.Servers[0]).Ping(t.Context()))
	alone := redistest.StartTCP(t)
	c = client(alone)
	for range 3 {
		require.NoError(t, c.Ping(t.Context()))
	}
	require.Empty(t, log.String())
	require.Equal(t, 1, locktest.Calls(t, alone, "cluster|info"), "it was answered")
}

// Whatever a URL of a Cluster is, it is a client or ErrInvalid.
func FuzzClusterURL(f *testing.F) {
	for _, rest := range []string{
		"h1,h2:1", "me:p@[::1]:1,h/0?db=0", "a@b@c/%41", "h1:1:2", ",", "/", "h?db=1#x", "[h]:1/1",
	} {
		f.Add("redis", rest)
		f.Add("valkeys", rest)
	}
	f.Fuzz(func(t *testing.T, scheme, rest string) {
		c, err := relock.NewClientURL(scheme + "+cluster://" + rest)
		if err != nil {
			require.ErrorIs(t, err, relock.ErrInvalid)
			return
		}
		require.NoError(t, c.Close())
	})
}
