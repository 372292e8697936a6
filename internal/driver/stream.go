package driver

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
)

// stream is one connection of the pipeline. Requests are written in the order
// in which they came, and the answers come in the same order: the connection is
// only given up as a whole.
//
// A caller writes itself unless somebody else is writing. Where many are about
// to write, the first lets the others come, and writes for them; what comes
// while it writes is left to a goroutine, since the caller has its own answer
// to wait for. One goroutine reads, and is the only one that ends calls.
type stream struct {
	driver *Pool
	conn   redis.Conn
	born   time.Time
	more   chan struct{} // somebody else has to go on writing
	done   chan struct{} // closed when nothing more is read

	mu      sync.Mutex
	waiting []entry // not yet written
	spare   []entry // the last batch, to be reused
	written []*Call // not yet answered, those that the reader has taken excepted
	writing bool
	flight  int         // written and not answered
	quiet   time.Time   // since when nothing came: the last answer, or the first request after it
	over    bool        // takes no more requests
	cause   error       // of its end
	end     *time.Timer // cuts it when those that it has are not answered; nil while it takes more
}

type entry struct {
	call    *Call
	request Request
}

const (
	// Crowd is how many requests have to be under way for more to be about to
	// come.
	Crowd = 4
	// maxOwnBatch is how many requests a caller writes; more could keep it.
	maxOwnBatch = 64
	// slow is how long an answer is missing when a write may have to wait as
	// well.
	slow = 5 * time.Millisecond
)

func newStream(d *Pool, conn redis.Conn) *stream {
	now := time.Now()
	return &stream{driver: d, conn: conn, born: now, quiet: now, more: make(chan struct{}, 1), done: make(chan struct{})}
}

// send takes a request. It returns false if the connection takes none any more;
// then nothing was sent.
func (s *stream) send(c *Call, r Request) bool {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return false
	}
	s.waiting = append(s.waiting, entry{c, r})
	if s.writing {
		s.mu.Unlock()
		return true
	}
	s.writing = true
	// A connection of the user's may have no limit for a write.
	stuck := !s.driver.own || s.flight > 0 && time.Since(s.quiet) > slow
	crowded := s.flight >= Crowd
	s.mu.Unlock()
	if crowded && !stuck {
		runtime.Gosched()
	}
	if stuck || s.tooMany() || s.write() {
		s.more <- struct{}{}
	}
	return true
}

func (s *stream) tooMany() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) > maxOwnBatch
}

// write sends what waits. It returns true if more has come meanwhile: then
// somebody has to write again.
func (s *stream) write() (more bool) {
	batch, now := s.take()
	err := s.put(batch, now)
	clear(batch)
	if err != nil {
		s.cut(err) // the reader does the rest
	}
	s.mu.Lock()
	s.spare = batch[:0]
	more = len(s.waiting) > 0 && s.cause == nil
	s.writing = more
	served := s.isServed()
	s.mu.Unlock()
	if served {
		s.cut(errStale)
	}
	return more
}

// take is the next batch: what waits, less what its callers have left.
func (s *stream) take() ([]entry, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	batch := slices.DeleteFunc(s.waiting, func(e entry) bool { return !e.call.begin(now) })
	for _, e := range batch {
		s.written = append(s.written, e.call)
	}
	if s.flight == 0 {
		s.quiet = now
	}
	s.flight += len(batch)
	s.waiting = s.spare
	return batch, now
}

// put writes a batch, all of it soon after its sending was noted: what is
// written later may outlast a clean-up.
func (s *stream) put(batch []entry, sent time.Time) error {
	for _, e := range batch {
		if time.Since(sent) > s.driver.commandTimeout {
			return ErrTimeout
		}
		if err := s.conn.Send(e.request.Cmd, e.request.Args...); err != nil {
			return err
		}
	}
	return s.conn.Flush()
}

// run reads until the connection is lost, while a goroutine writes what callers
// leave to it.
func (s *stream) run() {
	stop := context.AfterFunc(s.driver.life, func() { s.cut(errs.ErrClosed) })
	defer stop()
	if s.driver.tasks.Start(s.writeOn) {
		s.fail(s.read())
	} else {
		s.fail(nil, errs.ErrClosed)
	}
	close(s.done)
}

// writeOn goes on where a caller stopped. It lets those come first that are
// about to send.
func (s *stream) writeOn() {
	for {
		select {
		case <-s.more:
			for more := true; more; more = s.write() {
				runtime.Gosched()
			}
		case <-s.done:
			return
		}
	}
}

// read gives each answer to its call, until the connection is lost. It returns
// the calls that it has taken and not served.
func (s *stream) read() (calls []*Call, err error) {
	for {
		reply, err := redis.ReceiveWithTimeout(s.conn, 0)
		if len(calls) == 0 {
			calls = s.takeWritten()
		}
		o := newResult(time.Time{}, reply, err)
		switch {
		case !o.Answered:
			return calls, o.Err
		case isRefusal(o.Err):
			return calls, o.Err
		case len(calls) == 0:
			return nil, errUnasked
		}
		o.Sent = calls[0].sent
		s.heard(IsReadOnly(o.Err))
		calls[0].end(o)
		calls = calls[1:]
	}
}

// isRefusal reports whether the server takes no requests from the connection.
// It says so unasked, and then ends it.
func isRefusal(err error) bool {
	line, ok := errorLine(err)
	return ok && (code(line) == "DENIED" || isFull(line))
}

func (s *stream) takeWritten() []*Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.written
	s.written = nil
	return calls
}

// heard notes an answer. After READONLY another connection may lead to the new
// master, behind the same address.
func (s *stream) heard(readOnly bool) {
	if readOnly {
		s.driver.noteBreak()
	}
	s.mu.Lock()
	s.flight--
	s.quiet = time.Now()
	if readOnly {
		s.retire()
	}
	served := s.isServed()
	s.mu.Unlock()
	if served {
		s.cut(errStale)
	}
}

// retire lets the connection take no more requests. Those that it has may still
// be answered, until the command timeout is over; mu is held.
func (s *stream) retire() {
	s.over = true
	if s.end == nil {
		left := s.driver.commandTimeout
		if s.flight > 0 {
			left -= time.Since(s.quiet)
		}
		s.end = time.AfterFunc(max(0, left), func() { s.cut(ErrTimeout) })
	}
}

// isServed reports whether the connection takes no more requests and has
// answered all; mu is held.
func (s *stream) isServed() bool { return s.over && s.flight == 0 && !s.writing }

// retireIfSilent is called when a call that began at start leaves without its
// answer: nothing came in all that time. A very short lease must not make its
// client give up one connection after another.
func (s *stream) retireIfSilent(c *Call, start time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	silent := s.flight > 0 && (!s.quiet.After(start) || !s.quiet.After(c.sent))
	if silent && time.Since(s.quiet) >= min(MinLimit, s.driver.commandTimeout) {
		s.retire()
	}
}

// usable reports whether the connection takes another request: not when it was
// idle for so long, or is so old, or owes an answer for longer than any call
// waits. 0 is no limit.
func (s *stream) usable(idle, age time.Duration) bool {
	s.mu.Lock()
	quiet, owes := time.Since(s.quiet), s.flight > 0
	unused := !owes && !s.writing // who is about to write after a long rest has not noted it yet
	if owes && quiet > s.driver.commandTimeout || unused && idle > 0 && quiet > idle || age > 0 && time.Since(s.born) > age {
		s.retire()
	}
	served, usable := s.isServed(), !s.over
	s.mu.Unlock()
	if served {
		s.driver.tasks.Start(func() { s.cut(errStale) }) // beside, as a caller is waiting
	}
	return usable
}

// cut closes the connection, under whoever waits for an answer: that is why
// they get none.
func (s *stream) cut(why error) {
	s.mu.Lock()
	s.over = true
	if s.cause == nil {
		s.cause = why
	}
	s.mu.Unlock()
	_ = s.conn.Close()
}

// unsent is the error of a request that was not written, with why the
// connection has ended.
func (s *stream) unsent() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		return errUnsent
	}
	return errs.Both(errUnsent, Explain(s.cause))
}

// fail ends the calls that get no answer.
func (s *stream) fail(calls []*Call, err error) {
	s.cut(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		s.end.Stop()
	}
	calls = append(calls, s.written...)
	refused := isRefusal(err) || isUnaccepted(err) && !isTimeout(s.cause)
	if len(calls) > 0 && !refused {
		s.driver.noteBreak()
	}
	if isRefusal(err) {
		s.cause = err // says more than a write that failed because of it
	}
	cause := s.driver.orClosed(Explain(s.cause))
	for _, c := range calls {
		c.end(Result{Err: cause, Sent: c.sent})
	}
	for _, e := range s.waiting {
		e.call.end(Result{Err: errs.Both(errUnsent, cause)})
	}
	s.written, s.waiting, s.flight = nil, nil, 0
}
