package conns

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/wire"
)

// stream is one connection of the pipeline. Requests are written in the order
// in which they came, and the answers come in the same order. So the connection
// is only given up as a whole.
//
// A caller writes itself unless another one is writing. If many are about to
// write, the first one yields, and writes for the others. A goroutine writes
// what comes while a caller writes, since the caller has to wait for its own
// answer. One goroutine reads, and only that one ends calls.
type stream struct {
	driver *Pool
	conn   redis.Conn
	born   time.Time
	more   chan struct{} // the goroutine has to continue writing
	done   chan struct{} // closed when nothing more is read

	mu      sync.Mutex
	waiting []entry // not yet written
	spare   []entry // the last batch, for reuse
	written []*Call // in the order of their answers; those before first are answered
	first   int
	writing bool
	flight  int       // written and not answered
	quiet   time.Time // start of the silence: the last answer, or the first request after it
	over    bool      // takes no more requests
	cause   error     // why it ended
	watch   watch
	// end closes the connection if the requests that it has are not
	// answered. It is nil while the connection takes more.
	end *time.Timer
}

type entry struct {
	call    *Call
	request driver.Request
}

const (
	// crowd is how many requests must be under way for more to be expected
	// soon.
	crowd = 4
	// maxOwnBatch is how many requests a caller writes. More could block
	// it.
	maxOwnBatch = 64
	// slow is how long an answer is missing before a write may block too.
	slow = 5 * time.Millisecond
)

func newStream(d *Pool, conn redis.Conn) *stream {
	now := time.Now()
	return &stream{driver: d, conn: conn, born: now, quiet: now, more: make(chan struct{}, 1), done: make(chan struct{})}
}

// send takes a request at now, and reports whether it did. If the connection
// takes none any more, nothing was sent.
func (s *stream) send(c *Call, r driver.Request, now time.Time) bool {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return false
	}
	s.enqueue(c, r)
	s.writeUnlessOther(now)
	return true
}

// enqueue adds a request to those that are not written yet; mu is held.
func (s *stream) enqueue(c *Call, r driver.Request) {
	s.waiting = append(s.waiting, entry{c, r})
	s.plan(c.until)
}

// writeUnlessOther writes what is enqueued, unless another caller does. mu is
// held, and is unlocked.
func (s *stream) writeUnlessOther(now time.Time) {
	if s.writing {
		s.mu.Unlock()
		return
	}
	s.writing = true
	// A user's connection may have no limit for a write.
	stuck := !s.driver.own || s.flight > 0 && now.Sub(s.quiet) > slow
	crowded := s.flight >= crowd
	s.mu.Unlock()
	if crowded && !stuck {
		runtime.Gosched()
	}
	if stuck || s.tooMany() || s.write() {
		s.more <- struct{}{}
	}
}

func (s *stream) tooMany() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) > maxOwnBatch
}

// write sends the waiting requests. It reports whether more came meanwhile, so
// that another write is needed.
func (s *stream) write() (more bool) {
	batch, now := s.take()
	err := s.put(batch, now)
	clear(batch)
	if err != nil {
		s.cut(err) // then the reader ends the calls
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

// take returns the next batch: the waiting requests, without those that their
// callers have abandoned.
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

// put writes a batch. All of it is written soon after its sending time was
// noted: what is written later may outlast a clean-up.
func (s *stream) put(batch []entry, sent time.Time) error {
	for i := range batch {
		if err := s.add(&batch[i].request, sent); err != nil {
			return err
		}
	}
	return s.flush(sent)
}

// add collects a request of a batch. A connection of our own writes once it has
// many bytes, and keeps its buffer. A user's connection may write at any time.
func (s *stream) add(r *driver.Request, sent time.Time) error {
	own, ok := s.conn.(*wire.Conn)
	switch {
	case !ok && s.isLate(sent):
		return driver.ErrTimeout
	case ok && len(own.Out) > wire.MaxKept/2:
		if err := s.flush(sent); err != nil {
			return err
		}
	}
	return wire.Send(s.conn, r)
}

func (s *stream) flush(sent time.Time) error {
	if s.isLate(sent) {
		return driver.ErrTimeout
	}
	return s.conn.Flush()
}

// isLate reports whether a batch takes too long to write.
func (s *stream) isLate(sent time.Time) bool { return time.Since(sent) > s.driver.commandTimeout }

// run reads until the connection is lost. Another goroutine writes what callers
// do not write themselves.
func (s *stream) run() {
	stop := context.AfterFunc(s.driver.life, func() { s.cut(errs.ErrClosed) })
	defer stop()
	if s.driver.tasks.Start(s.writeOn) {
		s.fail(s.read())
	} else {
		s.fail(errs.ErrClosed)
	}
	close(s.done)
}

// writeOn continues where a caller stopped. It yields first to callers that are
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

// read gives each answer to its call, until the connection is lost.
func (s *stream) read() error {
	var came time.Time
	for {
		more := s.hasReply() // came with the one before
		reply, err := redis.ReceiveWithTimeout(s.conn, 0)
		if !more {
			came = time.Now()
		}
		o := s.driver.newResult(time.Time{}, reply, err)
		if !o.Answered && !driver.IsAnswer(o.Err) || driver.IsRefusal(o.Err) {
			return o.Err
		}
		c := s.received(came, s.driver.isBreak(o.Err))
		if c == nil {
			return wire.ErrUnasked
		}
		o.Sent = c.sent
		c.end(o)
	}
}

// sendAll takes several requests at now, which are written together. It reports
// whether it did, as send does.
func (s *stream) sendAll(calls []*Call, requests []driver.Request, now time.Time) bool {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return false
	}
	for i, c := range calls {
		s.enqueue(c, requests[i])
	}
	s.writeUnlessOther(now)
	return true
}

// hasReply reports whether the next answer was read already.
func (s *stream) hasReply() bool {
	own, ok := s.conn.(*wire.Conn)
	return ok && own.HasReply()
}

// received notes when an answer came, and whether it is a break, see isBreak.
// It returns the call that is answered, or nil if there is none.
func (s *stream) received(came time.Time, isBreak bool) *Call {
	if isBreak {
		s.driver.noteBreak()
	}
	s.mu.Lock()
	c := s.oldest()
	if c == nil {
		s.mu.Unlock()
		return nil
	}
	s.flight--
	s.quiet = came
	if isBreak {
		s.retire()
	}
	served := s.isServed()
	s.mu.Unlock()
	if served {
		s.cut(errStale)
	}
	return c
}

// oldest takes out the call that is answered next, or returns nil; mu is held.
func (s *stream) oldest() *Call {
	if s.first == len(s.written) {
		return nil
	}
	c := s.written[s.first]
	s.written[s.first] = nil
	s.first++
	if s.first == len(s.written) || s.first > mostAnswered {
		s.written = slices.Delete(s.written, 0, s.first)
		s.first = 0
	}
	return c
}

// mostAnswered limits how many answered calls the list still has room for.
const mostAnswered = 1024

// retire makes the connection take no more requests. Those that it has may
// still be answered until the command timeout has passed; mu is held.
func (s *stream) retire() {
	s.over = true
	if s.end == nil {
		left := s.driver.commandTimeout
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
	if silent && time.Since(s.quiet) >= min(driver.MinLimit, s.driver.commandTimeout) {
		s.retire()
	}
}

// usable reports whether the connection takes another request at now. It does
// not if it was idle for longer than idle, or is older than age. Nor does it if
// it owes an answer for longer than any call waits. 0 is no limit.
func (s *stream) usable(now time.Time, idle, age time.Duration) bool {
	s.mu.Lock()
	quiet, owes := now.Sub(s.quiet), s.flight > 0
	// A caller that writes after a long pause sets writing first, and quiet
	// later.
	unused := !owes && !s.writing
	if owes && quiet > s.driver.commandTimeout || unused && idle > 0 && quiet > idle || age > 0 && now.Sub(s.born) > age {
		s.retire()
	}
	served, usable := s.isServed(), !s.over
	s.mu.Unlock()
	if served {
		s.driver.tasks.Start(func() { s.cut(errStale) }) // on a goroutine: a caller is waiting
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

// unsent returns the error of a request that was not written. It includes the
// reason why the connection ended.
func (s *stream) unsent() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause == nil {
		return errUnsent
	}
	return errs.Both(errUnsent, driver.Explain(s.cause))
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
		s.driver.noteBreak()
	}
	if driver.IsRefusal(err) {
		s.cause = err // more specific than a write that failed because of it
	}
	cause := s.driver.orClosed(driver.Explain(s.cause))
	for _, c := range calls {
		c.end(driver.Result{Err: cause, Sent: c.sent})
	}
	for _, e := range s.waiting {
		e.call.end(driver.Result{Err: errs.Both(errUnsent, cause)})
	}
	s.written, s.first, s.waiting, s.flight = nil, 0, nil, 0
}
