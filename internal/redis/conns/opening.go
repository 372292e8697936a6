package conns

import (
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
)

// opening is one attempt of a link to connect. It runs on a goroutine, so that
// a batch need not wait for a dial that hangs. The link keeps the connection,
// also for a later batch. The dial ends when the link is closed or its node
// retired.
type opening struct {
	begun time.Time
	done  chan struct{} // closed when conn or err is set
	conn  redis.Conn
	err   error
}

// open returns the attempt under way, or starts one; mu is held.
func (l *poolLink) open(limit time.Duration) *opening {
	if l.opening != nil {
		return l.opening
	}
	o := &opening{begun: time.Now(), done: make(chan struct{})}
	if !l.driver.tasks.Start(func() { l.dial(o, limit) }) {
		o.err = errs.ErrClosed
		close(o.done)
		return o
	}
	l.opening = o
	return o
}

func (l *poolLink) dial(o *opening, limit time.Duration) {
	limit = min(max(limit, l.slow, driver.MinConnect), l.driver.dialTimeout)
	ctx, cancel := l.driver.bound(l.life, limit)
	defer cancel()
	o.conn, o.err = l.driver.dialGreeted(ctx)
	l.slow = slower(limit, o.err)
	l.keep(o)
	close(o.done)
}

// keep ends the attempt. A link that was closed meanwhile keeps no connection.
func (l *poolLink) keep(o *opening) {
	l.mu.Lock()
	l.opening = nil
	unwanted := l.closed && o.err == nil
	if !l.closed && o.err == nil {
		l.conn = o.conn
	}
	l.mu.Unlock()
	if unwanted {
		_ = o.conn.Close() // not used yet; may block
		o.conn, o.err = nil, errs.ErrClosed
	}
}

// slower returns the limit for the next dial after one that took too long: the
// server may be far away. After another error it is 0.
func slower(limit time.Duration, err error) time.Duration {
	if driver.IsTimeout(err) {
		return 2 * limit
	}
	return 0
}
