package driver

import (
	"time"

	"github.com/gomodule/redigo/redis"
)

// waiting is how long a link waits for the answers to a pipeline. The closer
// closes the connection then. It is nil while no pipeline is under way.
type waiting struct {
	closer *time.Timer
	until  time.Time
	waits  time.Duration // that replicas may take, and are part of it
}

// expect returns the closer of a pipeline. A user's connection may not support
// deadlines, so the closer follows the deadline after a grace.
func (l *poolLink) expect(conn redis.Conn, deadline time.Time, requests []Request) *time.Timer {
	l.mu.Lock()
	defer l.mu.Unlock()
	closer := time.AfterFunc(withGrace(time.Until(deadline)), func() { _ = conn.Close() })
	l.waiting = waiting{closer: closer, until: deadline, waits: waitsOf(requests)}
	return closer
}

func (l *poolLink) expectNothing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting.closer.Stop()
	l.waiting = waiting{}
}

// Shorten makes the closer close the connection earlier; see [Link].
func (l *poolLink) Shorten(by time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	by = by.Add(l.waiting.waits)
	if l.waiting.closer == nil || !by.Before(l.waiting.until) {
		return
	}
	l.waiting.until = by
	if l.waiting.closer.Stop() {
		l.waiting.closer.Reset(time.Until(by))
	}
}
