package relock

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
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
		{"WithKeyPrefix", WithKeyPrefix(strings.Repeat("x", maxKey+1))},
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
		{"WithOwner", WithOwner("")},
		{"WithOwner", WithOwner(strings.Repeat("x", 257))},
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
		WithOwner(strings.Repeat("x", 256)), WithLabel(strings.Repeat("x", 256)), nil,
	}
	opts := []ClientOption{
		WithMaxIdle(0), WithMaxActive(0), WithWaitMode(), WithIdleTimeout(1), WithDialTimeout(1), WithCommandTimeout(1), WithDatabase(0), WithTLS(nil),
		WithKeyPrefix(""), WithLogger(slog.Default()), nil,
	}
	for _, opt := range locks {
		if opt != nil {
			opts = append(opts, opt)
		}
	}
	c := unconnected(t, opts...)
	require.NoError(t, NewReentrantLock("k", c, locks...).Validate())
	require.NoError(t, NewReentrantLock("k", c, WithWatchdog(10*365*24*time.Hour), WithLabel(strings.Repeat("|", 85))).Validate())
	for _, prefix := range []string{"", ":", "a b\r\n", strings.Repeat("x", maxKey)} {
		require.Equal(t, prefix+"{k}", keyOf(unconnected(t, WithKeyPrefix(prefix)), "k"))
	}
}

// All mistakes are reported at once, wherever they are.
func TestAllMistakesAtOnce(t *testing.T) {
	t.Parallel()
	wrong := []ClientOption{
		WithMaxIdle(-1), WithMaxActive(-1), WithIdleTimeout(0), WithUsername("me"), WithDatabase(-1), WithDialTimeout(0), WithCommandTimeout(0),
		WithKeyPrefix("{"), WithLogger(nil), WithBlockTimeout(0), WithPollInterval(0), WithExpiry(0), WithWatchdog(1), WithMaxHold(0), WithMinHold(-1),
		WithOwner(""), WithLabel(strings.Repeat("x", 300)),
	}
	names := []string{
		"WithMaxIdle", "WithMaxActive", "WithIdleTimeout", "WithUsername", "WithDatabase", "WithDialTimeout", "WithCommandTimeout", "WithKeyPrefix",
		"WithLogger", "WithBlockTimeout", "WithPollInterval", "WithExpiry", "WithWatchdog", "WithMaxHold", "WithMinHold", "WithOwner", "WithLabel",
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

// What a pool of the user's own does itself cannot be set beside it.
func TestPoolOptionsBesideAPool(t *testing.T) {
	t.Parallel()
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return nil, context.Canceled }}
	for name, opt := range map[string]ClientOption{
		"WithMaxIdle": WithMaxIdle(10), "WithMaxActive": WithMaxActive(0), "WithIdleTimeout": WithIdleTimeout(time.Minute), "WithWaitMode": WithWaitMode(),
		"WithUsername": WithUsername(""), "WithDatabase": WithDatabase(0), "WithTLS": WithTLS(nil), "WithDialTimeout": WithDialTimeout(time.Second),
	} {
		_, err := NewClientPool(pool, opt)
		requireMistakes(t, err, "new client", name, "pool")
	}
	var log logBuffer
	c, err := NewClientPool(pool, WithCommandTimeout(time.Second), WithKeyPrefix("p:"), log.option(), WithBlock(), WithExpiry(time.Second))
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// firstCalls are the calls of a lock that can be its first.
func firstCalls(l interface {
	Mutex
	Acquire(context.Context) (Hold, error)
	TryAcquire(context.Context) (Hold, error)
},
) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Lock":       l.Lock,
		"TryLock":    l.TryLock,
		"Unlock":     l.Unlock,
		"Do":         func(ctx context.Context) error { return l.Do(ctx, noWork) },
		"TryDo":      func(ctx context.Context) error { return l.TryDo(ctx, noWork) },
		"Acquire":    func(ctx context.Context) error { return second(l.Acquire(ctx)) },
		"TryAcquire": func(ctx context.Context) error { return second(l.TryAcquire(ctx)) },
	}
}

// A lock reports all mistakes at once too, by Validate and by every call, and nothing is sent.
func TestMistakenLock(t *testing.T) {
	t.Parallel()
	c := unconnected(t)
	opts := []LockOption{
		WithBlockTimeout(0), WithPollInterval(0), WithExpiry(0), WithWatchdog(1), WithMaxHold(0), WithMinHold(-1), WithOwner(""),
		WithLabel(strings.Repeat("x", 300)), WithQueueLimit(0), WithReplicas(0, 1),
	}
	names := []string{
		"WithBlockTimeout", "WithPollInterval", "WithExpiry", "WithWatchdog", "WithMaxHold", "WithMinHold", "WithOwner", "WithLabel",
		"WithQueueLimit: 0", "WithReplicas: 0", "WithReplicas: 1ns", "a lease is either fixed or kept alive", "key: is empty",
	}
	plain, reentrant := NewRedisLock("", c, opts...), NewReentrantLock("", c, opts...)
	requireMistakes(t, plain.Validate(), "validate", append(names, "this kind of lock cannot honour it")...)
	requireMistakes(t, reentrant.Validate(), "validate", names...)
	for _, calls := range []map[string]func(context.Context) error{firstCalls(plain), firstCalls(reentrant)} {
		for call, f := range calls {
			op := "lock"
			if call == "Unlock" {
				op = "unlock"
			}
			requireMistakes(t, f(t.Context()), op, names...)
			requireMistakes(t, f(t.Context()), op, names...)
		}
	}
}

func TestLockWithoutAClient(t *testing.T) {
	t.Parallel()
	var noPlain *RedisLock
	var noReentrant *ReentrantLock
	for name, calls := range map[string]map[string]func(context.Context) error{
		"nil client":            firstCalls(NewRedisLock("k", nil, WithBlock())),
		"nil client, reentrant": firstCalls(NewReentrantLock("k", nil, WithBlock())),
		"zero client":           firstCalls(NewRedisLock("k", &Client{})),
		"zero lock":             firstCalls(&RedisLock{}),
		"zero reentrant":        firstCalls(&ReentrantLock{}),
		"nil":                   firstCalls(noPlain),
		"nil reentrant":         firstCalls(noReentrant),
	} {
		for call, f := range calls {
			require.ErrorIs(t, f(t.Context()), ErrInvalid, "%s: %s", name, call)
		}
	}
	for _, l := range []interface{ Validate() error }{
		NewRedisLock("k", nil), NewReentrantLock("k", &Client{}), &RedisLock{}, &ReentrantLock{}, noPlain, noReentrant,
	} {
		require.ErrorIs(t, l.Validate(), ErrInvalid)
	}
}

func TestMistakesInACall(t *testing.T) {
	t.Parallel()
	c := unconnected(t)
	var none context.Context
	for _, calls := range []map[string]func(context.Context) error{firstCalls(NewReentrantLock("k", c)), firstCalls(NewRedisLock("k", c))} {
		for call, f := range calls {
			if call != "Unlock" {
				require.ErrorIs(t, f(none), ErrInvalid, call)
				require.ErrorContains(t, f(none), "context", call)
			}
		}
	}
	require.ErrorIs(t, c.Ping(none), ErrInvalid)
	require.ErrorIs(t, NewRedisLock("k", c).Do(t.Context(), nil), ErrInvalid)
	require.ErrorIs(t, NewReentrantLock("k", c).TryDo(t.Context(), nil), ErrInvalid)
	for _, id := range []string{"", strings.Repeat("x", 257)} {
		ctx := ContextWithOwner(t.Context(), id)
		for call, f := range firstCalls(NewReentrantLock("k", c)) {
			require.ErrorIs(t, f(ctx), ErrInvalid, call)
			require.ErrorContains(t, f(ctx), "ContextWithOwner", call)
		}
	}
}

func TestExtendMistakes(t *testing.T) {
	t.Parallel()
	c := newTestClient(t, redistest.Shared(t))
	h, err := NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	until := h.ValidUntil()
	for _, d := range []time.Duration{0, -1, 9 * time.Millisecond, 10500 * time.Microsecond, 1<<63 - 1} {
		requireMistakes(t, h.Extend(t.Context(), d), "extend", "Extend")
	}
	require.NoError(t, h.Err())
	require.Equal(t, until, h.ValidUntil())
	require.NoError(t, h.Unlock(t.Context()))
}

// settingsOf are what a lock goes by.
func settingsOf(t testing.TB, c *Client, opts ...LockOption) lockSettings {
	t.Helper()
	l := NewReentrantLock("k", c, opts...)
	require.NoError(t, l.Validate())
	require.True(t, l.settings.reentrant)
	l.settings.reentrant = false // which is not an option
	return l.settings
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c := unconnected(t)
	require.Equal(t, 10, c.config.maxIdle)
	require.Equal(t, 0, c.config.maxActive)
	require.False(t, c.config.wait)
	require.Equal(t, 60*time.Second, c.config.idleTimeout)
	require.Equal(t, 5*time.Second, c.config.dialTimeout)
	require.Equal(t, 3*time.Second, c.config.commandTimeout)
	require.Equal(t, "relock:", c.config.prefix)
	require.Empty(t, c.config.username)
	require.Equal(t, 0, c.config.database)
	require.False(t, c.config.useTLS)
	require.False(t, c.logger.Enabled(t.Context(), slog.LevelError))
	pool := poolOf(c)
	require.Equal(t, 10, pool.MaxIdle)
	require.Equal(t, 0, pool.MaxActive)
	require.False(t, pool.Wait)
	require.Equal(t, 60*time.Second, pool.IdleTimeout)

	require.Equal(t, lockSettings{kind: kindReentrant, poll: 50 * time.Millisecond, lease: 30 * time.Second, watched: true}, settingsOf(t, c))
	require.Equal(t, lockSettings{kind: kindReentrant, poll: 50 * time.Millisecond, lease: 200 * time.Millisecond, watched: true}, settingsOf(t, c, WithWatchdog(200*time.Millisecond)))
	require.Equal(t, lockSettings{kind: kindReentrant, poll: 25 * time.Millisecond, lease: 100 * time.Millisecond, watched: true}, settingsOf(t, c, WithWatchdog(100*time.Millisecond)))
	require.Equal(t, lockSettings{kind: kindReentrant, poll: 2500 * time.Microsecond, lease: 10 * time.Millisecond}, settingsOf(t, c, WithExpiry(10*time.Millisecond)))
}

// Each default that a doc comment states is the one that is there.
func TestDocumentedDefaults(t *testing.T) {
	t.Parallel()
	c := newClientConfig(nil)
	s := settle(lockConfig{}, nil, redOptions, &mistakes{})
	want := map[string]string{
		"WithMaxIdle":        fmt.Sprint(c.maxIdle),
		"WithMaxActive":      fmt.Sprint(c.maxActive),
		"WithIdleTimeout":    seconds(c.idleTimeout),
		"WithDialTimeout":    seconds(c.dialTimeout),
		"WithCommandTimeout": seconds(c.commandTimeout),
		"WithDatabase":       fmt.Sprint(c.database),
		"WithKeyPrefix":      fmt.Sprintf("%q", c.prefix),
		"WithPollInterval":   s.poll.String(),
		"WithWatchdog":       seconds(s.lease),
		"WithMaxLease":       seconds(s.maxLease),
		"WithUsername":       "the", // server's default user
	}
	stated := regexp.MustCompile(`The\s+default\s+is\s+([^\s,]+?)[.,]?(\s|$)`)
	got := map[string]string{}
	limits := map[string][]string{
		"WithExpiry":       {"10ms or more"},
		"WithWatchdog":     {"10ms or more"},
		"WithMinHold":      {"10ms or more"},
		"WithMaxLease":     {"10ms or more"},
		"WithOwner":        {"1 to 256 bytes"},
		"ContextWithOwner": {"1 to 256 bytes"},
		"WithLabel":        {"at most 256 bytes"},
		"WithPollInterval": {"1ms to a quarter of the lease"},
		"WithReplicas":     {"10ms to a quarter of the lease"},
		"WithQueueLimit":   {"1 to a million"},
		"NewRedisLock":     {"1 to 1024 bytes"},
		"NewReentrantLock": {"1 to 1024 bytes"},
		"NewMultiLock":     {"1 to 1024 bytes", "1 to 100 different ones"},
		"NewRedLock":       {"1 to 1024 bytes", "3 or more"},
	}
	for _, file := range []string{"options.go", "lockoptions.go", "owner.go", "lock.go", "reentrant.go", "multilock.go", "redlock.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Doc == nil {
				continue
			}
			doc := strings.Join(strings.Fields(f.Doc.Text()), " ")
			if match := stated.FindStringSubmatch(doc); match != nil {
				got[f.Name.Name] = match[1]
			}
			for _, limit := range limits[f.Name.Name] {
				require.Contains(t, doc, limit, f.Name.Name)
			}
			delete(limits, f.Name.Name)
		}
	}
	require.Equal(t, want, got)
	require.Empty(t, limits, "not documented")
}

func seconds(d time.Duration) string { return fmt.Sprintf("%ds", int(d.Seconds())) }

func TestLockOptionBeatsDefault(t *testing.T) {
	t.Parallel()
	c := unconnected(t, WithBlockTimeout(time.Second), WithPollInterval(40*time.Millisecond), WithExpiry(8*time.Second), WithMaxHold(time.Minute),
		WithMinHold(time.Second), WithOwner("default"), WithLabel("default label"), WithFencing(), WithQueueLimit(7), WithReplicas(2, time.Second))
	base := lockSettings{
		kind: kindReentrant, block: true, blockTimeout: time.Second, poll: 40 * time.Millisecond, lease: 8 * time.Second, maxHold: time.Minute, minHold: time.Second,
		owner: "default", label: "default%20label", fencing: true, queueLimit: 7, replicas: 2, replicaTimeout: time.Second,
	}
	for _, tt := range []struct {
		name string
		opts []LockOption
		set  func(*lockSettings)
	}{
		{"nothing", nil, func(*lockSettings) {}},
		{"nil option", []LockOption{nil}, func(*lockSettings) {}},
		{"WithBlockTimeout", []LockOption{WithBlockTimeout(2 * time.Second)}, func(s *lockSettings) { s.blockTimeout = 2 * time.Second }},
		{"WithBlock", []LockOption{WithBlock()}, func(s *lockSettings) { s.blockTimeout = 0 }}, // until ctx ends
		{"WithPollInterval", []LockOption{WithPollInterval(time.Second)}, func(s *lockSettings) { s.poll = time.Second }},
		{"WithExpiry", []LockOption{WithExpiry(4 * time.Second)}, func(s *lockSettings) { s.lease = 4 * time.Second }},
		{"WithWatchdog", []LockOption{WithWatchdog(4 * time.Second)}, func(s *lockSettings) { s.lease, s.watched = 4*time.Second, true }},
		{"WithMaxHold", []LockOption{WithMaxHold(time.Hour)}, func(s *lockSettings) { s.maxHold = time.Hour }},
		{"WithMinHold", []LockOption{WithMinHold(20 * time.Millisecond)}, func(s *lockSettings) { s.minHold = 20 * time.Millisecond }},
		{"WithOwner", []LockOption{WithOwner("own")}, func(s *lockSettings) { s.owner = "own" }},
		{"WithLabel", []LockOption{WithLabel("")}, func(s *lockSettings) { s.label = "" }},
		{"WithQueueLimit", []LockOption{WithQueueLimit(8)}, func(s *lockSettings) { s.queueLimit = 8 }},
		{"WithReplicas", []LockOption{WithReplicas(1, 500*time.Millisecond)}, func(s *lockSettings) { s.replicas, s.replicaTimeout = 1, 500*time.Millisecond }},
		{"the last of two", []LockOption{WithOwner("a"), WithOwner("b")}, func(s *lockSettings) { s.owner = "b" }},
		{
			"a lease that is short for the default poll interval",
			[]LockOption{WithExpiry(100 * time.Millisecond)},
			func(s *lockSettings) {
				s.lease, s.poll, s.replicaTimeout = 100*time.Millisecond, 25*time.Millisecond, 25*time.Millisecond
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := base
			tt.set(&want)
			require.Equal(t, want, settingsOf(t, c, tt.opts...))
		})
	}
	watched := unconnected(t, WithWatchdog(3*time.Second))
	s := settingsOf(t, watched, WithExpiry(2*time.Second))
	require.Equal(t, 2*time.Second, s.lease)
	require.False(t, s.watched)
}

// A default that a kind cannot honour is ignored there; given to the lock it is a mistake.
func TestOptionThatAKindCannotHonour(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s, WithOwner("everybody"))
	l := NewRedisLock("k", c)
	require.NoError(t, l.Validate())
	require.NoError(t, l.Lock(t.Context()))
	require.ErrorIs(t, NewRedisLock("k", c).TryLock(t.Context()), ErrLockAcquiredByOthers)
	require.NoError(t, l.Unlock(t.Context()))

	reentrant := NewReentrantLock("k", c)
	require.NoError(t, reentrant.Lock(t.Context()))
	require.NoError(t, resultWithin(t, async(t, func() error { return NewReentrantLock("k", c).TryLock(t.Context()) }), time.Second), "the same owner")
	require.NoError(t, reentrant.Unlock(t.Context()))
	require.NoError(t, reentrant.Unlock(t.Context()))

	requireMistakes(t, NewRedisLock("k", c, WithOwner("me")).Validate(), "validate", "WithOwner")
	requireMistakes(t, NewRedisLock("k", c, WithOwner("me")).Lock(t.Context()), "lock", "WithOwner")
	require.NoError(t, NewReentrantLock("k", c, WithOwner("me")).Validate())
}

func TestOptionsThatContradict(t *testing.T) {
	t.Parallel()
	_, err := NewClient("tcp", "localhost:6379", "", WithExpiry(time.Second), WithWatchdog(time.Second))
	requireMistakes(t, err, "new client", "WithExpiry", "WithWatchdog")
	_, err = NewClient("tcp", "localhost:6379", "", WithMinHold(2*time.Second), WithMaxHold(time.Second))
	requireMistakes(t, err, "new client", "WithMaxHold")

	c := unconnected(t)
	for _, tt := range []struct {
		opts  []LockOption
		names []string
	}{
		{[]LockOption{WithExpiry(time.Second), WithWatchdog(time.Second)}, []string{"WithExpiry", "WithWatchdog"}},
		{[]LockOption{WithMinHold(2 * time.Second), WithMaxHold(time.Second)}, []string{"WithMaxHold"}},
		{[]LockOption{WithPollInterval(30*time.Second/4 + 1)}, []string{"WithPollInterval"}},
		{[]LockOption{WithPollInterval(26 * time.Millisecond), WithExpiry(100 * time.Millisecond)}, []string{"WithPollInterval"}},
		{[]LockOption{WithWatchdog(100 * time.Millisecond), WithPollInterval(26 * time.Millisecond)}, []string{"WithPollInterval"}},
	} {
		requireMistakes(t, NewRedisLock("k", c, tt.opts...).Validate(), "validate", tt.names...)
		requireMistakes(t, NewReentrantLock("k", c, tt.opts...).Lock(t.Context()), "lock", tt.names...)
	}
	require.NoError(t, NewRedisLock("k", c, WithPollInterval(25*time.Millisecond), WithExpiry(100*time.Millisecond)).Validate())
	require.NoError(t, NewRedisLock("k", c, WithPollInterval(30*time.Second/4)).Validate())
}

func TestURLMistakes(t *testing.T) {
	t.Parallel()
	for rawURL, want := range map[string]string{
		"":                               "scheme",
		"localhost:6379":                 "scheme",
		"http://localhost":               "scheme",
		"redis+tls://localhost":          "scheme",
		"//localhost":                    "scheme",
		"redis:localhost":                "scheme://",
		"redis://h/0#part":               "URL",
		"redis://h/first":                "database",
		"redis://h/-1":                   "database",
		"redis://h/1/2":                  "database",
		"redis://h/1.5":                  "database",
		"redis://h/99999999999999999999": "database",
		"redis://h?db=x":                 "database",
		"redis://h/1?db=2":               "database",
		"redis://h?db=1&db=2":            "database",
		"redis://h?timeout=5s":           "timeout",
		"redis://h?DB=1":                 "DB",
		"redis://h?%zz":                  "parameter",
		"redis://h:0":                    "port",
		"redis://h:99999":                "port",
		"redis://h:port":                 "URL",
		"redis://me@h":                   "password",
		"redis://@h":                     "password",
		"unix://run/redis.sock":          "unix",
		"unix://":                        "address",
		"unix:run/redis.sock":            "URL",
		"\x7f":                           "URL",
		"redis://h/%zz":                  "URL",
	} {
		t.Run(rawURL, func(t *testing.T) {
			_, err := NewClientURL(rawURL)
			requireMistakes(t, err, "new client", want)
		})
	}
}

// Passwords are in no error, also when what holds them is no URL, or another one than its author believes.
func TestURLMistakesHideThePassword(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	var urls []string
	for _, scheme := range []string{"redis", "rediss", "unix", "http", "", "re dis", "redis\n"} {
		for _, rest := range []string{
			"://:hunter2@127.0.0.1:1/x", "://me:hunter2@127.0.0.1:1/x", "://hunter2@127.0.0.1:1/x", "://hunter2:@127.0.0.1:1", ":hunter2@127.0.0.1:1",
			":/me:hunter2@127.0.0.1:1", "://me:hunter2@127.0.0.1:port", "://me:hunter2@127.0.0.1:1:2", "://me:hunter2@[::1", "://me:hunter2%@127.0.0.1:1",
			"://me:hunter2@127.0.0.1:1?x=%zz", "://me:hunter2@127.0.0.1:1#x", "://127.0.0.1:1?password=hunter2", "://127.0.0.1:1?db=hunter2",
			"://127.0.0.1:1/hunter2", "://127.0.0.1:1#hunter2", "://me:hunter2@/x?y", "://me:hunter2@\x00", "://me:hunter2@127.0.0.1:1/\x7f", "://me:\nhunter2@h",
		} {
			urls = append(urls, scheme+rest)
		}
		for c := range rune(128) { // a character that its author forgot to escape, before the secret, after it, and after a number
			for _, user := range []string{"", "me", "12"} {
				urls = append(urls,
					scheme+"://"+user+":"+string(c)+secret+"@127.0.0.1:1/0",
					scheme+"://"+user+":"+secret+string(c)+"@127.0.0.1:1/0",
					scheme+"://"+user+":12"+string(c)+secret+"@127.0.0.1:1/0",
					scheme+"://"+user+":12"+string(c)+secret+"&a="+secret+"@127.0.0.1:1/0")
			}
		}
	}
	for _, rawURL := range urls {
		c, err := NewClientURL(rawURL, WithDialTimeout(time.Second))
		if err == nil {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
				require.NotContains(t, fmt.Sprintf(verb, c), secret, rawURL)
				require.NotContains(t, fmt.Sprintf(verb, NewRedisLock("k", c)), secret, rawURL)
			}
			require.NoError(t, c.Close())
			continue
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", rawURL, err)
		}
		require.NotContains(t, err.Error(), "\n", rawURL)
		require.ErrorIs(t, err, ErrInvalid, rawURL)
	}
}

// The same for a URL that was given where an address belongs.
func TestAddressMistakesHideThePassword(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"redis://:hunter2@127.0.0.1:1", "me:hunter2@127.0.0.1:1", "redis://me:hunter2@127.0.0.1", "hunter2@127.0.0.1:x"} {
		_, err := NewClient("tcp", address, "hunter2", WithMaxIdle(-1))
		requireMistakes(t, err, "new client", "address")
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := NewClient("hunter2", "redis://me:hunter2@127.0.0.1", "hunter2", WithUsername("me"), WithDatabase(-1))
	requireMistakes(t, err, "new client", "network", "WithDatabase")
	require.NotContains(t, err.Error(), ":hunter2@")
}
