package driver

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/tasks"
)

// Pool is one server, on a pool of connections: either our own or the user's.
// It is the driver of a client that has only this server.
type Pool struct {
	Redis *redis.Pool // the user's; nil if it is our own
	idle  *idleConns  // of our own pool
	own   bool
	dial  func(context.Context) (redis.Conn, error)
	// slots has a value for each connection in use, if callers wait for a free
	// one. redigo's own wait cannot be closed safely.
	slots   chan struct{}
	dialer  *dialer  // of our own pool
	sockets *sockets // of the connections that dialer opened
	shared  *pipeline

	Apart int64        // how many calls of Send have a connection each; tests set it
	busy  atomic.Int64 // calls of Send under way

	life           context.Context // cancelled by Close
	end            context.CancelFunc
	opening        context.Context // of dials; cancelled by retire and Close
	endOpening     context.CancelFunc
	dialTimeout    time.Duration
	commandTimeout time.Duration
	start          time.Time // broken counts from it
	// broken is when the last connection broke, in ns after start. Idle
	// connections that are older are not used again.
	broken atomic.Int64
	tasks  tasks.Group
}

func newPool(c *Config) *Pool {
	d := &Pool{dialTimeout: c.DialTimeout, commandTimeout: c.CommandTimeout, Apart: Crowd, start: time.Now()}
	d.life, d.end = context.WithCancel(context.Background())
	d.opening, d.endOpening = context.WithCancel(d.life)
	d.shared = &pipeline{driver: d}
	return d
}

// NewPool returns a driver with a pool made from the options.
func NewPool(c *Config) *Pool {
	d := newPool(c)
	d.own = true
	d.shared.idle = c.IdleTimeout
	d.sockets = newSockets()
	d.dialer = newDialer(c, d.sockets)
	d.dial = d.dialOwn
	d.idle = &idleConns{most: c.MaxIdle, mostOpen: c.MaxActive, timeout: c.IdleTimeout, check: d.check}
	if c.Wait && c.MaxActive > 0 {
		d.slots = make(chan struct{}, c.MaxActive)
	}
	return d
}

// FromPool returns a driver on the user's pool.
func FromPool(c *Config, pool *redis.Pool) *Pool {
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

var errNoTimeouts = fmt.Errorf("%w: pool: its connections do not implement redis.ConnWithTimeout", errs.ErrInvalid)

// check refuses an idle connection that was last used before another one broke,
// because the server was probably restarted. It also refuses one on which there
// is something to read. It sends the server nothing.
//
// It looks at the socket even if the connection was used a moment ago. That is
// the only system call beside a write and a read, and an answer too many would
// be taken for a grant without it.
func (d *Pool) check(idle redis.Conn, lastUsed time.Time) error {
	if int64(lastUsed.Sub(d.start)) <= d.broken.Load() {
		return errStale
	}
	return atRest(idle)
}

var errStale = errors.New("idle connection is older than a break")

// InUse returns how many connections callers have. They are only counted if
// callers wait for a free one.
func (d *Pool) InUse() int { return len(d.slots) }

// Sending returns how many calls of Send are under way.
func (d *Pool) Sending() int64 { return d.busy.Load() }

// Send runs one command; see [Driver].
func (d *Pool) Send(ctx context.Context, limit Limits, r Request) Result {
	n := d.busy.Add(1)
	defer d.busy.Add(-1)
	if n > d.Apart && r.Ack == nil {
		return d.shared.call(ctx, limit, r)
	}
	return d.Call(ctx, limit, r)
}

// Call runs one command on a connection of the pool; see [Driver].
func (d *Pool) Call(ctx context.Context, limit Limits, r Request) Result {
	switch {
	case ctx.Err() != nil:
		return Result{Err: ErrAbandoned}
	case d.own && (ctx.Done() == nil || d.dialer.interruptible()):
		return d.run(ctx, limit, nil, r)
	}
	return d.callBeside(ctx, limit, r)
}

// CloseWait limits how long Close waits for goroutines. They end immediately
// when their connections are closed. Only a user's code can keep one longer: a
// Dial without a context, in the user's own pool.
const CloseWait = 40 * time.Millisecond

// Close closes every connection; see [Driver].
func (d *Pool) Close() error {
	d.end()
	if d.own {
		d.sockets.close()
		d.idle.close()
	}
	d.tasks.WaitFor(CloseWait)
	return nil
}

// retire ends the connections under all calls, also those that are being
// opened, and opens no more. A call that is not sent yet gets ErrClosed.
func (d *Pool) retire() {
	d.noteBreak()
	d.endOpening()
	d.sockets.close()
}

// Connections returns how many connections are open; see [Driver].
func (d *Pool) Connections() int {
	if d.own {
		return d.sockets.count()
	}
	return d.Redis.ActiveCount()
}

// Open returns how many connections are open in our own pool, without those
// beside it.
func (d *Pool) Open() int {
	open, _ := d.idle.count()
	return open
}

// Idle returns how many of them are idle.
func (d *Pool) Idle() int {
	_, idle := d.idle.count()
	return idle
}

// Home returns the pool: it has all keys.
func (d *Pool) Home(context.Context, string) (Node, error) { return d, nil }

// Known returns the pool.
func (d *Pool) Known(string) Node { return d }

// Nodes returns the pool only.
func (d *Pool) Nodes(context.Context) ([]Node, error) { return []Node{d}, nil }

// Link returns a connection for one worker; see [Node].
func (d *Pool) Link() Link {
	l := &poolLink{driver: d}
	l.life, l.end = context.WithCancel(d.life)
	return l
}
