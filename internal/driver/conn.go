package driver

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// conn is a connection of our own: redigo's, with the socket under it, so that
// a caller can stop waiting for an answer without cutting the connection and
// without a goroutine for each call.
//
// redigo's DoContext starts a goroutine for each call, and closes the
// connection when the context ends. Here the caller itself waits until the
// socket can be read, which consumes nothing: when the context ends first, the
// answer is still to come, and somebody else can take it.
type conn struct {
	redis.Conn
	socket  *socket
	answers *answers
	quiet   bool // nothing comes unasked, as it may with TLS

	asked   atomic.Int64 // requests
	listens atomic.Bool  // to a channel
}

// Send writes a request, once there is enough to write.
func (c *conn) Send(command string, args ...any) error {
	c.asks(command)
	return c.Conn.Send(command, args...)
}

// Do runs a command.
func (c *conn) Do(command string, args ...any) (any, error) {
	c.asks(command)
	return c.judge(c.Conn.Do(command, args...))
}

// callContext gives DoContext, which has only a context to say it with, the
// time limit of one command.
type callContext struct {
	context.Context
	timeout time.Duration
}

// errInterrupted says that the context ended while the answer was still to
// come. The connection is whole: its next ReceiveWithTimeout gets the answer.
var errInterrupted = errors.New("interrupted")

// unacceptedError is the end of a connection before the server's first answer.
// A server without room closes new connections; the idle ones still work.
type unacceptedError struct{ error }

// Unwrap returns what ended it.
func (e unacceptedError) Unwrap() error { return e.error }

func isUnaccepted(err error) bool {
	var unaccepted unacceptedError
	return errors.As(err, &unaccepted)
}

// DoContext runs a command, with the time limit of a callContext.
func (c *conn) DoContext(ctx context.Context, command string, args ...any) (any, error) {
	call, ok := ctx.(callContext)
	if !ok {
		c.asks(command)
		return c.judge(redis.DoContext(c.Conn, ctx, command, args...))
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

// ReceiveContext is not used; redigo wants it beside DoContext.
func (c *conn) ReceiveContext(ctx context.Context) (any, error) {
	return c.judge(redis.ReceiveContext(c.Conn, ctx))
}

// DoWithTimeout and ReceiveWithTimeout pass on what embedding hides.
func (c *conn) DoWithTimeout(timeout time.Duration, command string, args ...any) (any, error) {
	c.asks(command)
	return c.judge(redis.DoWithTimeout(c.Conn, timeout, command, args...))
}

// ReceiveWithTimeout takes one answer in.
func (c *conn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return c.judge(redis.ReceiveWithTimeout(c.Conn, timeout))
}

// guard wakes whoever writes to a socket, or waits on it, when a context ends.
type guard struct {
	ctx    context.Context
	socket *socket
	stop   func() bool

	mu   sync.Mutex
	over bool // the deadlines are somebody else's now
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

// interrupted waits until the socket can be read, or has failed, or the
// deadline is over: then it returns false, and a read will tell which. It
// returns true if the context ended first.
func (g *guard) interrupted(deadline time.Time) bool {
	if g.socket.SetReadDeadline(deadline) != nil {
		return false
	}
	if g.ctx.Err() != nil { // asked after the deadline was set, which may have undone a wake
		g.end()
		return true
	}
	err := waitReadable(g.socket.raw)
	g.end()
	return err != nil && g.ctx.Err() != nil
}
