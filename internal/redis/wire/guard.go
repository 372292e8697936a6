package wire

import (
	"context"
	"sync"
	"time"
)

// guard wakes a goroutine that writes to a socket, or waits on it, when a
// context is cancelled. A nil guard is that of a context that cannot be.
type guard struct {
	conn *Conn
	ctx  context.Context
	stop func() bool
	wake func() // what ctx calls

	mu   sync.Mutex
	over bool // the guard no longer owns the deadlines
}

// guard returns the guard of a call. The connection keeps it for the next one.
func (c *Conn) guard(ctx context.Context) *guard {
	if ctx.Done() == nil {
		return nil
	}
	g := c.guarded
	if g == nil {
		g = &guard{conn: c}
		g.wake = g.interrupt
		c.guarded = g
	}
	g.ctx, g.over = ctx, false
	g.stop = context.AfterFunc(ctx, g.wake)
	return g
}

// interrupt ends the wait of the call.
func (g *guard) interrupt() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.over {
		_ = g.conn.socket.SetDeadline(time.Unix(1, 0)) // long past
	}
}

// end ends the call. A guard that is being called must not see the next one.
func (g *guard) end() {
	if g == nil {
		return
	}
	if !g.stop() {
		g.conn.guarded = nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ctx, g.stop, g.over = nil, nil, true
}

// isCalled reports whether the context was cancelled.
func (g *guard) isCalled() bool { return g != nil && g.ctx.Err() != nil }
