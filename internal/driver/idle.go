package driver

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
)

// idleConns has the connections of a pool of our own. It is redigo's pool
// without a wrapper for each use of a connection.
type idleConns struct {
	most, mostOpen int           // how many may be idle, and open; 0 open is no limit
	timeout        time.Duration // for which one may be idle; 0 is no limit
	check          func(idle redis.Conn, lastUsed time.Time) error

	mu     sync.Mutex
	idle   []idleConn // the one that was used last is the last
	open   int        // also those in use
	closed bool
}

type idleConn struct {
	conn *conn
	used time.Time
}

// get returns an idle connection. If there is none, it is nil, and the caller
// may open one. That one counts as open from now on.
func (p *idleConns) get() (*conn, error) {
	for {
		last, old, err := p.take()
		for _, c := range old {
			_ = c.conn.Close() // not used any more
		}
		if last.conn == nil || p.check(last.conn, last.used) == nil {
			return last.conn, err
		}
		_ = last.conn.Close() // not used any more
		p.lost()
	}
}

// take takes out the connection that was used last, and those that were idle
// for too long. Without any, it counts one that the caller is to open.
func (p *idleConns) take() (last idleConn, old []idleConn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timeout > 0 {
		old = p.tooOld(time.Now().Add(-p.timeout))
	}
	switch n := len(p.idle); {
	case n > 0:
		last = p.idle[n-1]
		p.idle[n-1] = idleConn{}
		p.idle = p.idle[:n-1]
	case p.closed:
		err = errs.ErrClosed
	case p.mostOpen > 0 && p.open >= p.mostOpen:
		err = redis.ErrPoolExhausted
	default:
		p.open++
	}
	return last, old, err
}

// tooOld takes out the connections that were last used before then; mu is held.
func (p *idleConns) tooOld(then time.Time) (old []idleConn) {
	n := 0
	for n < len(p.idle) && p.idle[n].used.Before(then) {
		n++
	}
	if n == 0 {
		return nil
	}
	old = slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	p.open -= n
	return old
}

// count returns how many connections are open, and how many of them are idle.
func (p *idleConns) count() (open, idle int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open, len(p.idle)
}

// lost notes that a connection is closed, or was not opened.
func (p *idleConns) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
}

// put takes a connection back. It closes one that has failed, and the oldest if
// there are too many.
func (p *idleConns) put(c *conn) {
	if rest := p.keep(c); rest != nil {
		_ = rest.Close() // its error is of no use
	}
}

// keep returns the connection that is too many, or nil.
func (p *idleConns) keep(c *conn) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || c.Err() != nil {
		p.open--
		return c
	}
	p.idle = append(p.idle, idleConn{c, time.Now()})
	if len(p.idle) <= p.most {
		return nil
	}
	p.open--
	oldest := p.idle[0].conn
	p.idle = slices.Delete(p.idle, 0, 1)
	return oldest
}

// onlyIdle is get for a caller that opens none.
func (p *idleConns) onlyIdle() (redis.Conn, error) {
	idle, err := p.get()
	switch {
	case err != nil:
		return nil, err
	case idle == nil:
		p.lost() // get has counted one that is opened
		return nil, errNoIdle
	}
	return idle, nil
}

// close closes the idle connections, and those that are put back.
func (p *idleConns) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		_ = c.conn.Close() // the socket was closed before
	}
	p.open -= len(p.idle)
	p.idle = nil
}

// getOwn takes a connection from our own pool, or opens one within ctx and the
// limit.
func (d *Pool) getOwn(ctx context.Context, limit time.Duration) (redis.Conn, error) {
	idle, err := d.idle.get()
	switch {
	case err != nil:
		return nil, err
	case idle != nil:
		return idle, nil
	}
	ctx, cancel := d.bound(ctx, limit)
	defer cancel()
	opened, err := d.dialOwn(ctx)
	if err != nil {
		d.idle.lost()
	}
	return opened, err
}

// dialOwn opens a connection of our own.
func (d *Pool) dialOwn(ctx context.Context) (redis.Conn, error) {
	if d.opening.Err() != nil {
		return nil, errs.ErrClosed // before the user's dialer is called
	}
	opened, err := d.dialer.dial(ctx)
	if err != nil && d.opening.Err() != nil {
		return nil, errs.ErrClosed
	}
	return opened, err
}
