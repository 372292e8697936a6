package relock

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
)

// A ClientOption configures a [Client]. Every [LockOption] is also a
// ClientOption: given to a client it is the default of its locks. A nil option
// is [ErrInvalid].
type ClientOption interface {
	applyClient(*clientConfig)
}

type clientOption func(*clientConfig)

func (f clientOption) applyClient(c *clientConfig) { f(c) }

// The defaults of a [Client].
const (
	defaultMaxIdle        = 10
	defaultIdleTimeout    = 60 * time.Second
	defaultDialTimeout    = 5 * time.Second
	defaultCommandTimeout = 3 * time.Second
	defaultKeyPrefix      = "relock:"
)

// clientConfig has the settings of a client.
type clientConfig struct {
	driver.Config

	prefix         string
	logger         *slog.Logger
	observer       Observer
	profile        bool
	locks          lockspec.Options
	servers        serversConfig
	releaseOnClose bool

	given   []string // names of the options that need a pool and connections of our own
	missing []int    // indexes of nil options
}

func newClientConfig(opts []ClientOption) *clientConfig {
	c := &clientConfig{
		Config: driver.Config{
			Password:       new(string),
			MaxIdle:        defaultMaxIdle,
			IdleTimeout:    defaultIdleTimeout,
			DialTimeout:    defaultDialTimeout,
			CommandTimeout: defaultCommandTimeout,
		},
		servers: serversConfig{password: new(string)},
		prefix:  defaultKeyPrefix,
		logger:  slog.New(slog.DiscardHandler),
	}
	c.apply(opts)
	return c
}

// apply applies the options. It records nil ones for check.
func (c *clientConfig) apply(opts []ClientOption) {
	for i, opt := range opts {
		if opt == nil {
			c.missing = append(c.missing, i)
			continue
		}
		opt.applyClient(c)
	}
}

// ownPool returns an option that sets up connections. It is a mistake with a
// pool of the user's.
func ownPool(name string, set func(*clientConfig)) ClientOption {
	return clientOption(func(c *clientConfig) {
		c.given = append(c.given, name)
		set(c)
	})
}

// WithMaxIdle sets how many idle connections the pool keeps. The default is 10.
func WithMaxIdle(n int) ClientOption {
	return ownPool("WithMaxIdle", func(c *clientConfig) { c.MaxIdle = n })
}

// WithMaxActive limits the connections of the pool, idle and in use. The
// default is 0, no limit. If all are in use, a call fails, or with
// [WithWaitMode] waits.
//
// Connections outside the pool are not counted. The watchdog and the retrier of
// releases have one each, and waiters have two. Commands of locks share one
// while more than four of them are under way. That makes at most five. Each
// setting of [WithReplicas] adds one, and so does Close with
// [WithReleaseOnClose].
func WithMaxActive(n int) ClientOption {
	return ownPool("WithMaxActive", func(c *clientConfig) { c.MaxActive = n })
}

// WithIdleTimeout sets after how long an idle connection is closed. Keep it
// below the server's own timeout. It must be above 0. The default is 60s.
func WithIdleTimeout(d time.Duration) ClientOption {
	return ownPool("WithIdleTimeout", func(c *clientConfig) { c.IdleTimeout = d })
}

// WithWaitMode makes a call wait if all connections are in use, for at most the
// dial timeout. By default the call fails immediately, with an error for which
// [IsRetryableErr] returns true. It has an effect only with [WithMaxActive].
func WithWaitMode() ClientOption {
	return ownPool("WithWaitMode", func(c *clientConfig) { c.Wait = true })
}

// WithUsername sets the ACL user to log in as. The password is that of
// [NewClient], which then must not be empty. The default is the server's
// default user.
func WithUsername(name string) ClientOption {
	return ownPool("WithUsername", func(c *clientConfig) { c.Username = name })
}

// WithDatabase sets the number of the database. The default is 0.
func WithDatabase(n int) ClientOption {
	return ownPool("WithDatabase", func(c *clientConfig) { c.Database = n })
}

// WithTLS encrypts connections. A nil config means TLS 1.2 or newer with the
// system's certificates. If the config has no server name, the host of the
// address is used. By default connections are not encrypted.
func WithTLS(config *tls.Config) ClientOption {
	return ownPool("WithTLS", func(c *clientConfig) { c.TLS, c.UseTLS = config, true })
}

// WithDialTimeout limits connecting, including TLS and log-in. It must be above
// 0. The default is 5s.
func WithDialTimeout(d time.Duration) ClientOption {
	return ownPool("WithDialTimeout", func(c *clientConfig) { c.DialTimeout = d })
}

// WithDialer sets the function that connects to the server, for tunnels,
// proxies and tests. Network and address are those of [NewClient]. TLS and
// log-in come after it, on the connection that it returns. It must not be nil.
//
// It runs on a goroutine, so a call can end before it. A panic is the error of
// the dial. The Close of a connection must not block. Calls need fewer
// goroutines if it returns a *net.TCPConn or a
// *net.UnixConn.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) ClientOption {
	return ownPool("WithDialer", func(c *clientConfig) { c.Dial = dial })
}

// WithCredentials sets a function that returns the user and the password of
// each new connection, in place of the password of [NewClient] and
// [WithUsername]. Use it for tokens that expire. An empty password means no
// log-in. It must not be nil.
//
// Open connections are not logged in again. A server that ends them when the
// token expires costs no error, and each new connection asks for a token. If
// the server refuses a password, the function is asked once more. The error of
// the function is that of the dial; it must not contain a secret. The function
// runs on a goroutine, so a call can end before it.
func WithCredentials(get func(ctx context.Context) (user, password string, err error)) ClientOption {
	return ownPool("WithCredentials", func(c *clientConfig) { c.Login = get })
}

// WithCommandTimeout limits the wait for an answer of the server. It must be
// above 0. The default is 3s. The commands of a lock have at most a third of
// its lease.
func WithCommandTimeout(d time.Duration) ClientOption {
	return clientOption(func(c *clientConfig) { c.CommandTimeout = d })
}

// WithKeyPrefix sets the prefix of the names of all locks in Redis. The default
// is "relock:". It has at most 1024 bytes, and no braces, which would decide
// the slot in a Cluster.
func WithKeyPrefix(prefix string) ClientOption {
	return clientOption(func(c *clientConfig) { c.prefix = prefix })
}

// WithLogger sets the logger for background events: lost locks, renewals that
// fail, releases that are not confirmed, clean-up that was given up, calls that
// wait for a lock that the client itself holds, campaigns of a [Leader] that
// fail, and a sentinel or a server of a Cluster whose refusal does not count.
// It also logs calls that wait without a usable server: after a second, then
// every 30 s, and when that is over. By default nothing is logged. Returned
// errors are not logged, except for a lost lock.
//
// The handler must return quickly, because it runs on the renewal and wake-up
// goroutines. It must not use locks of the client.
func WithLogger(logger *slog.Logger) ClientOption {
	return clientOption(func(c *clientConfig) { c.logger = logger })
}

// WithObserver adds hooks that are called as the client's locks are used. If it
// is given more than once, all hooks are called, in order. A [RedLock] reports
// its calls and holds to the observers of its first client. It reports a node's
// renewals to the observers of that node's client.
func WithObserver(o Observer) ClientOption {
	return clientOption(func(c *clientConfig) { c.observer = c.observer.And(o) })
}

// WithReleaseOnClose makes [Client.Close] release all locks that are still
// held. That takes at most as long as one command may. Waiters of other clients
// get the locks, because Close removes its own calls from the queues first. A
// lock that is being acquired meanwhile may stay until its lease ends.
//
// By default the locks stay in Redis until their leases end, which is safer.
// Work that still runs under a hold, and does not check its context, is not
// protected any more once the lock is released.
func WithReleaseOnClose() ClientOption {
	return clientOption(func(c *clientConfig) { c.releaseOnClose = true })
}

// check reports the mistakes in the settings of any client.
func (c *clientConfig) check(m *lockspec.Problems) {
	for _, i := range c.missing {
		m.Check(false, "opts[%d]: ClientOption is nil", i)
	}
	m.Check(c.CommandTimeout > 0, "WithCommandTimeout: %v is not above 0", c.CommandTimeout)
	m.Check(!strings.ContainsAny(c.prefix, "{}"), "WithKeyPrefix: %q has a brace", c.prefix)
	m.Check(c.logger != nil, "WithLogger: is nil")
	m.Check(len(c.prefix) <= lockspec.MaxKey, "WithKeyPrefix: %d bytes are above %d", len(c.prefix), lockspec.MaxKey)
	c.locks.Check(m)
}

// checkConnection reports the mistakes in the settings of a pool of our own.
func (c *clientConfig) checkConnection(m *lockspec.Problems) {
	m.Check(c.MaxIdle >= 0, "WithMaxIdle: %d is negative", c.MaxIdle)
	m.Check(c.MaxActive >= 0, "WithMaxActive: %d is negative", c.MaxActive)
	m.Check(c.IdleTimeout > 0, "WithIdleTimeout: %v is not above 0", c.IdleTimeout)
	m.Check(c.DialTimeout > 0, "WithDialTimeout: %v is not above 0", c.DialTimeout)
	m.Check(c.Dial != nil || !c.has("WithDialer"), "WithDialer: is nil")
	m.Check(c.Login != nil || !c.has("WithCredentials"), "WithCredentials: is nil")
	m.Check(c.Login == nil || *c.Password == "" && c.Username == "", "WithCredentials: a user or password is given, too")
	m.Check(c.Database >= 0, "WithDatabase: %d is negative", c.Database)
	m.Check(c.Username == "" || *c.Password != "", "WithUsername: needs a password")
}
