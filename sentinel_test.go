package relock_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
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
		{"m", []string{"h1:26379", "h2", "", "h:0"}, nil, []string{"sentinels[1]: address", "sentinels[2]: address: is empty", "sentinels[3]: address"}},
		{"m", three, []relock.ClientOption{relock.WithSentinelLogin("", "")}, []string{"WithSentinelLogin: the password is empty"}},
		{"m", three, []relock.ClientOption{relock.WithAddressMap(nil)}, []string{"WithAddressMap: is nil"}},
		{"m", three, []relock.ClientOption{relock.WithUsername("app")}, []string{"WithUsername: needs a password"}},
		{"m", three, []relock.ClientOption{relock.WithMaxIdle(-1), nil}, []string{"WithMaxIdle", "opts[1]"}},
	} {
		requireMistakes(t, second(relock.NewClientSentinel(tt.master, tt.sentinels, "", tt.opts...)), "new client", tt.names...)
	}
}

// What only sentinels can use is refused without them.
func TestSentinelOptionsWithoutSentinels(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]relock.ClientOption{
		"WithSentinelLogin: needs NewClientSentinel": relock.WithSentinelLogin("watch", "password"),
		"WithAddressMap: needs NewClientSentinel":    relock.WithAddressMap(func(address string) string { return address }),
	} {
		requireMistakes(t, second(relock.NewClient("tcp", "h:1", "", opt)), "new client", name)
		requireMistakes(t, second(relock.NewClientURL("redis://h", opt)), "new client", name)
		requireMistakes(t, second(relock.NewClientTopology(oneServer(&redistest.Server{}), opt)), "new client", name)
	}
}

func TestSentinelURLMistakes(t *testing.T) {
	t.Parallel()
	for rawURL, want := range map[string]string{
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
	} {
		t.Run(rawURL, func(t *testing.T) {
			c, err := relock.NewClientURL(rawURL)
			if want == "" {
				require.NoError(t, err)
				require.NoError(t, c.Close())
				return
			}
			requireMistakes(t, err, "new client", want)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
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
		c, err := relock.NewClientURL(rawURL)
		require.NoError(t, err)
		require.NoError(t, c.Ping(t.Context()))
		require.NoError(t, relock.NewRedisLock(fmt.Sprint("k", i), c).Lock(t.Context()))
		require.NoError(t, c.Close())
	}
	require.Contains(t, string(s.Servers[0].Do(t, "INFO", "keyspace").([]byte)), "db3:keys=2")
}

// Neither a client nor an error shows a password, if it is right or wrong.
func TestSentinelHidesSecrets(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	s := redistest.StartSentinels(t, 20*time.Second)
	for _, c := range []*relock.Client{
		locktest.SentinelClient(t, s, relock.WithSentinelLogin("watch", secret)),
		locktest.SentinelClient(t, s, relock.WithCredentials(func(context.Context) (user, password string, err error) { return "app", secret, nil })),
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
	for _, rest := range []string{"h1,h2:1/m/3", "me:p@[::1]:1,h/m?db=2", "a@b@c/%41", "h1:1:2/m", ",/m", "/m", "h?db=1#x", "[h]:1/m"} {
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
