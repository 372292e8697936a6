package outage

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Patience is for how long a call may get no answer before a warning.
	Patience = time.Second
	// pause is the shortest time between two warnings of one server.
	pause = 30 * time.Second
	// memory is for how long a server that no call fails at is remembered.
	memory = time.Minute
)

// Log reports the outages that the waiting calls of one client meet. It is safe
// for concurrent use.
type Log struct {
	logger *slog.Logger
	start  func(func())
	born   time.Time
	open   atomic.Int64 // outages whose end was not logged yet

	mu      sync.Mutex
	servers map[string]*server
	last    chan struct{} // closed when the last line was written; nil before the first
}

// server is one that calls fail at, or did not long ago.
type server struct {
	name   string
	calls  int       // that fail there now
	since  time.Time // when the outage began
	failed time.Time // the last failure
	warned time.Time // the last warning; zero before
	open   bool      // the end of the outage was not logged yet
}

// Call is one call that waits. Only its goroutine uses it. The zero value has
// met no failure.
type Call struct {
	at    *server       // that the last attempt failed at; nil if there is none
	since time.Duration // since when no attempt was answered, see age; 0 if the last one was
}

// New returns the log of a client. start runs a function on a goroutine of the
// client, or does nothing if that is closed: a log handler may block.
func New(logger *slog.Logger, start func(func())) *Log {
	return &Log{logger: logger, start: start, born: time.Now(), servers: map[string]*server{}}
}

// Begin returns a call that begins. An attempt that hangs counts from then.
func (l *Log) Begin() Call { return Call{since: l.age(time.Now())} }

// Since returns since when no attempt of the call was answered. The last one
// must not have been.
func (l *Log) Since(c *Call) time.Time { return l.born.Add(c.since - 1) }

// From returns for this log a call that has met no failure in another one.
func (l *Log) From(other *Log, c Call) Call {
	if c.since == 0 {
		return c
	}
	return Call{since: l.age(other.Since(&c))}
}

// age returns how old the log is, and never 0: a call has a third of the bytes
// of a time.
func (l *Log) age(now time.Time) time.Duration { return now.Sub(l.born) + 1 }

// Failed notes that an attempt of the call has failed at a server. It warns
// once the call has got no answer for long enough. name is the address of the
// server, or "" if none is known. waiting is how many calls of the client wait,
// with this one.
func (l *Log) Failed(c *Call, name string, waiting int64, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if c.since == 0 {
		c.since = l.age(now)
	}
	if c.at == nil || c.at.name != name {
		l.leave(c, waiting-1)
		l.enter(c, name, now)
	}
	s := c.at
	s.failed = now
	if now.Sub(l.Since(c)) < Patience || !s.warned.IsZero() && now.Sub(s.warned) < pause {
		return
	}
	s.warned = now
	if !s.open {
		s.open = true
		l.open.Add(1)
	}
	l.write(slog.LevelWarn, "relock: no usable server for waiting calls", s, "waiting", waiting, "reason", why.Error())
}

// Answered notes that an attempt has found a server that it can use. name
// returns the address of that server. Without an outage it does nothing.
func (l *Log) Answered(c *Call, name func() string) {
	c.since = 0
	if c.at == nil && l.open.Load() == 0 {
		return
	}
	at := ""
	if c.at == nil {
		at = name()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := c.at
	if s == nil {
		l.forget(time.Now())
		if s = l.servers[at]; s == nil || s.calls > 0 {
			return // it may serve this call and not the others
		}
	} else {
		c.at = nil
		s.calls--
	}
	l.close(s, "relock: waiting calls have a usable server again")
}

// End notes that the call has ended without an answer, or that another one asks
// in its place. others is how many other calls of the client wait.
func (l *Log) End(c *Call, others int64) {
	c.since = 0
	if c.at == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leave(c, others)
}
