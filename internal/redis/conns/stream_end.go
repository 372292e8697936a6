package conns

import (
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/wire"
)

// retire makes the connection take no more requests. Those that it has may
// still be answered until the command timeout has passed; mu is held.
func (s *stream) retire() {
	s.over = true
	if s.end == nil {
		left := s.server.commandTimeout
		if s.flight > 0 {
			left -= time.Since(s.quiet)
		}
		s.end = time.AfterFunc(max(0, left), func() { s.cut(driver.ErrTimeout) })
	}
}

// isServed reports whether the connection takes no more requests and has
// answered all; mu is held.
func (s *stream) isServed() bool { return s.over && s.flight == 0 && !s.writing }

// retireIfSilent is called when a call that began at start leaves without its
// answer. It retires the connection if nothing came in all that time. A short
// silence does not count: a very short lease must not make its client give up
// one connection after another.
func (s *stream) retireIfSilent(c *Call, start time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	silent := s.flight > 0 && (!s.quiet.After(start) || !s.quiet.After(c.sent))
	if silent && time.Since(s.quiet) >= min(driver.MinLimit, s.server.commandTimeout) {
		s.retire()
	}
}

// usable reports whether the connection takes another request at now. It does
// not if it was idle for longer than idle, or is older than age. It also does
// not if it owes an answer for longer than any call waits. 0 is no limit.
func (s *stream) usable(now time.Time, idle, age time.Duration) bool {
	s.mu.Lock()
	quiet, owes := now.Sub(s.quiet), s.flight > 0
	// A caller that writes after a long pause sets writing first, and quiet
	// later.
	unused := !owes && !s.writing
	if owes && quiet > s.server.commandTimeout || unused && idle > 0 && quiet > idle || age > 0 && now.Sub(s.born) > age {
		s.retire()
	}
	served, usable := s.isServed(), !s.over
	s.mu.Unlock()
	if served {
		s.server.tasks.Start(func() { s.cut(errStale) }) // on a goroutine: a caller is waiting
	}
	return usable
}

// cut closes the connection under the calls that wait for an answer. The
// argument is the reason why they get none.
func (s *stream) cut(why error) {
	s.mu.Lock()
	s.over = true
	if s.cause == nil {
		s.cause = why
	}
	s.mu.Unlock()
	_ = s.conn.Close()
}

// reasonWait is how long a call waits for the reader of a connection that was
// closed. The Close of a user's connection may block it.
const reasonWait = 10 * time.Millisecond

// unsent returns the error of a request that was not written. It includes the
// reason why the connection ended. The reader has the last word on that: a
// write may have failed because of what the server had said.
func (s *stream) unsent() error {
	if s.reason() == nil {
		return errUnsent
	}
	select {
	case <-s.done:
	case <-time.After(reasonWait):
	}
	return errs.Join(errUnsent, driver.Sanitize(s.reason()))
}

// reason returns why the connection was closed, or nil.
func (s *stream) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

// fail ends the calls that get no answer.
func (s *stream) fail(err error) {
	s.cut(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		s.end.Stop()
	}
	s.watch.stop()
	calls := s.written[s.first:]
	refused := driver.IsRefusal(err) || wire.IsUnaccepted(err) && !driver.IsTimeout(s.cause)
	if len(calls) > 0 && !refused {
		s.server.noteBreak()
	}
	if driver.IsRefusal(err) {
		s.cause = err // more specific than a write that failed because of it
	}
	cause := s.server.orClosed(driver.Sanitize(s.cause))
	for _, c := range calls {
		c.end(driver.Result{Err: cause, Sent: c.sent})
	}
	for _, e := range s.waiting {
		e.call.end(driver.Result{Err: errs.Join(errUnsent, cause)})
	}
	s.written, s.first, s.waiting, s.flight = nil, 0, nil, 0
}
