package conns

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/wire"
)

// Pool is one server, on a pool of connections: either our own or the user's.
// It is the driver of a client that has only this server.
type Pool struct {
	lender

	shared *pipeline
	apart  int64        // how many calls of Send have a connection each; tests set it
	busy   atomic.Int64 // calls of Send under way
}

func newPool(c *driver.Config) *Pool {
	d := &Pool{apart: crowd}
	d.returned, d.freed = make(chan redis.Conn), make(chan struct{}, 1)
	d.init(c)
	d.shared = &pipeline{lender: &d.lender}
	return d
}

// NewPool returns a driver with a pool made from the options.
func NewPool(c *driver.Config) *Pool {
	d := newPool(c)
	d.own, d.rotates = true, c.Login != nil
	d.shared.idle = c.IdleTimeout
	d.sockets = wire.NewSockets(&d.tasks)
	d.dialer = wire.NewDialer(c, d.sockets)
	d.dial = func(ctx context.Context) (redis.Conn, error) {
		opened, err := d.dialOwn(ctx)
		if err != nil {
			return nil, err // a nil *conn is no nil redis.Conn
		}
		return opened, nil
	}
	d.Redis = d.lend(c)
	if c.Wait && c.MaxActive > 0 {
		d.slots = make(slots, c.MaxActive)
		d.spare.slots = d.slots
	}
	return d
}

// FromPool returns a driver on the user's pool.
func FromPool(c *driver.Config, pool *redis.Pool) *Pool {
	d := newPool(c)
	d.Redis = pool
	d.shared.idle, d.shared.age = pool.IdleTimeout, pool.MaxConnLifetime
	d.dial = func(ctx context.Context) (redis.Conn, error) {
		return dialBeside(ctx, func() (redis.Conn, error) { return dialAsPool(ctx, pool) })
	}
	return d
}

// dialAsPool dials as the user's pool does.
func dialAsPool(ctx context.Context, pool *redis.Pool) (conn redis.Conn, err error) {
	if pool.DialContext != nil {
		conn, err = pool.DialContext(ctx)
	} else {
		conn, err = pool.Dial()
	}
	if err != nil {
		return nil, err
	}
	if _, ok := conn.(redis.ConnWithTimeout); !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("%w (%T)", errNoTimeouts, conn)
	}
	return conn, nil
}

// Send runs one command; see [driver.Driver].
func (d *Pool) Send(ctx context.Context, limit driver.Limits, r driver.Request) driver.Result {
	n := d.busy.Add(1)
	defer d.busy.Add(-1)
	if (n > d.apart || limit.Beside) && r.Ack == nil {
		return d.shared.call(ctx, limit, r)
	}
	return d.Call(ctx, limit, r)
}

// Call runs one command on a connection of the pool; see [driver.Driver].
func (d *Pool) Call(ctx context.Context, limit driver.Limits, r driver.Request) driver.Result {
	if ctx.Err() != nil {
		return driver.Result{Err: driver.ErrAbandoned}
	}
	return d.call(ctx, limit, nil, r)
}

// CloseWait limits how long Close waits for goroutines. They end immediately
// when their connections are closed. Only a user's code can keep one longer: a
// Dial without a context, in the user's own pool.
const CloseWait = 40 * time.Millisecond

// Close closes every connection; see [driver.Driver].
func (d *Pool) Close() error {
	d.end()
	if d.own {
		d.sockets.Close()
		_ = d.Redis.Close() // the sockets are closed
	}
	d.tasks.WaitFor(CloseWait)
	return nil
}

// Retire ends the connections under all calls, also those that are being
// opened, and opens no more. A call that is not sent yet gets ErrClosed.
func (d *Pool) Retire() {
	d.noteBreak()
	d.endOpening()
	d.sockets.Close()
}

// Connections returns how many connections are open; see [driver.Driver].
func (d *Pool) Connections() int {
	if d.own {
		return d.sockets.Count()
	}
	return d.Redis.ActiveCount()
}

// Address returns the address of the server; see [driver.Node].
func (d *Pool) Address() string {
	if !d.own {
		return ""
	}
	return d.dialer.Address
}

// LooksForMasters reports whether there is another server, which a pool never
// has.
func (d *Pool) LooksForMasters() bool { return false }

// Home returns the pool: it has all keys.
func (d *Pool) Home(context.Context, string) (driver.Node, error) { return d, nil }

// Known returns the pool.
func (d *Pool) Known(string) driver.Node { return d }

// Nodes returns the pool only.
func (d *Pool) Nodes(context.Context) ([]driver.Node, error) { return []driver.Node{d}, nil }

// Link returns a connection for one worker; see [driver.Node].
func (d *Pool) Link() driver.Link {
	l := &poolLink{driver: &d.lender, shared: d.shared}
	l.life, l.end = context.WithCancel(d.life)
	return l
}
