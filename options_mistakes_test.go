package relock_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
)

// mistaken is an option with a mistake, and the name that the error must have.
type mistaken[O any] struct {
	name string
	opt  O
}

// clientMistakes are all those that a client's options can have.
func clientMistakes() []mistaken[relock.ClientOption] {
	all := []mistaken[relock.ClientOption]{
		{"WithMaxIdle", relock.WithMaxIdle(-1)},
		{"WithMaxActive", relock.WithMaxActive(-1)},
		{"WithIdleTimeout", relock.WithIdleTimeout(0)},
		{"WithIdleTimeout", relock.WithIdleTimeout(-time.Second)},
		{"WithUsername", relock.WithUsername("me")}, // without a password
		{"WithDatabase", relock.WithDatabase(-1)},
		{"WithDialTimeout", relock.WithDialTimeout(0)},
		{"WithDialTimeout", relock.WithDialTimeout(-1)},
		{"WithCommandTimeout", relock.WithCommandTimeout(0)},
		{"WithCommandTimeout", relock.WithCommandTimeout(-1)},
		{"WithKeyPrefix", relock.WithKeyPrefix("app{1")},
		{"WithKeyPrefix", relock.WithKeyPrefix("app}")},
		{"WithKeyPrefix", relock.WithKeyPrefix(strings.Repeat("x", lockspec.MaxKey+1))},
		{"WithLogger", relock.WithLogger(nil)},
	}
	for _, m := range lockMistakes() {
		all = append(all, mistaken[relock.ClientOption]{m.name, m.opt})
	}
	return all
}

// lockMistakes are all those that a lock's options can have, whatever its kind.
func lockMistakes() []mistaken[relock.LockOption] {
	all := []mistaken[relock.LockOption]{
		{"WithBlockTimeout", relock.WithBlockTimeout(0)},
		{"WithBlockTimeout", relock.WithBlockTimeout(-time.Second)},
		{"WithPollInterval", relock.WithPollInterval(0)},
		{"WithPollInterval", relock.WithPollInterval(-1)},
		{"WithPollInterval", relock.WithPollInterval(999 * time.Microsecond)},
		{"WithMaxHold", relock.WithMaxHold(0)},
		{"WithMaxHold", relock.WithMaxHold(-1)},
		{"WithOwner", relock.WithOwner("")},
		{"WithOwner", relock.WithOwner(strings.Repeat("x", 257))},
		{"WithLabel", relock.WithLabel(strings.Repeat("x", 257))},
		{"WithLabel", relock.WithLabel(strings.Repeat("|", 86))}, // three bytes each when escaped
	}
	for name, opt := range map[string]func(time.Duration) relock.LockOption{
		"WithExpiry": relock.WithExpiry, "WithWatchdog": relock.WithWatchdog, "WithMinHold": relock.WithMinHold,
	} {
		for _, d := range []time.Duration{
			0, -1, -time.Hour, 1, time.Microsecond, 9 * time.Millisecond, 9999999, 10500 * time.Microsecond, 30*time.Second + 1,
			11 * 365 * 24 * time.Hour, 1<<63 - 1, -1 << 63,
		} {
			all = append(all, mistaken[relock.LockOption]{name, opt(d)})
		}
	}
	return all
}

func TestClientMistakes(t *testing.T) {
	t.Parallel()
	for i, m := range clientMistakes() {
		t.Run(fmt.Sprint(m.name, " ", i), func(t *testing.T) {
			pool := &redis.Pool{Dial: func() (redis.Conn, error) { return nil, context.Canceled }}
			requireMistakes(t, locktest.Second(relock.NewClient("tcp", "localhost:6379", "", m.opt)), "new client", m.name)
			requireMistakes(t, locktest.Second(relock.NewClientURL("redis://localhost", m.opt)), "new client", m.name)
			requireMistakes(t, locktest.Second(relock.NewClientPool(pool, m.opt)), "new client", m.name)
		})
	}
}

// requireMistakes checks that an error says what is wrong, and is one of this operation.
func requireMistakes(t testing.TB, err error, op string, names ...string) {
	t.Helper()
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.False(t, relock.IsRetryableErr(err))
	var e *relock.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, op, e.Op)
	for _, name := range names {
		require.ErrorContains(t, err, name)
	}
	require.NotContains(t, err.Error(), "\n")
}

func TestLockMistakes(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t)
	for i, m := range lockMistakes() {
		t.Run(fmt.Sprint(m.name, " ", i), func(t *testing.T) {
			requireMistakes(t, relock.NewRedisLock("k", c, m.opt).Validate(), "validate", m.name)
			requireMistakes(t, relock.NewReentrantLock("k", c, m.opt).Validate(), "validate", m.name)
		})
	}
}

// An option that is nil is a mistake of every constructor, by its index.
func TestNilOptions(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return nil, context.Canceled }}
	const client, lock = "opts[1]: ClientOption is nil", "opts[1]: LockOption is nil"
	requireMistakes(t, locktest.Second(relock.NewClient("tcp", "localhost:6379", "", relock.WithMaxIdle(1), nil)), "new client", client)
	requireMistakes(t, locktest.Second(relock.NewClientURL("redis://localhost", relock.WithMaxIdle(1), nil)), "new client", client)
	requireMistakes(t, locktest.Second(relock.NewClientPool(pool, relock.WithLabel("x"), nil)), "new client", client)
	requireMistakes(t, locktest.Second(relock.NewLocker(c, relock.WithLabel("x"), nil)), "new locker", lock)
	for _, l := range []interface{ Validate() error }{
		relock.NewRedisLock("k", c, relock.WithBlock(), nil), relock.NewReentrantLock("k", c, relock.WithBlock(), nil), relock.NewRWLock("k", c, relock.WithBlock(), nil),
		relock.NewMultiLock([]string{"k"}, c, relock.WithBlock(), nil),
		relock.NewRedLock("k", []*relock.Client{c, locktest.Unconnected(t), locktest.Unconnected(t)}, relock.WithBlock(), nil),
	} {
		requireMistakes(t, l.Validate(), "validate", lock)
	}
	requireMistakes(t, relock.NewRedisLock("k", c, nil, relock.WithExpiry(0), nil).Lock(t.Context()), "lock",
		"opts[0]: LockOption is nil", "opts[2]: LockOption is nil", "WithExpiry")
}

func TestAddressMistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		network, address string
		want             []string
	}{
		{"tcp", "", []string{"address"}},
		{"unix", "", []string{"address"}},
		{"", "localhost:6379", []string{"network"}},
		{"udp", "localhost:6379", []string{"network", "udp"}},
		{"redis", "localhost:6379", []string{"network"}},
		{"udp", "", []string{"network", "address"}},
		{"tcp", "localhost", []string{"address", "host:port"}},
		{"tcp", "localhost:", []string{"address", "port"}},
		{"tcp", "localhost:redis", []string{"address", "port"}},
		{"tcp", "localhost:0", []string{"address", "port"}},
		{"tcp", "localhost:-1", []string{"address", "port"}},
		{"tcp", "localhost:65536", []string{"address", "port"}},
		{"tcp", "::1:6379", []string{"address", "host:port"}},
		{"tcp", "[::1]", []string{"address", "host:port"}},
		{"tcp4", "/run/redis.sock", []string{"address", "host:port"}},
		{"tcp", "local\r\nhost", []string{"address"}},
	} {
		t.Run(tt.network+" "+tt.address, func(t *testing.T) {
			_, err := relock.NewClient(tt.network, tt.address, "")
			requireMistakes(t, err, "new client", tt.want...)
		})
	}
	for _, tt := range []struct{ network, address string }{
		{"tcp", "localhost:1"}, {"tcp", "localhost:65535"}, {"tcp4", "127.0.0.1:6379"}, {"tcp6", "[::1]:6379"}, {"tcp", ":6379"}, {"unix", "redis.sock"},
	} {
		c, err := relock.NewClient(tt.network, tt.address, "")
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
}

func TestOptionsAtTheirLimits(t *testing.T) {
	t.Parallel()
	locks := []relock.LockOption{
		relock.WithBlock(), relock.WithBlockTimeout(1), relock.WithPollInterval(time.Millisecond), relock.WithExpiry(10 * time.Millisecond),
		relock.WithMinHold(10 * time.Millisecond), relock.WithMaxHold(10 * time.Millisecond),
		relock.WithOwner(strings.Repeat("x", 256)), relock.WithLabel(strings.Repeat("x", 256)),
	}
	opts := []relock.ClientOption{
		relock.WithMaxIdle(0), relock.WithMaxActive(0), relock.WithWaitMode(), relock.WithIdleTimeout(1), relock.WithDialTimeout(1), relock.WithCommandTimeout(1), relock.WithDatabase(0), relock.WithTLS(nil),
		relock.WithKeyPrefix(""), relock.WithLogger(slog.Default()),
	}
	for _, opt := range locks {
		opts = append(opts, opt)
	}
	c := locktest.Unconnected(t, opts...)
	require.NoError(t, relock.NewReentrantLock("k", c, locks...).Validate())
	require.NoError(t, relock.NewReentrantLock("k", c, relock.WithWatchdog(10*365*24*time.Hour), relock.WithLabel(strings.Repeat("|", 85))).Validate())
	for _, prefix := range []string{"", ":", "a b\r\n", strings.Repeat("x", lockspec.MaxKey)} {
		require.Equal(t, prefix+"{k}", locktest.KeyOf(locktest.Unconnected(t, relock.WithKeyPrefix(prefix)), "k"))
	}
}

// All mistakes are reported at once, wherever they are.
func TestAllMistakesAtOnce(t *testing.T) {
	t.Parallel()
	wrong := []relock.ClientOption{
		relock.WithMaxIdle(-1), relock.WithMaxActive(-1), relock.WithIdleTimeout(0), relock.WithUsername("me"), relock.WithDatabase(-1), relock.WithDialTimeout(0), relock.WithCommandTimeout(0),
		relock.WithKeyPrefix("{"), relock.WithLogger(nil), relock.WithBlockTimeout(0), relock.WithPollInterval(0), relock.WithExpiry(0), relock.WithWatchdog(1), relock.WithMaxHold(0), relock.WithMinHold(-1),
		relock.WithOwner(""), relock.WithLabel(strings.Repeat("x", 300)),
	}
	names := []string{
		"WithMaxIdle", "WithMaxActive", "WithIdleTimeout", "WithUsername", "WithDatabase", "WithDialTimeout", "WithCommandTimeout", "WithKeyPrefix",
		"WithLogger", "WithBlockTimeout", "WithPollInterval", "WithExpiry", "WithWatchdog", "WithMaxHold", "WithMinHold", "WithOwner", "WithLabel",
	}
	t.Run("NewClient", func(t *testing.T) {
		_, err := relock.NewClient("udp", "nowhere", "", wrong...)
		requireMistakes(t, err, "new client", append(names, "network")...)
	})
	t.Run("NewClientURL", func(t *testing.T) {
		_, err := relock.NewClientURL("redis://localhost", wrong...)
		requireMistakes(t, err, "new client", names...)
	})
	t.Run("NewClientURL, URL too", func(t *testing.T) {
		_, err := relock.NewClientURL("redis://localhost/first?mode=fast", wrong...)
		requireMistakes(t, err, "new client", append(names, "database", "parameter")...)
	})
	t.Run("NewClientURL, no URL", func(t *testing.T) {
		_, err := relock.NewClientURL("http://localhost", wrong...)
		requireMistakes(t, err, "new client", append(names, "scheme")...)
	})
	t.Run("NewClientPool", func(t *testing.T) {
		_, err := relock.NewClientPool(nil, append(wrong, relock.WithWaitMode(), relock.WithTLS(nil))...)
		requireMistakes(t, err, "new client", append(names, "pool: is nil", "WithWaitMode", "WithTLS")...)
	})
	t.Run("pool without Dial", func(t *testing.T) {
		_, err := relock.NewClientPool(&redis.Pool{}, relock.WithCommandTimeout(0))
		requireMistakes(t, err, "new client", "pool", "Dial", "WithCommandTimeout")
	})
}
