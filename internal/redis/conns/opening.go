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
	ctx, cancel := l.driver.bound(l.life, max(limit, driver.MinConnect))
	defer cancel()
	o.conn, o.err = l.driver.dial(ctx)
	l.keep(o)
	close(o.done)
}

// keep ends the attempt. A link that was closed meanwhile keeps no connection.
func (l *poolLink) keep(o *opening) {
	l.mu.Lock()
	l.opening = nil
	unwanted := l.closed && o.err == nil
	if !l.closed && o.err == nil {
		l.conn, l.fresh = o.conn, true
	}
	l.mu.Unlock()
	if unwanted {
		_ = o.conn.Close() // not used yet; may block
		o.conn, o.err = nil, errs.ErrClosed
	}
}

// succeeds reports whether there is a connection within limit after the start
// of the attempt.
func (o *opening) succeeds(limit time.Duration) bool {
	timer := time.NewTimer(time.Until(o.begun.Add(limit)))
	defer timer.Stop()
	select {
	case <-o.done:
		return o.err == nil
	case <-timer.C:
		return false
	}
}
