package conns

import (
	"context"
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
	server *server
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

func newStream(d *server, conn redis.Conn) *stream {
	now := time.Now()
	return &stream{server: d, conn: conn, born: now, quiet: now, more: make(chan struct{}, 1), done: make(chan struct{})}
}

// run reads until the connection is lost. Another goroutine writes what callers
// do not write themselves.
func (s *stream) run() {
	stop := context.AfterFunc(s.server.life, func() { s.cut(errs.ErrClosed) })
	defer stop()
	if s.server.tasks.Start(s.writeOn) {
		s.fail(s.read())
	} else {
		s.fail(errs.ErrClosed)
	}
	close(s.done)
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
		o := s.server.newResult(time.Time{}, reply, err)
		if !o.Answered && !driver.IsAnswer(o.Err) || driver.IsRefusal(o.Err) {
			return o.Err
		}
		c := s.received(came, s.server.isBreak(o.Err))
		if c == nil {
			return wire.ErrUnasked
		}
		o.Sent = c.sent
		c.end(o)
	}
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
		s.server.noteBreak()
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
