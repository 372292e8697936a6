package driver

import (
	"context"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
)

// callBeside runs a command on a goroutine, if the caller could not leave it
// otherwise.
func (d *Pool) callBeside(ctx context.Context, limit Limits, r Request) Result {
	c := newCall()
	started := d.tasks.Start(func() {
		defer close(c.done)
		c.outcome = d.run(ctx, limit, c, r)
	})
	if !started {
		return Result{Err: errs.ErrClosed}
	}
	// A user's connection may not support deadlines, so both parts are limited
	// here too.
	timer := time.NewTimer(withGrace(below(d.dialTimeout, limit.at(time.Now()).Connect)))
	defer timer.Stop()
	begun := c.begun
	for {
		select {
		case <-c.done:
			return c.outcome
		case <-begun:
			begun = nil
			timer.Reset(withGrace(below(d.commandTimeout, limit.at(time.Now()).Answer) + r.Ack.longest()))
		case <-timer.C:
			return c.leave(ErrTimeout)
		case <-ctx.Done():
			return c.leave(ErrAbandoned)
		case <-d.life.Done():
			return c.leave(errs.ErrClosed)
		}
	}
}

// callAsking runs a command whose slot the server is importing. ASKING and the
// command are written together, on a connection of the pool. Only a node of a
// router calls it: its pool is our own.
func (d *Pool) callAsking(ctx context.Context, limit Limits, r Request) Result {
	if ctx.Err() != nil {
		return Result{Err: ErrAbandoned}
	}
	r.asking = true
	return d.callBeside(ctx, limit, r)
}

// run takes a connection and runs the command on it.
func (d *Pool) run(ctx context.Context, limit Limits, c *Call, r Request) Result {
	now := time.Now()
	if limit.hasPassed(now) {
		return Result{Err: ErrTimeout}
	}
	conn, err := d.connect(ctx, limit.at(now).Connect)
	switch {
	case err != nil && d.life.Err() == nil && hasEnded(ctx):
		return Result{Err: ErrAbandoned}
	case err != nil:
		return Result{Err: d.orClosed(err)}
	}
	sent := time.Now()
	if !c.begin(sent) {
		d.putBack(conn)
		return Result{Err: ErrAbandoned}
	}
	timeout := below(d.commandTimeout, limit.at(sent).Answer)
	reply, err := d.do(ctx, c, conn, timeout, r)
	if err == errInterrupted { //nolint:errorlint // our own sentinel
		return d.leave(conn, sent, timeout+r.Ack.longest())
	}
	d.putBack(conn)
	if err == errUnwritten { //nolint:errorlint // our own sentinel
		return Result{Err: ErrAbandoned}
	}
	o := d.result(sent, reply, err)
	if o.Unanswered() && ctx.Err() != nil {
		o.Err = ErrAbandoned // the write was interrupted
	}
	return o
}

// result is called after the connection was returned to the pool. A break makes
// all connections stale that are idle then, including this one. So does
// READONLY, see isBreak. A connection that was refused shows nothing about the
// others.
func (d *Pool) result(sent time.Time, reply any, err error) Result {
	o := d.newResult(sent, reply, err)
	if o.Broke() && !isUnaccepted(o.Err) || d.isBreak(o.Err) {
		d.noteBreak()
	}
	o.Err = d.orClosed(o.Err)
	return o
}

// noteBreak makes the connections stale that are idle now.
func (d *Pool) noteBreak() { d.broken.Store(int64(time.Since(d.start))) }

// leave starts a goroutine that waits for the answer in place of the caller,
// and then returns the connection to the pool.
func (d *Pool) leave(conn redis.Conn, sent time.Time, timeout time.Duration) Result {
	c := newCall()
	started := d.tasks.Start(func() {
		defer close(c.done)
		reply, err := redis.ReceiveWithTimeout(conn, max(timeout-time.Since(sent), time.Millisecond))
		d.putBack(conn)
		c.outcome = d.result(sent, reply, err)
	})
	if !started {
		d.putBack(conn)
		return Result{Err: errs.ErrClosed, Sent: sent}
	}
	return Result{Err: ErrAbandoned, Sent: sent, Abandoned: c}
}

// hasEnded reports whether ctx has ended. Its deadline also ends a dial
// directly. That can be visible a moment before the context ends.
func hasEnded(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second): // a user's context may ignore its own deadline
		}
	}
	return ctx.Err() != nil
}

// do runs the command with a deadline. A caller that runs it itself can be
// interrupted. Close closes a connection of our own at its socket. One of the
// user's pool can only be ended by a context, which costs a goroutine.
func (d *Pool) do(ctx context.Context, c *Call, conn redis.Conn, timeout time.Duration, r Request) (any, error) {
	reply, err := d.doOnce(ctx, c, conn, timeout, r)
	if err == nil && r.Ack != nil {
		err = d.confirm(ctx, c, conn, timeout, r, reply)
	}
	return reply, err
}

func (d *Pool) doOnce(ctx context.Context, c *Call, on redis.Conn, timeout time.Duration, r Request) (any, error) {
	if own, ok := on.(*conn); ok {
		if c != nil {
			ctx = context.Background() // its caller leaves the goroutine
		}
		if r.asking {
			return own.askAnd(ctx, timeout, &r)
		}
		return own.call(ctx, timeout, &r)
	}
	life, cancel := context.WithTimeout(d.life, timeout)
	defer cancel()
	reply, err := redis.DoContext(on, life, r.Cmd, r.List()...)
	if err != nil && strings.HasSuffix(err.Error(), "does not support ConnWithContext") {
		return doWithTimeout(on, timeout, r) // nothing was sent
	}
	return reply, err
}

// doWithTimeout runs a command on a user's connection without contexts. The
// pool wraps connections, so only a call shows what a connection supports.
func doWithTimeout(conn redis.Conn, timeout time.Duration, r Request) (any, error) {
	reply, err := redis.DoWithTimeout(conn, timeout, r.Cmd, r.List()...)
	if err != nil && strings.HasSuffix(err.Error(), "does not support ConnWithTimeout") {
		return nil, errNoTimeouts
	}
	return reply, err
}

// orClosed replaces any error that may be due to Close by ErrClosed.
func (d *Pool) orClosed(err error) error {
	if err != nil && d.life.Err() != nil {
		return errs.ErrClosed
	}
	return err
}
