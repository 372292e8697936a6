package wire

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/redis/driver"
)

// Conn is a connection that this package dialled: a redigo connection over a
// [wire]. A caller can stop waiting for an answer without closing the
// connection, and without a goroutine for each call, which redigo's DoContext
// starts.
type Conn struct {
	*wire
	redis redis.Conn // writes requests to the wire, and reads answers from it
	Lent  redis.Conn // the pool's wrapper, while a caller has the connection
	quiet bool       // nothing comes unasked; with TLS it may

	timeout time.Duration

	asked   atomic.Int64 // number of requests
	listens atomic.Bool  // to a channel
	failed  atomic.Bool  // it was closed

	args []any // of a request, for reuse

	// Only for the reader.
	taken   int64 // answers that were parsed
	limited bool  // reads have a deadline
	guarded *guard
}

// NewConn makes a connection. plain is the socket, or TLS on it.
func NewConn(plain net.Conn, s *socket, quiet bool, timeout time.Duration) *Conn {
	a := &answers{Conn: plain}
	w := &wire{Conn: a, answers: a, socket: s}
	return &Conn{wire: w, redis: redis.NewConn(w, 0, 0), quiet: quiet, timeout: timeout}
}

// ErrInterrupted is the error if the context was cancelled before the answer
// came. The connection is whole: its next ReceiveWithTimeout gets the answer.
var ErrInterrupted = errors.New("interrupted")

// ErrUnwritten is the error if the context was cancelled before anything was
// written.
var ErrUnwritten = errors.New("interrupted before the request was written")

// Send collects a request. It writes nothing.
func (c *Conn) Send(command string, args ...any) error {
	c.add(&driver.Request{Cmd: command, Args: args})
	return nil
}

// add collects a request.
func (c *Conn) add(r *driver.Request) {
	c.asks(r.Cmd)
	c.args = r.AppendTo(c.args[:0])
	_ = c.redis.Send(r.Cmd, c.args...) // the wire takes everything
	clear(c.args)
}

// Send is Send of any connection.
func Send(on redis.Conn, r *driver.Request) error {
	if own, ok := on.(*Conn); ok {
		own.add(r)
		return nil
	}
	return on.Send(r.Cmd, r.List()...)
}

// Flush writes the requests that were collected.
func (c *Conn) Flush() error {
	_ = c.redis.Flush() // to the wire, which takes everything
	if err := c.flush(time.Now().Add(c.timeout)); err != nil {
		return c.fail(err)
	}
	return nil
}

// Call runs a command on behalf of a caller that can leave when ctx is
// cancelled. The error is ErrInterrupted then, if the connection is still
// whole.
func (c *Conn) Call(ctx context.Context, timeout time.Duration, r *driver.Request) (any, error) {
	switch {
	case c.quiet:
		return c.judge(c.exchange(ctx, time.Now().Add(timeout), r))
	case ctx.Done() == nil:
		return c.do(timeout, r)
	}
	return c.doBeside(ctx, timeout, *r)
}

// AskAnd is Call for a command that follows ASKING. Both are written together.
// It returns the first error of both, after both answers.
func (c *Conn) AskAnd(ctx context.Context, timeout time.Duration, r *driver.Request) (any, error) {
	c.add(&driver.Request{Cmd: "ASKING"})
	_, refused := c.Call(ctx, timeout, r)
	if refused != nil && !driver.IsAnswer(refused) {
		return nil, refused
	}
	reply, err := c.ReceiveWithTimeout(timeout)
	if refused != nil && (err == nil || driver.IsAnswer(err)) {
		return nil, refused
	}
	return reply, err
}

// exchange is Call on a connection whose socket can be waited on. What is
// written and read costs a system call each.
func (c *Conn) exchange(ctx context.Context, deadline time.Time, r *driver.Request) (any, error) {
	guard := c.guard(ctx)
	defer guard.end()
	c.limited = true
	if err := c.answers.SetDeadline(deadline); err != nil {
		return nil, c.fail(err)
	}
	if guard.isCalled() { // checked after setting the deadlines, which may have undone a wake
		return nil, ErrUnwritten
	}
	c.add(r)
	_ = c.redis.Flush() // to the wire, which takes everything
	for !c.HasReply() {
		unwritten, err := c.wire.exchange()
		switch {
		case err != nil && unwritten == 0 && guard.isCalled():
			return nil, ErrInterrupted
		case err != nil:
			return nil, c.fail(err)
		}
	}
	return c.next()
}

// HasReply reports whether a whole answer was read and is not parsed yet.
func (c *Conn) HasReply() bool { return c.answers.whole.Load() > c.taken }

// limit sets the deadline for reads. Zero is none.
func (c *Conn) limit(deadline time.Time) error {
	if deadline.IsZero() && !c.limited {
		return nil
	}
	c.limited = !deadline.IsZero()
	return c.answers.SetReadDeadline(deadline)
}

// next returns the reply that was read. An error line is returned as an error.
func (c *Conn) next() (any, error) {
	c.taken++
	reply, err := c.redis.Receive()
	if err != nil && !driver.IsAnswer(err) {
		return nil, c.fail(errProtocol)
	}
	if driver.IsRefusal(err) {
		_ = c.fail(err) // the server closes it: nobody else may borrow it before
	}
	return reply, err
}

// receive reads one answer.
func (c *Conn) receive(timeout time.Duration) (any, error) {
	var deadline time.Time
	if timeout > 0 {
		deadline = time.Now().Add(timeout)
	}
	if !c.HasReply() {
		if err := c.limit(deadline); err != nil {
			return nil, c.fail(err)
		}
	}
	for !c.HasReply() {
		if err := c.fill(); err != nil {
			return nil, c.fail(err)
		}
	}
	return c.next()
}

// ReceiveWithTimeout reads one answer. A timeout of 0 is none.
func (c *Conn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return c.judge(c.receive(timeout))
}

// Receive reads one answer.
func (c *Conn) Receive() (any, error) { return c.ReceiveWithTimeout(c.timeout) }

// DoWithTimeout runs a command.
func (c *Conn) DoWithTimeout(timeout time.Duration, command string, args ...any) (any, error) {
	return c.do(timeout, &driver.Request{Cmd: command, Args: args})
}

func (c *Conn) do(timeout time.Duration, r *driver.Request) (any, error) {
	c.add(r)
	if err := c.Flush(); err != nil {
		return c.judge(nil, err)
	}
	return c.ReceiveWithTimeout(timeout)
}

// Do runs a command. The pool calls it without one when a connection is put
// back. Then redigo's would read the answers that it is owed; this one has none
// or is not used again.
func (c *Conn) Do(command string, args ...any) (any, error) {
	if command == "" {
		return nil, nil
	}
	return c.DoWithTimeout(c.timeout, command, args...)
}

// doBeside runs a command on a connection whose socket cannot be waited on. It
// closes the connection when ctx ends, which also ends the goroutine.
func (c *Conn) doBeside(ctx context.Context, timeout time.Duration, r driver.Request) (any, error) {
	type answer struct {
		reply any
		err   error
	}
	came := make(chan answer, 1)
	go func() {
		reply, err := c.do(timeout, &r)
		came <- answer{reply, err}
	}()
	select {
	case a := <-came:
		return a.reply, a.err
	case <-ctx.Done():
		return c.judge(nil, c.fail(ctx.Err()))
	}
}

// fail closes the connection, and returns why.
func (c *Conn) fail(why error) error {
	_ = c.Close() // only the first error counts
	return why
}

// Close closes the connection. It may be called at any time.
func (c *Conn) Close() error {
	if c.failed.Swap(true) {
		return nil
	}
	return c.answers.Close()
}

// Err returns an error if the connection was closed.
func (c *Conn) Err() error {
	if c.failed.Load() {
		return net.ErrClosed
	}
	return nil
}
