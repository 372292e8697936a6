package conns

import (
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/redis/driver"
)

// waiting is how long a link waits for the answers to a pipeline. The mutex of
// the link guards it.
type waiting struct {
	early  time.Time   // to be shortened to, before the pipeline is sent
	closer *time.Timer // closes the connection; nil before
	until  time.Time
	waits  time.Duration // that replicas may take, and are part of it
	over   atomic.Bool   // the closer has closed the connection
}

// isOver reports whether the closer has ended the pipeline. Over a borrowed
// connection there is no closer, and w is nil.
func (w *waiting) isOver() bool { return w != nil && w.over.Load() }

// beginWait notes that a pipeline is under way, until endWait.
func (l *poolLink) beginWait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = &waiting{}
}

func (l *poolLink) endWait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting.closer != nil {
		l.waiting.closer.Stop()
	}
	l.waiting = nil
}

// expect starts the wait for the answers on a connection. A user's connection
// may not support deadlines, so a closer follows the deadline after a grace.
func (l *poolLink) expect(conn redis.Conn, deadline time.Time, requests []driver.Request) *waiting {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.waiting
	w.waits, w.until = WaitsOf(requests), deadline
	w.closer = time.AfterFunc(withGrace(time.Until(deadline)), func() {
		w.over.Store(true)
		_ = conn.Close()
	})
	if !w.early.IsZero() {
		w.shorten(w.early)
	}
	return w
}

// Shorten makes the closer close the connection earlier; see [driver.Link].
func (l *poolLink) Shorten(by time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch w := l.waiting; {
	case w == nil:
	case w.closer != nil:
		w.shorten(by)
	case w.early.IsZero() || by.Before(w.early):
		w.early = by
	}
}

func (w *waiting) shorten(by time.Time) {
	by = by.Add(w.waits)
	if by.Before(w.until) {
		w.until = by
		w.closer.Reset(time.Until(by))
	}
}
