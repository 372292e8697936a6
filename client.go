package relock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
)

// Client is a pooled redigo client, and the engine of all locks that are made from it: one watchdog renews
// them, one retrier repeats releases that were not answered, one subscription and one poller wake all that wait.
//
// It is safe for concurrent use. Make one for a server and keep it for the life of the program.
type Client struct {
	engine *lease.Manager // docs/design.md follows a call to the server and back
	config *clientConfig
	once   sync.Once // closes it
}

// NewClient returns a client of the server at address, "host:port" for network "tcp" and a path for "unix".
// The password may be empty. It makes no network call. All mistakes in the settings are reported at once, in
// an error that matches [ErrInvalid].
func NewClient(network, address, password string, opts ...ClientOption) (*Client, error) {
	c := newClientConfig(opts)
	c.Network, c.Address, *c.Password = network, address, password
	return newOwnClient(c, nil)
}

// NewClientURL returns a client of the server that a URL names:
//
//	redis://[user:password@][host][:port][/database, or ?db=database]
//	rediss://...            the same, encrypted
//	unix://[user:password@]/path/to/socket[?db=database]
//
// A host that is missing is localhost, a port 6379. Options come on top of what the URL says. It makes no network
// call. No error repeats the URL, as it may have a password in it.
func NewClientURL(rawURL string, opts ...ClientOption) (*Client, error) {
	var m lockspec.Problems
	c := newClientConfig(nil)
	c.fromURL(rawURL, &m)
	c.apply(opts)
	return newOwnClient(c, m)
}

func newOwnClient(c *clientConfig, m lockspec.Problems) (*Client, error) {
	if len(m) == 0 { // what a URL with a mistake tells as its address may be part of a password
		checkAddress(&m, c.Network, c.Address)
	}
	c.checkConnection(&m)
	c.check(&m)
	if err := m.Err(); err != nil {
		return nil, wrap("new client", "", err)
	}
	return newClient(c, driver.NewPool(&c.Config))
}

// NewClientPool returns a client that takes its connections from pool. Close
// leaves the pool open. The watchdog, the retrier of releases, waiters and renewals that
// wait for replicas have connections of their own, as have the commands of
// locks beyond four at once, which share one: dialled as the pool does, without
// its TestOnBorrow and outside its limits, they still work when the pool is
// exhausted or closed. If a worker cannot connect, it borrows an idle
// connection of the pool, for a third of the shortest lease at most (100 ms at
// least), or uses the shared one. IdleTimeout and MaxConnLifetime hold for the
// shared one too.
//
// The pool's connections must implement redis.ConnWithTimeout, as redigo's do:
// otherwise the first call returns [ErrInvalid].
//
// Options that set up a pool or a connection are mistakes here. It makes no
// network call.
func NewClientPool(pool *redis.Pool, opts ...ClientOption) (*Client, error) {
	var m lockspec.Problems
	c := newClientConfig(opts)
	m.Check(pool != nil, "pool: is nil")
	m.Check(pool == nil || pool.Dial != nil || pool.DialContext != nil, "pool: has neither Dial nor DialContext")
	for _, name := range c.given {
		m.Check(false, "%s: belongs to the pool, which is given", name)
	}
	c.check(&m)
	if err := m.Err(); err != nil {
		return nil, wrap("new client", "", err)
	}
	return newClient(c, driver.FromPool(&c.Config, pool))
}

func newClient(c *clientConfig, d driver.Driver) (*Client, error) {
	id, err := lockspec.NewIdentity()
	if err != nil {
		return nil, wrap("new client", "", err)
	}
	m := lease.New(lease.Config{
		Identity: id, Prefix: c.prefix, Driver: d, Logger: c.logger, DialTimeout: c.DialTimeout, CommandTimeout: c.CommandTimeout,
		ReleaseOnClose: c.releaseOnClose, Hooks: c.observer.hooks(),
	})
	return &Client{engine: m, config: c}, nil
}

// SetNEX sets key to value with an expiry if it does not exist (SET NX PX), and says whether it did. The key
// is taken as it is, without the prefix of locks. The expiry is whole milliseconds, 10ms or more.
func (c *Client) SetNEX(ctx context.Context, key, value string, expiry time.Duration) (bool, error) {
	var m lockspec.Problems
	m.CheckMillis("expiry", expiry)
	if err := c.ready(ctx, m.Err()); err != nil {
		return false, wrap("setnex", key, err)
	}
	o := c.engine.Driver.Call(ctx, driver.Limits{}, driver.SetNX(key, value, expiry))
	return o.Reply == "OK", wrap("setnex", key, driver.Ended(ctx, o.Err))
}

// Eval runs a script, and returns what it answers: nil, int64, string or []any of these. Keys are taken as
// they are, without the prefix of locks.
//
// It is sent once: after an error that is not the server's, the script may have run or may still run.
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
	o := c.engine.Driver.Call(ctx, driver.Limits{}, script.code.ByDigest(keys, args))
	if driver.IsNoScript(o.Err) {
		o = c.engine.Driver.Call(ctx, driver.Limits{}, script.code.BySource(keys, args))
	}
	return driver.Text(o.Reply), wrap("eval", key, driver.Ended(ctx, o.Err))
}

// Ping sends PING to the server and returns an error if it does not answer.
func (c *Client) Ping(ctx context.Context) error {
	if err := c.ready(ctx, nil); err != nil {
		return wrap("ping", "", err)
	}
	o := c.engine.Driver.Call(ctx, driver.Limits{}, driver.Request{Cmd: "PING"})
	return wrap("ping", "", driver.Ended(ctx, o.Err))
}

var errNilContext = fmt.Errorf("%w: context: is nil", ErrInvalid)

// ready says why a call cannot begin: a mistake, a closed client, or a context that has ended.
func (c *Client) ready(ctx context.Context, mistake error) error {
	switch {
	case mistake != nil:
		return mistake
	case c == nil || c.engine == nil:
		return fmt.Errorf("%w: client: was not made by NewClient", ErrInvalid)
	case ctx == nil:
		return errNilContext
	case c.engine.Life.Err() != nil:
		return ErrClosed
	case ctx.Err() != nil:
		return errs.EndOf(ctx, nil)
	}
	return nil
}

// Close ends all waits and holds with [ErrClosed], cuts the connections and waits until the client's
// goroutines have ended; code of yours in which one is, a Dial or a log handler, is waited for only for a moment. Locks that are still
// held stay in Redis until their leases end, but see [WithReleaseOnClose]; releases that were not confirmed are given up
// and logged, with that option after they were sent once more. A pool that was given stays open. Calling it again does
// nothing.
func (c *Client) Close() error {
	if c == nil || c.engine == nil {
		return wrap("close", "", fmt.Errorf("%w: client: was not made by NewClient", ErrInvalid))
	}
	var err error
	c.once.Do(func() { err = c.engine.Close() })
	return wrap("close", "", err)
}

// String says nothing that is secret.
func (c *Client) String() string { return "relock client" }

// GoString is String, for %#v.
func (c *Client) GoString() string { return c.String() }
