package outage

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/relock-go/relock/internal/errs"
)

// enter makes c one of the calls that fail at a server; mu is held.
func (l *Log) enter(c *Call, name string, now time.Time) {
	l.forget(now)
	s := l.servers[name]
	if s == nil {
		s = &server{name: name}
		l.servers[name] = s
	}
	if !s.open && s.calls == 0 {
		s.since = l.Since(c)
	}
	s.calls++
	c.at = s
}

// leave takes c out of the calls that fail at its server. If nobody waits any
// more, the outage is over; mu is held.
func (l *Log) leave(c *Call, others int64) {
	s := c.at
	if s == nil {
		return
	}
	c.at = nil
	s.calls--
	if s.calls == 0 && others <= 0 {
		l.close(s, "relock: no call waits for the server any more")
	}
}

// forget forgets servers that no call fails at; mu is held.
func (l *Log) forget(now time.Time) {
	maps.DeleteFunc(l.servers, func(_ string, s *server) bool {
		old := s.calls == 0 && now.Sub(s.failed) >= memory
		if old && s.open {
			l.open.Add(-1)
		}
		return old
	})
}

// close logs the end of an outage, if there is one; mu is held.
func (l *Log) close(s *server, text string) {
	if s.open {
		s.open = false
		l.open.Add(-1)
		l.write(slog.LevelInfo, text, s)
	}
}

// write logs a line about a server, after the line before; mu is held.
func (l *Log) write(level slog.Level, text string, s *server, more ...any) {
	attributes := append([]any{"since", errs.Ago(s.since)}, more...)
	if s.name != "" {
		attributes = append([]any{"server", s.name}, attributes...)
	}
	before, done := l.last, make(chan struct{})
	l.last = done
	l.start(func() {
		defer close(done)
		if before != nil {
			<-before
		}
		l.logger.Log(context.Background(), level, text, attributes...)
	})
}
