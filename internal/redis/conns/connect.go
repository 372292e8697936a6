package conns

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/wire"
)

// connect takes a connection from the pool. putBack returns it. If callers do
// not wait for a free connection, the limits only apply to a dial. They cost
// more than taking an open connection.
func (d *lender) connect(ctx context.Context, limit time.Duration) (redis.Conn, error) {
	if d.own && d.slots == nil {
		return d.get(ctx, limit)
	}
	ctx, cancel := d.bound(ctx, limit)
	defer cancel()
	if d.slots == nil {
		return d.get(ctx, limit)
	}
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		if d.opening.Err() != nil {
			return nil, errs.ErrClosed
		}
		return nil, errNoConnection
	}
	conn, err := d.get(ctx, limit)
	if err != nil {
		d.slots.free()
	}
	return conn, err
}

var errNoConnection = fmt.Errorf("no free connection in the pool: %w", os.ErrDeadlineExceeded)

// get takes a connection from the pool, or dials within ctx and the limit. The
// user's Dial may not take the context, or may ignore it. So the caller
// continues when that is cancelled.
func (d *lender) get(ctx context.Context, limit time.Duration) (redis.Conn, error) {
	if d.own {
		if own, err := d.borrowOwn(ctx, false); err == nil {
			return own, nil
		}
	}
	conn, err := d.openOrIdle(ctx, limit)
	switch {
	case err != nil && !d.own && ctx.Err() != nil:
		return nil, errNoConnection
	case err != nil:
		return nil, d.explain(err)
	}
	return conn, nil
}

// getContext is GetContext of the pool, with a panic as an error. A pool that
// waits for connections can panic when it is closed meanwhile: redigo 1.9.3
// sends on the channel that its Close has closed.
func getContext(ctx context.Context, pool *redis.Pool) (conn redis.Conn, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the pool panicked: %v", p)
		}
	}()
	return pool.GetContext(ctx)
}

// breakOff notes a break, and has the pool drop the connection: another call
// may borrow it as soon as it is returned. A user's pool checks its own.
func (d *lender) breakOff(conn redis.Conn) {
	d.noteBreak()
	if own, ok := conn.(*wire.Conn); ok {
		_ = own.Close() // for the pool, which then closes it
	}
}

// toPool returns a connection to the pool. Its own error is ignored. Only that
// of the command on the connection counts.
func (d *lender) toPool(used redis.Conn) {
	if own, ok := used.(*wire.Conn); ok {
		used, own.Lent = own.Lent, nil
	}
	_ = used.Close()
	d.slots.free()
}

// dialBeside runs a dial that may ignore contexts on a goroutine, so that its
// caller can continue when ctx is cancelled.
func dialBeside(ctx context.Context, dial func() (redis.Conn, error)) (redis.Conn, error) {
	return wire.Beside(ctx, "dial", dial, func(c redis.Conn) { _ = c.Close() })
}
