package conns

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/wire"
)

// lender lends connections to callers, one to each: from our own redigo pool or
// from the user's.
type lender struct {
	server

	Redis *redis.Pool
	slots slots // in place of redigo's own wait, which cannot be closed safely
	// returned takes a connection that a caller returns, with its slot, to
	// a worker that waits for one. It has no buffer.
	returned chan redis.Conn
	// freed has a value after a connection was returned to the pool, for
	// one of the calls that wait for that.
	freed   chan struct{}
	spare   spares
	dialer  *wire.Dialer  // of our own pool
	sockets *wire.Sockets // of the connections that dialer opened
	// borrowings are contexts for the next callers. Without them each call
	// would cost one object more.
	borrowings sync.Pool
}

// borrowing is the context of a caller that takes a connection from our own
// redigo pool. The pool gives it to check or dialLent, which alone see the
// connection: what the pool returns is a wrapper that hides it.
type borrowing struct {
	context.Context

	idleOnly bool       // no connection is opened
	conn     *wire.Conn // what was borrowed
}

// lend makes our own redigo pool. It never waits for a free connection, because
// redigo's wait cannot be closed safely: slots do that.
func (d *lender) lend(c *driver.Config) *redis.Pool {
	return &redis.Pool{
		DialContext: d.dialLent, TestOnBorrowContext: d.check,
		MaxIdle: c.MaxIdle, MaxActive: c.MaxActive, IdleTimeout: c.IdleTimeout,
	}
}

// borrowOwn takes a connection from our own pool, or opens one within ctx if
// dials is true. Nothing else asks that pool for a connection.
func (d *lender) borrowOwn(ctx context.Context, dials bool) (*wire.Conn, error) {
	b, ok := d.borrowings.Get().(*borrowing)
	if !ok {
		b = &borrowing{}
	}
	*b = borrowing{Context: ctx, idleOnly: !dials}
	lent, err := d.Redis.GetContext(b)
	borrowed := b.conn
	*b = borrowing{}
	d.borrowings.Put(b)
	switch {
	case err != nil && d.life.Err() != nil:
		return nil, errs.ErrClosed
	case err != nil:
		return nil, err
	}
	borrowed.Lent = lent
	return borrowed, nil
}

// check refuses an idle connection that was last used before another one broke,
// because the server was probably restarted. It also refuses one on which there
// is something to read. It sends the server nothing.
//
// It looks at the socket even if the connection was used a moment ago. That is
// the only system call beside a write and a read, and an answer too many would
// be taken for a grant without it.
func (d *lender) check(ctx context.Context, idle redis.Conn, lastUsed time.Time) error {
	if d.isStale(lastUsed) {
		return errStale
	}
	own := idle.(*wire.Conn) // dialLent opens no other
	ctx.(*borrowing).conn = own
	return own.Rest()
}

// dialLent opens a connection for the pool.
func (d *lender) dialLent(ctx context.Context) (redis.Conn, error) {
	b := ctx.(*borrowing)
	if b.idleOnly {
		return nil, errNoIdle
	}
	opened, err := d.dialOwn(b.Context)
	if err != nil {
		return nil, err
	}
	b.conn = opened
	return opened, nil
}

// dialOwn opens a connection of our own.
func (d *lender) dialOwn(ctx context.Context) (*wire.Conn, error) {
	if d.opening.Err() != nil {
		return nil, errs.ErrClosed // before the user's dialer is called
	}
	opened, err := d.dialer.Dial(ctx)
	if err != nil && d.opening.Err() != nil {
		return nil, errs.ErrClosed
	}
	return opened, err
}
