package relock_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/queue"
)

// mistaken is an option with a mistake, and the text that the error must have.
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
		{"WithLabel", relock.WithLabel(strings.Repeat("x", 257))},
		{"WithLabel", relock.WithLabel(strings.Repeat("|", 86))}, // three bytes each when escaped
		{"WithQueueLimit: 0", relock.WithQueueLimit(0)},
		{"WithReplicas", relock.WithReplicas(0, time.Second)},
		{"WithReplicas", relock.WithReplicas(1, 1)},
		{"WithReplicas: 0", relock.WithReplicas(0, 1)},
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

// together are all of the mistakes as one list of options, and the texts.
func together[O any](all []mistaken[O]) (opts []O, names []string) {
	for _, m := range all {
		opts, names = append(opts, m.opt), append(names, m.name)
	}
	return opts, names
}

// asError returns err, which must be an Error of relock itself.
func asError(t testing.TB, err error) *relock.Error {
	t.Helper()
	var e *relock.Error
	require.ErrorAs(t, err, &e)
	return e
}

// requireMistakes checks that an error says what is wrong, and is one of this
// operation.
func requireMistakes(t testing.TB, err error, op string, names ...string) {
	t.Helper()
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.False(t, relock.IsRetryableErr(err))
	require.Equal(t, op, asError(t, err).Op)
	for _, name := range names {
		require.ErrorContains(t, err, name)
	}
	require.NotContains(t, err.Error(), "\n")
}

func second[T any](_ T, err error) error { return err }

func undialled() *redis.Pool {
	return &redis.Pool{Dial: func() (redis.Conn, error) { return nil, context.Canceled }}
}

func TestClientMistakes(t *testing.T) {
	t.Parallel()
	for i, m := range clientMistakes() {
		t.Run(fmt.Sprint(m.name, " ", i), func(t *testing.T) {
			requireMistakes(t, second(relock.NewClient("tcp", "localhost:6379", "", m.opt)), "new client", m.name)
			requireMistakes(t, second(relock.NewClientURL("redis://localhost", m.opt)), "new client", m.name)
			requireMistakes(t, second(relock.NewClientPool(undialled(), m.opt)), "new client", m.name)
		})
	}
}

// All mistakes are reported together, wherever they are.
func TestAllMistakesTogether(t *testing.T) {
	t.Parallel()
	wrong, names := together(clientMistakes())
	url := func(u string) error { return second(relock.NewClientURL(u, wrong...)) }
	for what, err := range map[string]error{
		"network":            second(relock.NewClient("udp", "nowhere", "", wrong...)),
		"WithMaxIdle":        url("redis://localhost"),
		"database parameter": url("redis://localhost/first?mode=fast"),
		"scheme":             url("http://localhost"),
		"pool: nil WithWaitMode WithTLS": second(relock.NewClientPool(nil,
			append(wrong, relock.WithWaitMode(), relock.WithTLS(nil))...)),
		"Dial": second(relock.NewClientPool(&redis.Pool{}, wrong...)),
	} {
		requireMistakes(t, err, "new client", append(strings.Fields(what), names...)...)
	}
}

// An option that is nil is a mistake of every constructor, by its index.
func TestNilOptions(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t)
	const client, lock = "opts[1]: ClientOption is nil", "opts[1]: LockOption is nil"
	requireMistakes(t, second(relock.NewClient("tcp", "localhost:6379", "", relock.WithMaxIdle(1), nil)),
		"new client", client)
	requireMistakes(t, second(relock.NewClientURL("redis://localhost", relock.WithMaxIdle(1), nil)), "new client", client)
	requireMistakes(t, second(relock.NewClientPool(undialled(), relock.WithLabel("x"), nil)), "new client", client)
	requireMistakes(t, second(relock.NewLocker(c, relock.WithLabel("x"), nil)), "new locker", lock)
	block := relock.WithBlock()
	for _, l := range []interface{ Validate() error }{
		relock.NewRedisLock("k", c, block, nil), relock.NewReentrantLock("k", c, block, nil),
		relock.NewRWLock("k", c, block, nil),
		relock.NewSemaphore("k", 1, c, block, nil), relock.NewMultiLock([]string{"k"}, c, block, nil),
		relock.NewRedLock("k", []*relock.Client{c, locktest.Unconnected(t), locktest.Unconnected(t)}, block, nil),
	} {
		requireMistakes(t, l.Validate(), "validate", lock)
	}
	requireMistakes(t, relock.NewRedisLock("k", c, nil, relock.WithExpiry(0), nil).Lock(t.Context()), "lock",
		"opts[0]: LockOption is nil", "opts[2]: LockOption is nil", "WithExpiry")
}

func TestAddressMistakes(t *testing.T) {
	t.Parallel()
	for want, addresses := range map[string][]string{ // behind the network
		"address":           {"tcp ", "unix ", "tcp local\r\nhost"},
		"network":           {" localhost:6379", "redis localhost:6379"},
		"network udp":       {"udp localhost:6379"},
		"network address":   {"udp "},
		"address host:port": {"tcp localhost", "tcp ::1:6379", "tcp [::1]", "tcp4 /run/redis.sock"},
		"address port": {
			"tcp localhost:", "tcp localhost:redis", "tcp localhost:0", "tcp localhost:-1", "tcp localhost:65536",
		},
	} {
		for _, text := range addresses {
			network, address, _ := strings.Cut(text, " ")
			requireMistakes(t, second(relock.NewClient(network, address, "")), "new client", strings.Fields(want)...)
		}
	}
	for _, tt := range []struct{ network, address string }{
		{"tcp", "localhost:1"}, {
			"tcp", "localhost:65535",
		}, {"tcp4", "127.0.0.1:6379"}, {"tcp6", "[::1]:6379"}, {"tcp", ":6379"}, {"unix", "redis.sock"},
	} {
		locktest.CloseLater(t)(relock.NewClient(tt.network, tt.address, ""))
	}
}

func TestOptionsAtTheirLimits(t *testing.T) {
	t.Parallel()
	locks := []relock.LockOption{
		relock.WithBlock(), relock.WithBlockTimeout(1), relock.WithPollInterval(time.Millisecond),
		relock.WithExpiry(10 * time.Millisecond),
		relock.WithMinHold(10 * time.Millisecond), relock.WithMaxHold(10 * time.Millisecond),
		relock.WithLabel(strings.Repeat("x", 256)),
	}
	opts := []relock.ClientOption{
		relock.WithMaxIdle(0), relock.WithMaxActive(0), relock.WithWaitMode(), relock.WithIdleTimeout(1),
		relock.WithDialTimeout(1),
		relock.WithCommandTimeout(1), relock.WithDatabase(0), relock.WithTLS(nil), relock.WithKeyPrefix(""),
		relock.WithLogger(slog.Default()),
	}
	for _, opt := range locks {
		opts = append(opts, opt)
	}
	c := locktest.Unconnected(t, opts...)
	require.NoError(t, relock.NewReentrantLock("k", c, locks...).Validate())
	require.NoError(t, relock.NewReentrantLock("k", c, relock.WithWatchdog(10*365*24*
		time.Hour), relock.WithLabel(strings.Repeat("|", 85))).Validate())
	for _, prefix := range []string{"", ":", "a b\r\n", strings.Repeat("x", lockspec.MaxKey)} {
		require.Equal(t, prefix+"{k}", locktest.KeyOf(locktest.Unconnected(t, relock.WithKeyPrefix(prefix)), "k"))
	}
}

// calls are those of a lock that can be its first.
type calls map[string]func(context.Context) error

func firstCalls(l locktest.AnyLock) calls {
	return calls{
		"Lock":       l.Lock,
		"TryLock":    l.TryLock,
		"Unlock":     l.Unlock,
		"Do":         func(ctx context.Context) error { return l.Do(ctx, locktest.Nothing) },
		"TryDo":      func(ctx context.Context) error { return l.TryDo(ctx, locktest.Nothing) },
		"Acquire":    func(ctx context.Context) error { return second(l.Acquire(ctx)) },
		"TryAcquire": func(ctx context.Context) error { return second(l.TryAcquire(ctx)) },
	}
}

// acquiringCalls are those that acquire.
func acquiringCalls(l locktest.AnyLock) calls {
	all := firstCalls(l)
	delete(all, "Unlock")
	return all
}

// A lock reports all mistakes together too, by Validate and by every call, and
// nothing is sent.
func TestLockMistakes(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t)
	for i, m := range lockMistakes() {
		t.Run(fmt.Sprint(m.name, " ", i), func(t *testing.T) {
			requireMistakes(t, relock.NewRedisLock("k", c, m.opt).Validate(), "validate", m.name)
			requireMistakes(t, relock.NewReentrantLock("k", c, m.opt).Validate(), "validate", m.name)
		})
	}
	opts, names := together(lockMistakes())
	names = append(names, "a lease is either fixed or renewed", "key: is empty")
	plain := relock.NewRedisLock("", c, append(opts, relock.WithMaxLease(time.Minute))...)
	reentrant := relock.NewReentrantLock("", c, append(opts, relock.WithMaxLease(time.Minute))...)
	requireMistakes(t, plain.Validate(), "validate", append(names, "WithMaxLease: is not supported by RedisLock")...)
	requireMistakes(t, reentrant.Validate(), "validate", names...)
	for _, all := range []calls{firstCalls(plain), firstCalls(reentrant)} {
		for call, f := range all {
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
	for i, l := range []locktest.AnyLock{
		&relock.RedisLock{}, relock.NewRedisLock("k", nil, relock.WithBlock()), relock.NewRedisLock("k", &relock.Client{}),
		&relock.ReentrantLock{}, relock.NewReentrantLock("k", nil, relock.WithBlock()),
		relock.NewReentrantLock("k", &relock.Client{}),
		&relock.RWLock{}, relock.NewRWLock("k", nil), relock.NewRWLock("", locktest.Unconnected(t)),
		new(relock.RWLock).RLocker().(locktest.AnyLock), relock.NewRWLock("k", nil).RLocker().(locktest.AnyLock),
		relock.NewRWLock("", locktest.Unconnected(t)).RLocker().(locktest.AnyLock),
	} {
		require.ErrorIs(t, l.Validate(), relock.ErrInvalid, i)
		for call, f := range firstCalls(l) {
			require.ErrorIs(t, f(t.Context()), relock.ErrInvalid, "%d: %s", i, call)
		}
	}
}

// A mistake is named once, and in words that its caller has used.
func TestTextsOfMistakes(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t)
	dials := &driver.Topology{
		Master:  func(context.Context, string) (string, error) { return "", net.ErrClosed },
		Masters: func(context.Context) ([]string, error) { return nil, net.ErrClosed },
		Dial:    func(context.Context, string) (net.Conn, error) { return nil, net.ErrClosed },
	}
	token := (&lockspec.Detached{Key: []byte("k"), Hold: "h", Stay: time.Minute}).Token()
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"no client":             {relock.NewRedisLock("k", nil).Validate(), "client: is nil"},
		"a client of nobody":    {relock.NewRedisLock("k", &relock.Client{}).Validate(), "client: was not made by NewClient"},
		"a call without client": {(*relock.Client)(nil).Ping(t.Context()), "client: is nil"},
		"Close without client":  {(*relock.Client)(nil).Close(), "client: is nil"},
		"a node": {relock.NewRedLock("k", []*relock.Client{c, nil, {}}).Validate(), "client 1: is nil; " +
			"client 2: was not made by NewClient"},
		"no keys": {relock.NewMultiLock(nil, c).Validate(), "keys: is empty"},
		"a short lease": {
			relock.NewRedisLock("k", c, relock.WithExpiry(1)).Validate(), "WithExpiry: 1ns is below 10ms",
		},
		"a fraction": {relock.NewRedisLock("k", c, relock.WithExpiry(time.Second+1)).Validate(), "WithExpiry: " +
			"1.000000001s has a fraction of a millisecond"},
		"no permits": {relock.NewSemaphore("k", 0, c).Validate(), "permits: 0 is not 1 to 10000"},
		"too many permits": {
			relock.NewSemaphore("", 10_001, c).Validate(), "key: is empty; permits: 10001 is not 1 to 10000",
		},
		"a token of permits": {
			relock.NewSemaphore("k", 1, c, relock.WithFencing()).Validate(), "WithFencing: is not supported by Semaphore",
		},
		"an option": {
			relock.NewMultiLock([]string{"k"}, c, relock.WithFair()).Validate(), "WithFair: is not supported by MultiLock",
		},
		"an option to resume": {
			second(c.Resume(t.Context(), token, relock.WithFair())), "WithFair: is not supported by Resume",
		},
		"a token": {second(c.Resume(t.Context(), "token")), "token: was not returned by this version's Detach"},
		"a hold of nobody": {
			second(c.Detach(t.Context(), nil, time.Minute)), "hold: was not returned by a Redis lock of this package",
		},
		"a database": {
			second(relock.NewClientURL("redis://localhost/first")), "URL: database is not a number such as 0 or 1",
		},
		"TLS beside a Dial": {
			second(locktest.NewRoutedClient(dials, relock.WithTLS(nil))),
			"WithTLS: the topology has a Dial, which encrypts; with go-redis, set TLSConfig of its client",
		},
		"a queue":              {second(queue.New("", c)), "name: is empty"},
		"a queue of no client": {second(queue.New("q", nil)), "client: is nil"},
	} {
		require.ErrorIs(t, tt.err, relock.ErrInvalid, name)
		require.True(t, strings.HasSuffix(tt.err.Error(), "invalid: "+tt.want), "%s: %v", name, tt.err)
	}
}

// A Locker is checked when it is made. TestTableOfOptions has its options.
func TestLockerMistakes(t *testing.T) {
	t.Parallel()
	l, err := relock.NewLocker(nil)
	require.Nil(t, l)
	requireMistakes(t, err, "new locker", "client")
	requireMistakes(t, second(relock.NewLocker(locktest.Unconnected(t), relock.WithWatchdog(time.Millisecond))),
		"new locker", "WithWatchdog")
}

func TestMistakesInACall(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t)
	var none context.Context
	for _, l := range []locktest.AnyLock{relock.NewReentrantLock("k", c), relock.NewRedisLock("k", c)} {
		for call, f := range acquiringCalls(l) {
			require.ErrorIs(t, f(none), relock.ErrInvalid, call)
			require.ErrorContains(t, f(none), "context", call)
		}
		require.ErrorIs(t, l.Do(t.Context(), nil), relock.ErrInvalid)
		require.ErrorIs(t, l.TryDo(t.Context(), nil), relock.ErrInvalid)
	}
	require.ErrorIs(t, c.Ping(none), relock.ErrInvalid)
	for _, id := range []string{"", strings.Repeat("x", 257)} {
		ctx := relock.ContextWithOwner(t.Context(), id)
		for call, f := range firstCalls(relock.NewReentrantLock("k", c)) {
			require.ErrorIs(t, f(ctx), relock.ErrInvalid, call)
			require.ErrorContains(t, f(ctx), "ContextWithOwner", call)
		}
	}
}
