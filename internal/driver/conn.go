package driver

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// conn is a connection that this package dialled. A caller can stop waiting for
// an answer without closing the connection, and without a goroutine for each
// call. redigo's own connection cannot do that: it is closed by a read that
// fails, and its DoContext starts a goroutine.
//
// Requests are collected and then written by one system call. An answer is
// parsed once all of it was read. So a wait that ends early loses nothing, and
// another goroutine can take the answer.
type conn struct {
	answers *answers // what is read; with TLS, or the socket itself
	socket  *socket
	quiet   bool // nothing comes unasked; with TLS it may
	timeout time.Duration

	asked   atomic.Int64 // number of requests
	listens atomic.Bool  // to a channel
	failed  atomic.Bool  // it was closed

	out []byte // requests that are not written yet

	// Only for the reader.
	replies replies
	taken   int64 // answers that were parsed
	limited bool  // reads have a deadline
	guarded *guard
}

// errInterrupted is the error if the context was cancelled before the answer
// came. The connection is whole: its next ReceiveWithTimeout gets the answer.
var errInterrupted = errors.New("interrupted")

// errUnwritten is the error if the context was cancelled before anything was
// written.
var errUnwritten = errors.New("interrupted before the request was written")

// unacceptedError is the error of a connection that ended before the server's
// first answer. A server without room closes new connections, but the idle ones
// still work.
type unacceptedError struct{ error }

// Unwrap returns the reason why the connection ended.
func (e unacceptedError) Unwrap() error { return e.error }

func isUnaccepted(err error) bool {
	var unaccepted unacceptedError
	return errors.As(err, &unaccepted)
}

// maxKept is how large a buffer may be that is kept for the next requests.
const maxKept = 64 << 10

// Send collects a request. It writes nothing.
func (c *conn) Send(command string, args ...any) error {
	c.add(&Request{Cmd: command, Args: args})
	return nil
}

// add collects a request.
func (c *conn) add(r *Request) {
	c.asks(r.Cmd)
	c.out = appendRequest(c.out, r)
}

// send is Send of any connection.
func send(on redis.Conn, r *Request) error {
	if own, ok := on.(*conn); ok {
		own.add(r)
		return nil
	}
	return on.Send(r.Cmd, r.List()...)
}

// Flush writes the requests that were collected.
func (c *conn) Flush() error {
	if err := c.answers.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
		return c.fail(err)
	}
	_, err := c.answers.Write(c.out)
	c.wrote()
	if err != nil {
		return c.fail(err)
	}
	return nil
}

// wrote notes that what was collected was written.
func (c *conn) wrote() {
	if c.out = c.out[:0]; cap(c.out) > maxKept {
		c.out = nil
	}
}

// call runs a command on behalf of a caller that can leave when ctx is
// cancelled. The error is errInterrupted then, if the connection is still
// whole.
func (c *conn) call(ctx context.Context, timeout time.Duration, r *Request) (any, error) {
	switch {
	case c.quiet:
		return c.judge(c.exchange(ctx, time.Now().Add(timeout), r))
	case ctx.Done() == nil:
		return c.do(timeout, r)
	}
	return c.doBeside(ctx, timeout, *r)
}

// askAnd is call for a command that follows ASKING. Both are written together.
// It returns the first error of both, after both answers.
func (c *conn) askAnd(ctx context.Context, timeout time.Duration, r *Request) (any, error) {
	c.add(&Request{Cmd: "ASKING"})
	_, refused := c.call(ctx, timeout, r)
	if refused != nil && !IsAnswer(refused) {
		return nil, refused
	}
	reply, err := c.ReceiveWithTimeout(timeout)
	if refused != nil && (err == nil || IsAnswer(err)) {
		return nil, refused
	}
	return reply, err
}

// exchange is call on a connection whose socket can be waited on. What is
// written and read costs a system call each.
func (c *conn) exchange(ctx context.Context, deadline time.Time, r *Request) (any, error) {
	guard := c.guard(ctx)
	defer guard.end()
	c.limited = true
	if err := c.answers.SetDeadline(deadline); err != nil {
		return nil, c.fail(err)
	}
	if guard.isCalled() { // checked after setting the deadlines, which may have undone a wake
		return nil, errUnwritten
	}
	c.add(r)
	for !c.hasReply() {
		unwritten, err := c.transfer()
		switch {
		case err != nil && unwritten == 0 && guard.isCalled():
			return nil, errInterrupted
		case err != nil:
			return nil, c.fail(err)
		}
	}
	return c.next()
}

// transfer writes what was collected, and reads once. It returns how much is
// not written, if that has failed.
func (c *conn) transfer() (unwritten int, err error) {
	defer c.wrote()
	space := c.replies.space()
	written, n, err := c.socket.exchange(c.out, space)
	c.answers.count(space[:n])
	c.replies.took(n)
	rest := c.out[written:]
	if err != nil || len(rest) == 0 {
		return len(rest), err
	}
	// The buffer of the socket is full. The deadline was set before: setting it
	// now could undo a wake.
	written, err = c.answers.Write(rest)
	return len(rest) - written, err
}

// hasReply reports whether a whole answer was read and is not parsed yet.
func (c *conn) hasReply() bool { return c.answers.whole.Load() > c.taken }

// limit sets the deadline for reads. Zero is none.
func (c *conn) limit(deadline time.Time) error {
	if deadline.IsZero() && !c.limited {
		return nil
	}
	c.limited = !deadline.IsZero()
	return c.answers.SetReadDeadline(deadline)
}

// next returns the reply that was read. An error line is returned as an error.
func (c *conn) next() (any, error) {
	c.taken++
	reply, err := c.replies.next()
	c.replies.parsed()
	if err != nil {
		return nil, c.fail(err)
	}
	if line, ok := reply.(redis.Error); ok {
		return nil, line
	}
	return reply, nil
}

// receive reads one answer.
func (c *conn) receive(timeout time.Duration) (any, error) {
	var deadline time.Time
	if timeout > 0 {
		deadline = time.Now().Add(timeout)
	}
	if !c.hasReply() {
		if err := c.limit(deadline); err != nil {
			return nil, c.fail(err)
		}
	}
	for !c.hasReply() {
		if err := c.replies.read(c.answers); err != nil {
			return nil, c.fail(err)
		}
	}
	return c.next()
}

// ReceiveWithTimeout reads one answer. A timeout of 0 is none.
func (c *conn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return c.judge(c.receive(timeout))
}

// Receive reads one answer.
func (c *conn) Receive() (any, error) { return c.ReceiveWithTimeout(c.timeout) }

// DoWithTimeout runs a command.
func (c *conn) DoWithTimeout(timeout time.Duration, command string, args ...any) (any, error) {
	return c.do(timeout, &Request{Cmd: command, Args: args})
}

func (c *conn) do(timeout time.Duration, r *Request) (any, error) {
	c.add(r)
	if err := c.Flush(); err != nil {
		return c.judge(nil, err)
	}
	return c.ReceiveWithTimeout(timeout)
}

// Do runs a command.
func (c *conn) Do(command string, args ...any) (any, error) {
	return c.DoWithTimeout(c.timeout, command, args...)
}

// doBeside runs a command on a connection whose socket cannot be waited on. It
// closes the connection when ctx ends, which also ends the goroutine.
func (c *conn) doBeside(ctx context.Context, timeout time.Duration, r Request) (any, error) {
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
func (c *conn) fail(why error) error {
	_ = c.Close() // only the first error counts
	return why
}

// Close closes the connection. It may be called at any time.
func (c *conn) Close() error {
	if c.failed.Swap(true) {
		return nil
	}
	return c.answers.Close()
}

// Err returns an error if the connection was closed.
func (c *conn) Err() error {
	if c.failed.Load() {
		return net.ErrClosed
	}
	return nil
}
