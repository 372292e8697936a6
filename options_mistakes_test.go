package relock

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
)

// unconnected returns a client whose server is not there: whoever sends something is refused.
func unconnected(t testing.TB, opts ...ClientOption) *Client {
	t.Helper()
	c, err := NewClient("tcp", closedPort(t), "", opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.Equal(t, 0, poolOf(c).ActiveCount())
		require.NoError(t, c.Close())
	})
	return c
}

// mistaken is an option with a mistake, and the name that the error must have.
type mistaken[O any] struct {
	name string
	opt  O
}

// clientMistakes are all those that a client's options can have.
func clientMistakes() []mistaken[ClientOption] {
	all := []mistaken[ClientOption]{
		{"WithMaxIdle", WithMaxIdle(-1)},
		{"WithMaxActive", WithMaxActive(-1)},
		{"WithIdleTimeout", WithIdleTimeout(0)},
		{"WithIdleTimeout", WithIdleTimeout(-time.Second)},
		{"WithUsername", WithUsername("me")}, // without a password
		{"WithDatabase", WithDatabase(-1)},
		{"WithDialTimeout", WithDialTimeout(0)},
		{"WithDialTimeout", WithDialTimeout(-1)},
		{"WithCommandTimeout", WithCommandTimeout(0)},
		{"WithCommandTimeout", WithCommandTimeout(-1)},
		{"WithKeyPrefix", WithKeyPrefix("app{1")},
		{"WithKeyPrefix", WithKeyPrefix("app}")},
		{"WithKeyPrefix", WithKeyPrefix(strings.Repeat("x", lockspec.MaxKey+1))},
		{"WithLogger", WithLogger(nil)},
	}
	for _, m := range lockMistakes() {
		all = append(all, mistaken[ClientOption]{m.name, m.opt})
	}
	return all
}

// lockMistakes are all those that a lock's options can have, whatever its kind.
func lockMistakes() []mistaken[LockOption] {
	all := []mistaken[LockOption]{
		{"WithBlockTimeout", WithBlockTimeout(0)},
		{"WithBlockTimeout", WithBlockTimeout(-time.Second)},
		{"WithPollInterval", WithPollInterval(0)},
		{"WithPollInterval", WithPollInterval(-1)},
		{"WithPollInterval", WithPollInterval(999 * time.Microsecond)},
		{"WithMaxHold", WithMaxHold(0)},
		{"WithMaxHold", WithMaxHold(-1)},
		{"WithLabel", WithLabel(strings.Repeat("x", 257))},
		{"WithLabel", WithLabel(strings.Repeat("|", 86))}, // three bytes each when escaped
	}
	for name, opt := range map[string]func(time.Duration) LockOption{
		"WithExpiry": WithExpiry, "WithWatchdog": WithWatchdog, "WithMinHold": WithMinHold,
	} {
		for _, d := range []time.Duration{
			0, -1, -time.Hour, 1, time.Microsecond, 9 * time.Millisecond, 9999999, 10500 * time.Microsecond, 30*time.Second + 1,
			11 * 365 * 24 * time.Hour, 1<<63 - 1, -1 << 63,
		} {
			all = append(all, mistaken[LockOption]{name, opt(d)})
		}
	}
	return all
}

func TestClientMistakes(t *testing.T) {
	t.Parallel()
	for i, m := range clientMistakes() {
		t.Run(fmt.Sprint(m.name, " ", i), func(t *testing.T) {
			pool := &redis.Pool{Dial: func() (redis.Conn, error) { return nil, context.Canceled }}
			requireMistakes(t, second(NewClient("tcp", "localhost:6379", "", m.opt)), "new client", m.name)
			requireMistakes(t, second(NewClientURL("redis://localhost", m.opt)), "new client", m.name)
			requireMistakes(t, second(NewClientPool(pool, m.opt)), "new client", m.name)
		})
	}
}

func second[T any](_ T, err error) error { return err }

// requireMistakes checks that an error says what is wrong, and is one of this operation.
func requireMistakes(t testing.TB, err error, op string, names ...string) {
	t.Helper()
	require.ErrorIs(t, err, ErrInvalid)
	require.False(t, IsRetryableErr(err))
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, op, e.Op)
	for _, name := range names {
		require.ErrorContains(t, err, name)
	}
	require.NotContains(t, err.Error(), "\n")
}

func TestLockMistakes(t *testing.T) {
	t.Parallel()
	c := unconnected(t)
	for i, m := range lockMistakes() {
		t.Run(fmt.Sprint(m.name, " ", i), func(t *testing.T) {
			requireMistakes(t, NewRedisLock("k", c, m.opt).Validate(), "validate", m.name)
			requireMistakes(t, NewReentrantLock("k", c, m.opt).Validate(), "validate", m.name)
		})
	}
}

// An option that is nil is a mistake of every constructor, by its index.
func TestNilOptions(t *testing.T) {
	t.Parallel()
	c := unconnected(t)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return nil, context.Canceled }}
	const client, lock = "opts[1]: ClientOption is nil", "opts[1]: LockOption is nil"
	requireMistakes(t, second(NewClient("tcp", "localhost:6379", "", WithMaxIdle(1), nil)), "new client", client)
	requireMistakes(t, second(NewClientURL("redis://localhost", WithMaxIdle(1), nil)), "new client", client)
	requireMistakes(t, second(NewClientPool(pool, WithLabel("x"), nil)), "new client", client)
	requireMistakes(t, second(NewLocker(c, WithLabel("x"), nil)), "new locker", lock)
	for _, l := range []interface{ Validate() error }{
		NewRedisLock("k", c, WithBlock(), nil), NewReentrantLock("k", c, WithBlock(), nil), NewRWLock("k", c, WithBlock(), nil),
		NewMultiLock([]string{"k"}, c, WithBlock(), nil),
		NewRedLock("k", []*Client{c, unconnected(t), unconnected(t)}, WithBlock(), nil),
	} {
		requireMistakes(t, l.Validate(), "validate", lock)
	}
	requireMistakes(t, NewRedisLock("k", c, nil, WithExpiry(0), nil).Lock(t.Context()), "lock",
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
			_, err := NewClient(tt.network, tt.address, "")
			requireMistakes(t, err, "new client", tt.want...)
		})
	}
	for _, tt := range []struct{ network, address string }{
		{"tcp", "localhost:1"}, {"tcp", "localhost:65535"}, {"tcp4", "127.0.0.1:6379"}, {"tcp6", "[::1]:6379"}, {"tcp", ":6379"}, {"unix", "redis.sock"},
	} {
		c, err := NewClient(tt.network, tt.address, "")
		require.NoError(t, err)
		require.NoError(t, c.Close())
	}
}

func TestOptionsAtTheirLimits(t *testing.T) {
	t.Parallel()
	locks := []LockOption{
		WithBlock(), WithBlockTimeout(1), WithPollInterval(time.Millisecond), WithExpiry(10 * time.Millisecond),
		WithMinHold(10 * time.Millisecond), WithMaxHold(10 * time.Millisecond),
		WithLabel(strings.Repeat("x", 256)),
	}
	opts := []ClientOption{
		WithMaxIdle(0), WithMaxActive(0), WithWaitMode(), WithIdleTimeout(1), WithDialTimeout(1), WithCommandTimeout(1), WithDatabase(0), WithTLS(nil),
		WithKeyPrefix(""), WithLogger(slog.Default()),
	}
	for _, opt := range locks {
		opts = append(opts, opt)
	}
	c := unconnected(t, opts...)
	require.NoError(t, NewReentrantLock("k", c, locks...).Validate())
	require.NoError(t, NewReentrantLock("k", c, WithWatchdog(10*365*24*time.Hour), WithLabel(strings.Repeat("|", 85))).Validate())
	for _, prefix := range []string{"", ":", "a b\r\n", strings.Repeat("x", lockspec.MaxKey)} {
		require.Equal(t, prefix+"{k}", keyOf(unconnected(t, WithKeyPrefix(prefix)), "k"))
	}
}

// All mistakes are reported at once, wherever they are.
func TestAllMistakesAtOnce(t *testing.T) {
	t.Parallel()
	wrong := []ClientOption{
		WithMaxIdle(-1), WithMaxActive(-1), WithIdleTimeout(0), WithUsername("me"), WithDatabase(-1), WithDialTimeout(0), WithCommandTimeout(0),
		WithKeyPrefix("{"), WithLogger(nil), WithBlockTimeout(0), WithPollInterval(0), WithExpiry(0), WithWatchdog(1), WithMaxHold(0), WithMinHold(-1),
		WithLabel(strings.Repeat("x", 300)),
	}
	names := []string{
		"WithMaxIdle", "WithMaxActive", "WithIdleTimeout", "WithUsername", "WithDatabase", "WithDialTimeout", "WithCommandTimeout", "WithKeyPrefix",
		"WithLogger", "WithBlockTimeout", "WithPollInterval", "WithExpiry", "WithWatchdog", "WithMaxHold", "WithMinHold", "WithLabel",
	}
	t.Run("NewClient", func(t *testing.T) {
		_, err := NewClient("udp", "nowhere", "", wrong...)
		requireMistakes(t, err, "new client", append(names, "network")...)
	})
	t.Run("NewClientURL", func(t *testing.T) {
		_, err := NewClientURL("redis://localhost", wrong...)
		requireMistakes(t, err, "new client", names...)
	})
	t.Run("NewClientURL, URL too", func(t *testing.T) {
		_, err := NewClientURL("redis://localhost/first?mode=fast", wrong...)
		requireMistakes(t, err, "new client", append(names, "database", "parameter")...)
	})
	t.Run("NewClientURL, no URL", func(t *testing.T) {
		_, err := NewClientURL("http://localhost", wrong...)
		requireMistakes(t, err, "new client", append(names, "scheme")...)
	})
	t.Run("NewClientPool", func(t *testing.T) {
		_, err := NewClientPool(nil, append(wrong, WithWaitMode(), WithTLS(nil))...)
		requireMistakes(t, err, "new client", append(names, "pool: is nil", "WithWaitMode", "WithTLS")...)
	})
	t.Run("pool without Dial", func(t *testing.T) {
		_, err := NewClientPool(&redis.Pool{}, WithCommandTimeout(0))
		requireMistakes(t, err, "new client", "pool", "Dial", "WithCommandTimeout")
	})
}
