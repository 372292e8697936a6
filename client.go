package relock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/engine"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// Client is a pooled redigo client, and the engine of all locks that are made
// from it. One watchdog renews the locks. One worker retries unacknowledged
// releases. One subscription and one poller wake the waiters.
//
// It is safe for concurrent use. Make one for each server, and keep it for the
// life of the program.
type Client struct {
	engine *lease.Manager // docs/internals/design.md follows a call to the server and back
	config *clientConfig
	once   sync.Once   // for Close
	asked  atomic.Bool // the server has said whether it is part of a Cluster; see checkAlone
}

// Package queue reaches the engine of a client by this. It is set before any
// code of a user runs.
var _ = engine.Provide(func(client any) *lease.Manager {
	if c, ok := client.(*Client); ok && c != nil {
		return c.engine
	}
	return nil
}, func(t *driver.Topology, opts any) (client any, err error) {
	all, _ := opts.([]ClientOption)
	return newTopologyClient(t, all)
})

// NewClient returns a client of the server at address. The address is
// "host:port" for network "tcp", and a path for "unix". The password may be
// empty. NewClient makes no network call. It returns all mistakes in the
// settings in one error, which matches [ErrInvalid].
func NewClient(network, address, password string, opts ...ClientOption) (*Client, error) {
	c := newClientConfig(opts)
	c.Network, c.Address, *c.Password = network, address, password
	return newOwnClient(c, nil)
}

// NewClientURL returns a client of the server with this URL:
//
//	redis://[user:password@][host][:port][/database, or ?db=database]
//	rediss://...            the same, encrypted
//	unix://[user:password@]/path/to/socket[?db=database]
//	redis+sentinel://[user:password@]host[:port][,host[:port]...]/master[/database, or ?db=database]
//	rediss+sentinel://...   the same, encrypted; see [NewClientSentinel]
//	redis+cluster://[user:password@]host[:port][,host[:port]...]
//	rediss+cluster://...    the same, encrypted; see [NewClientCluster]
//
// Each redis may be valkey instead. The default host is localhost. The default
// port is 6379, and that of a sentinel 26379. User and password are those of
// the server. Options override the URL. NewClientURL makes no network call. Its
// errors do not contain the URL, because the URL may contain a password.
func NewClientURL(rawURL string, opts ...ClientOption) (*Client, error) {
	var m lockspec.Problems
	c := newClientConfig(nil)
	of := c.fromURL(rawURL, &m)
	c.apply(opts)
	return of(c, m)
}

func newOwnClient(c *clientConfig, m lockspec.Problems) (*Client, error) {
	if len(m) == 0 { // the error may quote the address, and that of a wrong URL may be part of a password
		checkAddress(&m, c.Network, c.Address)
	}
	c.checkAsksNone(&m)
	c.checkConnection(&m)
	c.check(&m)
	if err := m.Err(); err != nil {
		return nil, wrap("new client", "", err)
	}
	return newClient(c, conns.NewPool(&c.Config), false)
}

// NewClientPool returns a client that takes its connections from pool. It makes
// no network call. [Client.Close] leaves the pool open.
//
// The watchdog, the retrier of releases, waiters, and renewals that wait for
// replicas have separate connections. If more than four commands of locks are
// under way, the others share one more. These connections are dialled as the
// pool does, but without its TestOnBorrow and outside its limits. So they still
// work when the pool is exhausted or closed. IdleTimeout and MaxConnLifetime
// also apply to the shared connection.
//
// If a worker cannot connect, it borrows an idle connection of the pool, or
// uses the shared one. It borrows for at most a third of the shortest lease, or
// 100 ms if that is longer.
//
// The pool's connections must implement redis.ConnWithTimeout, as redigo's do.
// Otherwise the first call returns [ErrInvalid].
//
// Options that set up a pool or a connection are [ErrInvalid] here.
func NewClientPool(pool *redis.Pool, opts ...ClientOption) (*Client, error) {
	var m lockspec.Problems
	c := newClientConfig(opts)
	m.Check(pool != nil, "pool: is nil")
	m.Check(pool == nil || pool.Dial != nil || pool.DialContext != nil, "pool: has neither Dial nor DialContext")
	for _, name := range c.given {
		m.Check(false, "%s: is a setting of the given pool", name)
	}
	c.check(&m)
	if err := m.Err(); err != nil {
		return nil, wrap("new client", "", err)
	}
	return newClient(c, conns.FromPool(&c.Config, pool), false)
}

func newClient(c *clientConfig, d driver.Driver, sharded bool) (*Client, error) {
	id, err := lockspec.NewIdentity(sharded)
	if err != nil {
		return nil, wrap("new client", "", err)
	}
	m := lease.New(lease.Config{
		Identity: id, Prefix: c.prefix, Driver: d, Logger: c.logger, DialTimeout: c.DialTimeout,
		CommandTimeout: c.CommandTimeout,
		ReleaseOnClose: c.releaseOnClose, Hooks: c.hooks(), Limits: lease.DefaultLimits(),
	})
	return &Client{engine: m, config: c}, nil
}

// SetNEX sets key to value with an expiry if key does not exist (SET NX PX). It
// reports whether it did. The key is used as it is, without the prefix of
// locks. The expiry is whole milliseconds, 10ms to 10 years.
func (c *Client) SetNEX(ctx context.Context, key, value string, expiry time.Duration) (bool, error) {
	var m lockspec.Problems
	m.CheckMillis("expiry", expiry)
	if err := c.ready(ctx, m.Err()); err != nil {
		return false, wrap("setnex", key, err)
	}
	o := c.engine.Driver.Call(ctx, driver.Limits{}, driver.SetNX(key, value, expiry))
	return o.Reply == "OK", wrap("setnex", key, driver.ContextErr(ctx, o.Err))
}

// Script is a Lua script for [Client.Eval]. It is sent by its SHA-1 digest, and
// in full if the server does not know it yet.
type Script struct{ code *script.Script }

// NewScript returns a script with this source. Pass names and values as keys
// and arguments, never as part of the source: each source stays in the server's
// memory.
func NewScript(source string) *Script { return &Script{script.New(source)} }

// Eval runs a script and returns its reply: nil, int64, string, or []any of
// these. Keys are used as they are, without the prefix of locks.
//
// The script is sent once. After an error that is not the server's, it may have
// run or may still run. The same is true of a reply of over 512 MiB, which is
// refused. In that limit, each array counts as 1 KiB more.
func (c *Client) Eval(ctx context.Context, script *Script, keys []string, args ...any) (any, error) {
	key := ""
	if len(keys) > 0 {
		key = keys[0]
	}
	var m lockspec.Problems
	m.Check(script != nil, "script: is nil")
	m.Check(script == nil || script.code != nil, "script: was not made by NewScript")
	if err := c.ready(ctx, m.Err()); err != nil {
		return nil, wrap("eval", key, err)
	}
	args = driver.Resolved(args)
	o := c.engine.Driver.Call(ctx, driver.Limits{}, script.code.ByDigest(keys, args))
	if driver.IsNoScript(o.Err) {
		o = c.engine.Driver.Call(ctx, driver.Limits{}, script.code.BySource(keys, args))
	}
	return driver.Text(o.Reply), wrap("eval", key, driver.ContextErr(ctx, driver.OfScript(o.Err)))
}

var errNilContext = fmt.Errorf("%w: context: is nil", ErrInvalid)

// isMade reports whether the client was made by its constructor.
func (c *Client) isMade() bool { return c != nil && c.engine != nil }

// notMade returns the error of a call of a client that was not made.
func (c *Client) notMade() error {
	var m lockspec.Problems
	m.CheckClient("client", c == nil, false)
	return m.Err()
}

// ready returns an error if a call cannot begin: because of a mistake, a closed
// client, or a cancelled context.
func (c *Client) ready(ctx context.Context, mistake error) error {
	switch {
	case mistake != nil:
		return mistake
	case !c.isMade():
		return c.notMade()
	case ctx == nil:
		return errNilContext
	case c.engine.Life.Err() != nil:
		return ErrClosed
	case ctx.Err() != nil:
		return errs.EndOf(ctx, nil)
	}
	return nil
}

// Close ends all waits and holds with [ErrClosed], and closes the connections.
// It waits until the client's goroutines have ended. If one of them is in your
// code, such as a Dial function or a log handler, Close waits only for a
// moment.
//
// Locks that are still held stay in Redis until their leases end, but see
// [WithReleaseOnClose]. Close logs which, and in how long the last one is free.
// Releases that were not confirmed are sent once more, within 40 ms, or with
// that option within the time of a command. Those that are not answered by then
// are given up and logged. A pool of yours stays open.
//
// Calling Close again does nothing.
func (c *Client) Close() error {
	if !c.isMade() {
		return wrap("close", "", c.notMade())
	}
	var err error
	c.once.Do(func() { err = c.engine.Close() })
	return wrap("close", "", err)
}

// String returns a text without secrets.
func (c *Client) String() string { return "relock client" }

// GoString returns the same as String, for %#v.
func (c *Client) GoString() string { return c.String() }
