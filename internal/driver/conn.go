package driver

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// conn is a connection that this package dialled: redigo's, with the socket
// under it. So a caller can stop waiting for an answer without closing the
// connection, and without a goroutine for each call.
//
// redigo's DoContext starts a goroutine for each call, and closes the
// connection when the context is cancelled. Here the caller itself waits until
// the socket is readable, which consumes nothing. If the context is cancelled
// first, the answer is still to come, and another goroutine can take it.
type conn struct {
	redis.Conn
	socket  *socket
	answers *answers
	quiet   bool // nothing comes unasked; with TLS it may

	asked   atomic.Int64 // number of requests
	listens atomic.Bool  // to a channel
}

// Send buffers a request. It writes only if there is enough to write.
func (c *conn) Send(command string, args ...any) error {
	c.asks(command)
	return c.Conn.Send(command, args...)
}

// Do runs a command.
func (c *conn) Do(command string, args ...any) (any, error) {
	c.asks(command)
	return c.judge(c.Conn.Do(command, args...))
}

// callContext gives DoContext the time limit of one command. DoContext has no
// other parameter for it than the context.
type callContext struct {
	context.Context
	timeout time.Duration
}

// errInterrupted is the error if the context was cancelled before the answer
// came. The connection is whole: its next ReceiveWithTimeout gets the answer.
var errInterrupted = errors.New("interrupted")

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

// DoContext runs a command within the time limit of a callContext.
func (c *conn) DoContext(ctx context.Context, command string, args ...any) (any, error) {
	call, ok := ctx.(callContext)
	if !ok || !c.quiet {
		return c.doBeside(ctx, call.timeout, command, args)
	}
	deadline := time.Now().Add(call.timeout)
	guard := c.socket.guard(ctx)
	defer guard.end()
	if err := c.Send(command, args...); err != nil {
		return c.judge(nil, err)
	}
	if err := c.Flush(); err != nil {
		return c.judge(nil, err)
	}
	if guard.interrupted(deadline) {
		return nil, errInterrupted
	}
	return c.ReceiveWithTimeout(max(time.Until(deadline), time.Millisecond))
}

// doBeside runs a command on a connection whose socket cannot be waited on.
// redigo starts a goroutine for it, and closes the connection when ctx ends. A
// timeout of 0 is none.
func (c *conn) doBeside(ctx context.Context, timeout time.Duration, command string, args []any) (any, error) {
	if timeout > 0 {
		bounded, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		ctx = bounded
	}
	c.asks(command)
	return c.judge(redis.DoContext(c.Conn, ctx, command, args...))
}

// ReceiveContext is not used, but redigo requires it beside DoContext.
func (c *conn) ReceiveContext(ctx context.Context) (any, error) {
	return c.judge(redis.ReceiveContext(c.Conn, ctx))
}

// DoWithTimeout and ReceiveWithTimeout forward the methods that embedding
// hides.
func (c *conn) DoWithTimeout(timeout time.Duration, command string, args ...any) (any, error) {
	c.asks(command)
	return c.judge(redis.DoWithTimeout(c.Conn, timeout, command, args...))
}

// ReceiveWithTimeout reads one answer.
func (c *conn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return c.judge(redis.ReceiveWithTimeout(c.Conn, timeout))
}

// guard wakes a goroutine that writes to a socket, or waits on it, when a
// context is cancelled.
type guard struct {
	ctx    context.Context
	socket *socket
	stop   func() bool

	mu   sync.Mutex
	over bool // the guard no longer owns the deadlines
}

func (s *socket) guard(ctx context.Context) *guard {
	g := &guard{ctx: ctx, socket: s}
	g.stop = context.AfterFunc(ctx, g.wake)
	return g
}

func (g *guard) wake() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		_ = g.socket.SetDeadline(time.Unix(1, 0)) // long past
	}
}

func (g *guard) end() {
	g.stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
}

// interrupted waits until the socket is readable or has failed, or the deadline
// has passed. It reports whether the context was cancelled first. If not, a
// read shows which of the three it was.
func (g *guard) interrupted(deadline time.Time) bool {
	if g.socket.SetReadDeadline(deadline) != nil {
		return false
	}
	if g.ctx.Err() != nil { // checked after setting the deadline, which may have undone a wake
		g.end()
		return true
	}
	err := waitReadable(g.socket.raw)
	g.end()
	return err != nil && g.ctx.Err() != nil
}
