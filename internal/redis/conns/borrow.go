package conns

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/redis/driver"
)

// isLent reports whether a connection of the pool is in use, or being opened.
func (d *lender) isLent() bool { return d.Redis.ActiveCount() > d.Redis.IdleCount() }

// putBack returns a connection to the pool. A worker that has no connection may
// be waiting for it: it gets it first.
func (d *lender) putBack(used redis.Conn) {
	select {
	case d.returned <- used:
	default:
		d.toPool(used)
		nudge(d.freed)
	}
}

// borrowFreed is borrow for one of several calls. If there are more idle
// connections, the next call has one, too.
func (d *lender) borrowFreed(ctx context.Context) redis.Conn {
	conn := d.borrow(ctx, driver.MinLimit)
	if conn != nil {
		nudge(d.freed)
	}
	return conn
}

// borrow takes an idle connection from the pool. It returns nil if there is
// none. putBack returns the connection.
func (d *lender) borrow(ctx context.Context, limit time.Duration) redis.Conn {
	if !d.slots.take() {
		return nil
	}
	conn, err := d.takeIdle(ctx, limit)
	if err != nil {
		d.slots.free()
		return nil
	}
	return conn
}

// takeIdle takes an idle connection from the pool, for a caller that has a
// slot. The user's pool may dial instead, if its idle ones are stale.
func (d *lender) takeIdle(ctx context.Context, limit time.Duration) (redis.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	switch {
	case d.own:
		own, err := d.borrowOwn(ctx, false)
		if err != nil {
			return nil, err
		}
		return own, nil
	case d.Redis.IdleCount() == 0:
		return nil, errNoIdle
	}
	return dialBeside(ctx, func() (redis.Conn, error) { return getContext(ctx, d.Redis) })
}
