package relock_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// What a user's pool does itself cannot be set beside it.
func TestPoolOptionsBesideAPool(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]relock.ClientOption{
		"WithMaxIdle":   relock.WithMaxIdle(10),
		"WithMaxActive": relock.WithMaxActive(0), "WithIdleTimeout": relock.WithIdleTimeout(time.Minute),
		"WithWaitMode": relock.WithWaitMode(),
		"WithUsername": relock.WithUsername(""), "WithDatabase": relock.WithDatabase(0),
		"WithTLS": relock.WithTLS(nil), "WithDialTimeout": relock.WithDialTimeout(time.Second),
		"WithDialer": relock.WithDialer(nil), "WithCredentials": relock.WithCredentials(nil),
	} {
		requireMistakes(t, second(relock.NewClientPool(undialled(), opt)), "new client", name, "pool")
	}
	var log locktest.LogBuffer
	locktest.CloseLater(t)(relock.NewClientPool(undialled(),
		relock.WithCommandTimeout(time.Second), relock.WithKeyPrefix("p:"), log.Option(),
		relock.WithBlock(), relock.WithExpiry(time.Second)))
}

func settingsOf(t testing.TB, c *relock.Client, opts ...relock.LockOption) lockspec.Spec {
	t.Helper()
	l := relock.NewReentrantLock("k", c, opts...)
	require.NoError(t, l.Validate())
	return relock.TargetOf(l).Settings
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t)
	config := *relock.ConfigOf(c)
	require.Equal(t, driver.Config{
		Network: config.Network, Address: config.Address, Password: config.Password,
		MaxIdle: 10, IdleTimeout: time.Minute, DialTimeout: 5 * time.Second, CommandTimeout: 3 * time.Second,
	}, config)
	require.Equal(t, "relock:", locktest.Prefix(c))
	require.False(t, locktest.Engine(c).Logger.Enabled(t.Context(), slog.LevelError))

	for _, tt := range []struct {
		opts        []relock.LockOption
		poll, lease time.Duration
		watched     bool
	}{
		{nil, 50 * time.Millisecond, 30 * time.Second, true},
		{
			[]relock.LockOption{relock.WithWatchdog(200 * time.Millisecond)},
			50 * time.Millisecond, 200 * time.Millisecond, true,
		},
		{
			[]relock.LockOption{relock.WithWatchdog(100 * time.Millisecond)},
			25 * time.Millisecond, 100 * time.Millisecond, true,
		},
		{
			[]relock.LockOption{relock.WithExpiry(10 * time.Millisecond)}, 2500 * time.Microsecond, 10 * time.Millisecond, false,
		},
	} {
		require.Equal(t, lockspec.Spec{Kind: lockspec.Reentrant, Poll: tt.poll, Lease: tt.lease, Watched: tt.watched},
			settingsOf(t, c, tt.opts...))
	}
}

func TestLockOptionBeatsDefault(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t, relock.WithBlockTimeout(time.Second), relock.WithPollInterval(40*time.Millisecond),
		relock.WithExpiry(8*time.Second), relock.WithMaxHold(time.Minute),
		relock.WithMinHold(time.Second), relock.WithLabel("default label"), relock.WithFencing(), relock.WithQueueLimit(7),
		relock.WithReplicas(2, time.Second))
	base := lockspec.Spec{
		Kind: lockspec.Reentrant, Block: true, BlockTimeout: time.Second, Poll: 40 * time.Millisecond, Lease: 8 * time.Second,
		MaxHold: time.Minute, MinHold: time.Second,
		Label: "default%20label", Fencing: true, QueueLimit: 7, Replicas: 2, ReplicaTimeout: time.Second,
	}
	type changed struct {
		opt relock.LockOption
		set func(*lockspec.Spec)
	}
	testkit.Each(t, map[string]changed{
		"nothing": {relock.WithFencing(), func(*lockspec.Spec) {}}, // as before
		"WithBlockTimeout": {
			relock.WithBlockTimeout(2 * time.Second), func(s *lockspec.Spec) { s.BlockTimeout = 2 * time.Second },
		},
		"WithBlock":        {relock.WithBlock(), func(s *lockspec.Spec) { s.BlockTimeout = 0 }}, // until ctx is cancelled
		"WithPollInterval": {relock.WithPollInterval(time.Second), func(s *lockspec.Spec) { s.Poll = time.Second }},
		"WithExpiry":       {relock.WithExpiry(4 * time.Second), func(s *lockspec.Spec) { s.Lease = 4 * time.Second }},
		"WithWatchdog": {
			relock.WithWatchdog(4 * time.Second), func(s *lockspec.Spec) { s.Lease, s.Watched = 4*time.Second, true },
		},
		"WithMaxHold": {relock.WithMaxHold(time.Hour), func(s *lockspec.Spec) { s.MaxHold = time.Hour }},
		"WithMinHold": {
			relock.WithMinHold(20 * time.Millisecond), func(s *lockspec.Spec) { s.MinHold = 20 * time.Millisecond },
		},
		"WithLabel":      {relock.WithLabel(""), func(s *lockspec.Spec) { s.Label = "" }},
		"WithQueueLimit": {relock.WithQueueLimit(8), func(s *lockspec.Spec) { s.QueueLimit = 8 }},
		"WithReplicas": {relock.WithReplicas(1, 500*time.Millisecond), func(s *lockspec.Spec) {
			s.Replicas, s.ReplicaTimeout = 1, 500*time.Millisecond
		}},
		"a lease that is short for the default " +
			"poll interval": {relock.WithExpiry(100 * time.Millisecond), func(s *lockspec.Spec) {
			s.Lease, s.Poll, s.ReplicaTimeout = 100*time.Millisecond, 25*time.Millisecond, 25*time.Millisecond
		}},
	}, func(t *testing.T, _ string, tt changed) {
		want := base
		tt.set(&want)
		require.Equal(t, want, settingsOf(t, c, tt.opt))
	})
	require.Equal(t, "b", settingsOf(t, c, relock.WithLabel("a"), relock.WithLabel("b")).Label, "the last one")
	s := settingsOf(t, locktest.Unconnected(t, relock.WithWatchdog(3*time.Second)), relock.WithExpiry(2*time.Second))
	require.Equal(t, 2*time.Second, s.Lease)
	require.False(t, s.Watched)
}

func TestOptionsThatContradict(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t)
	for _, tt := range []struct {
		a, b  relock.LockOption
		names []string
	}{
		{relock.WithExpiry(time.Second), relock.WithWatchdog(time.Second), []string{"WithExpiry", "WithWatchdog"}},
		{relock.WithMinHold(2 * time.Second), relock.WithMaxHold(time.Second), []string{"WithMaxHold"}},
		{relock.WithPollInterval(30*time.Second/4 + 1), relock.WithBlock(), []string{"WithPollInterval"}},
		{relock.WithPollInterval(26 * time.Millisecond), relock.WithExpiry(100 * time.Millisecond), []string{
			"WithPollInterval",
		}},
		{relock.WithWatchdog(100 * time.Millisecond), relock.WithPollInterval(26 * time.Millisecond), []string{
			"WithPollInterval",
		}},
	} {
		requireMistakes(t, relock.NewRedisLock("k", c, tt.a, tt.b).Validate(), "validate", tt.names...)
		requireMistakes(t, relock.NewReentrantLock("k", c, tt.a, tt.b).Lock(t.Context()), "lock", tt.names...)
		if tt.names[0] != "WithPollInterval" { // the lease may be another one of each lock
			requireMistakes(t, second(relock.NewClient("tcp", "localhost:6379", "", tt.a, tt.b)), "new client", tt.names...)
		}
	}
	require.NoError(t, relock.NewRedisLock("k", c, relock.WithPollInterval(25*time.Millisecond), relock.WithExpiry(100*
		time.Millisecond)).Validate())
	require.NoError(t, relock.NewRedisLock("k", c, relock.WithPollInterval(30*time.Second/4)).Validate())
}

func TestURL(t *testing.T) {
	t.Parallel()
	type meaning struct {
		password string
		want     driver.Config
	}
	testkit.Each(t, map[string]meaning{
		"redis://localhost":   {"", driver.Config{Network: "tcp", Address: "localhost:6379"}},
		"redis://":            {"", driver.Config{Network: "tcp", Address: "localhost:6379"}},
		"redis://:7000":       {"", driver.Config{Network: "tcp", Address: "localhost:7000"}},
		"redis://h:7000/":     {"", driver.Config{Network: "tcp", Address: "h:7000"}},
		"redis://h/4":         {"", driver.Config{Network: "tcp", Address: "h:6379", Database: 4}},
		"redis://h?db=4":      {"", driver.Config{Network: "tcp", Address: "h:6379", Database: 4}},
		"redis://:pw@h:1":     {"pw", driver.Config{Network: "tcp", Address: "h:1"}},
		"redis://me:pw@h:1/2": {"pw", driver.Config{Network: "tcp", Address: "h:1", Username: "me", Database: 2}},
		"redis://me:p%40%2F%3A%3F%23%25%20w@h:1/2": {
			"p@/:?#% w", driver.Config{Network: "tcp", Address: "h:1", Username: "me", Database: 2},
		},
		"rediss://h":                  {"", driver.Config{Network: "tcp", Address: "h:6379", UseTLS: true}},
		"REDISS://h":                  {"", driver.Config{Network: "tcp", Address: "h:6379", UseTLS: true}},
		"redis://[::1]:7000/1":        {"", driver.Config{Network: "tcp", Address: "[::1]:7000", Database: 1}},
		"redis://[::1]":               {"", driver.Config{Network: "tcp", Address: "[::1]:6379"}},
		"unix:///run/redis.sock":      {"", driver.Config{Network: "unix", Address: "/run/redis.sock"}},
		"unix:///run/redis.sock?db=9": {"", driver.Config{Network: "unix", Address: "/run/redis.sock", Database: 9}},
		"unix://me:pw@/run/redis%20it.sock": {
			"pw", driver.Config{Network: "unix", Address: "/run/redis it.sock", Username: "me"},
		},
	}, func(t *testing.T, rawURL string, tt meaning) {
		got := *relock.ConfigOf(locktest.CloseLater(t)(relock.NewClientURL(rawURL)))
		require.Equal(t, tt.password, *got.Password)
		got.Password, got.MaxIdle, got.IdleTimeout, got.DialTimeout, got.CommandTimeout = nil, 0, 0, 0, 0
		require.Equal(t, tt.want, got)
	})
}

func TestURLMistakes(t *testing.T) {
	t.Parallel()
	for want, urls := range map[string][]string{
		"scheme":    {"", "localhost:6379", "http://localhost", "redis+tls://localhost", "//localhost"},
		"scheme://": {"redis:localhost"},
		"URL":       {"redis://h/0#part", "redis://h:port", "unix:run/redis.sock", "\x7f", "redis://h/%zz"},
		"database": {
			"redis://h/first", "redis://h/-1", "redis://h/1/2", "redis://h/1.5", "redis://h/99999999999999999999",
			"redis://h?db=x", "redis://h/1?db=2", "redis://h?db=1&db=2",
		},
		"timeout":   {"redis://h?timeout=5s"},
		"DB":        {"redis://h?DB=1"},
		"parameter": {"redis://h?%zz"},
		"port":      {"redis://h:0", "redis://h:99999"},
		"password":  {"redis://me@h", "redis://@h"},
		"unix":      {"unix://run/redis.sock"},
		"address":   {"unix://"},
	} {
		for _, rawURL := range urls {
			requireMistakes(t, second(relock.NewClientURL(rawURL)), "new client", want)
		}
	}
}

// No error shows a password, also if the text with it is no URL, or not the one
// that its author meant.
func TestURLMistakesHideThePassword(t *testing.T) {
	t.Parallel()
	urls := []string{"hunter2:@127.0.0.1:1", "hunter2://127.0.0.1:1"} // before the first colon is the scheme
	schemes := []string{"redis", "rediss", "unix", "http", "", "re dis", "redis\n"}
	for _, scheme := range schemes {
		for _, rest := range []string{
			"://:hunter2@127.0.0.1:1/x", "://me:hunter2@127.0.0.1:1/x", "://hunter2@127.0.0.1:1/x", "://hunter2:@127.0.0.1:1",
			":hunter2@127.0.0.1:1",
			":/me:hunter2@127.0.0.1:1", "://me:hunter2@127.0.0.1:port", "://me:hunter2@127.0.0.1:1:2", "://me:hunter2@[::1",
			"://me:hunter2%@127.0.0.1:1",
			"://me:hunter2@127.0.0.1:1?x=%zz", "://me:hunter2@127.0.0.1:1#x", "://127.0.0.1:1?password=hunter2",
			"://127.0.0.1:1?db=hunter2",
			"://127.0.0.1:1/hunter2", "://127.0.0.1:1#hunter2", "://me:hunter2@/x?y", "://me:hunter2@\x00",
			"://me:hunter2@127.0.0.1:1/\x7f", "://me:\nhunter2@h",
		} {
			urls = append(urls, scheme+rest)
		}
	}
	for _, scheme := range schemes {
		for c := range rune(128) { // that its author forgot to escape: before the secret, after it, and after a number
			for _, user := range []string{"", "me", "12"} {
				for _, password := range []string{
					":99999" + string(c) + secret, ":" + string(c) + secret, ":" + secret + string(c),
					":12" + string(c) + secret, ":12" + string(c) + secret + "&a=" + secret,
				} {
					urls = append(urls, scheme+"://"+user+password+"@127.0.0.1:1/0")
				}
			}
		}
	}
	for _, rawURL := range urls {
		c, err := relock.NewClientURL(rawURL, relock.WithDialTimeout(time.Second))
		if err == nil {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
				require.NotContains(t, fmt.Sprintf(verb, c)+fmt.Sprintf(verb, relock.NewRedisLock("k", c)), secret, rawURL)
			}
			require.NoError(t, c.Close())
			continue
		}
		require.NotRegexp(t, secret+"|99999|\n", err.Error(), rawURL)
		require.ErrorIs(t, err, relock.ErrInvalid, rawURL)
	}
}

// The same for a URL that was given where an address belongs.
func TestAddressMistakesHideThePassword(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"redis://:hunter2@127.0.0.1:1", "me:hunter2@127.0.0.1:1", "redis://me:hunter2@127.0.0.1", "hunter2@127.0.0.1:x",
	} {
		_, err := relock.NewClient("tcp", address, "hunter2", relock.WithMaxIdle(-1))
		requireMistakes(t, err, "new client", "address")
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := relock.NewClient("hunter2", "redis://me:hunter2@127.0.0.1", "hunter2",
		relock.WithUsername("me"), relock.WithDatabase(-1))
	requireMistakes(t, err, "new client", "network", "WithDatabase")
	require.NotContains(t, err.Error(), ":hunter2@")
}

// There is one way to log in.
func TestCredentialsBesideAPassword(t *testing.T) {
	t.Parallel()
	opt := relock.WithCredentials(func(context.Context) (user, password string, err error) { return "", "", nil })
	for _, err := range []error{
		second(relock.NewClient("tcp", "localhost:6379", "password", opt)),
		second(relock.NewClient("tcp", "localhost:6379", "", opt, relock.WithUsername("app"))),
		second(relock.NewClientURL("redis://app:password@localhost", opt)),
	} {
		requireMistakes(t, err, "new client", "WithCredentials: a user or password is given, too")
	}
	requireMistakes(t, second(relock.NewClient("tcp", "localhost:6379", "", relock.WithCredentials(nil))), "new client",
		"WithCredentials: is nil")
}
