package conns

import (
	"context"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/wire"
)

// confirm sends WAIT on the connection that has answered the request. A request
// that was not granted needs no replica.
func (d *lender) confirm(
	ctx context.Context, c *Call, conn redis.Conn, timeout time.Duration, r driver.Request, reply any,
) error {
	if !r.Granted(reply) {
		return nil
	}
	reply, err := d.doOnce(ctx, c, conn, timeout+r.Ack.Timeout, r.Ack.Request())
	if err == wire.ErrUnwritten { //nolint:errorlint // our own sentinel
		err = driver.ErrAbandoned // the request itself was sent
	}
	return r.Ack.Judge(reply, err)
}

// call runs a command on a connection that was borrowed, or on one that it
// takes if that is nil.
func (d *lender) call(ctx context.Context, limit driver.Limits, on redis.Conn, r driver.Request) driver.Result {
	if d.own && (ctx.Done() == nil || d.dialer.Interruptible()) {
		return d.run(ctx, limit, nil, on, r)
	}
	return d.callBeside(ctx, limit, on, r)
}

// callBeside runs a command on a goroutine, if the caller could not leave it
// otherwise.
func (d *lender) callBeside(ctx context.Context, limit driver.Limits, on redis.Conn, r driver.Request) driver.Result {
	c := newCall()
	started := d.tasks.Start(func() {
		c.finish(d.run(ctx, limit, c, on, r))
	})
	if !started {
		if on != nil {
			d.putBack(on)
		}
		return driver.Result{Err: errs.ErrClosed}
	}
	// A user's connection may not support deadlines, so both parts are
	// limited here too.
	timer := time.NewTimer(withGrace(driver.Below(d.dialTimeout, limit.At(time.Now()).Connect)))
	defer timer.Stop()
	begun := c.begun
	for {
		select {
		case <-c.done:
			return c.outcome
		case <-begun:
			begun = nil
			timer.Reset(withGrace(driver.Below(d.commandTimeout, limit.At(time.Now()).Answer) + r.Ack.Longest()))
		case <-timer.C:
			return c.leave(driver.ErrTimeout)
		case <-ctx.Done():
			return c.leave(driver.ErrAbandoned)
		case <-d.life.Done():
			return c.leave(errs.ErrClosed)
		}
	}
}

// CallAsking runs a command whose slot the server is importing. ASKING and the
// command are written together, on a connection of the pool. Only a node of a
// router calls it: its pool is our own.
func (d *lender) CallAsking(ctx context.Context, limit driver.Limits, r driver.Request) driver.Result {
	if ctx.Err() != nil {
		return driver.Result{Err: driver.ErrAbandoned}
	}
	r.Asking = true
	return d.callBeside(ctx, limit, nil, r)
}

// run runs the command on a connection, or on one that it takes if that is nil.
func (d *lender) run(
	ctx context.Context, limit driver.Limits, c *Call, conn redis.Conn, r driver.Request,
) driver.Result {
	if conn == nil {
		var err error
		if conn, err = d.take(ctx, limit); err != nil {
			return driver.Result{Err: err}
		}
	}
	sent := time.Now()
	if !c.begin(sent) {
		d.putBack(conn)
		return driver.Result{Err: driver.ErrAbandoned}
	}
	timeout := driver.Below(d.commandTimeout, limit.At(sent).Answer)
	reply, err := d.do(ctx, c, conn, timeout, r)
	if err == wire.ErrInterrupted { //nolint:errorlint // our own sentinel
		return d.leave(conn, sent, timeout+r.Ack.Longest())
	}
	if err == wire.ErrUnwritten { //nolint:errorlint // our own sentinel
		d.putBack(conn)
		return driver.Result{Err: driver.ErrAbandoned}
	}
	o := d.result(conn, sent, reply, err)
	d.putBack(conn)
	if o.Unanswered() && ctx.Err() != nil {
		o.Err = driver.ErrAbandoned // the write was interrupted
	}
	return o
}

// take takes a connection from the pool, within the limit for that.
func (d *lender) take(ctx context.Context, limit driver.Limits) (redis.Conn, error) {
	now := time.Now()
	if limit.HasPassed(now) {
		return nil, driver.ErrTimeout
	}
	conn, err := d.connect(ctx, limit.At(now).Connect)
	switch {
	case err != nil && d.life.Err() == nil && hasEnded(ctx):
		return nil, driver.ErrAbandoned
	case err != nil:
		return nil, d.orClosed(err)
	case limit.HasPassed(time.Now()):
		d.putBack(conn)
		return nil, driver.ErrTimeout
	}
	return conn, nil
}

// result is called before the connection is returned to the pool. A break makes
// all connections stale that are idle then. READONLY counts as a break, see
// isBreak. A connection that was refused shows nothing about the others.
func (d *lender) result(conn redis.Conn, sent time.Time, reply any, err error) driver.Result {
	o := d.newResult(sent, reply, err)
	if o.Broke() && !wire.IsUnaccepted(o.Err) || d.isBreak(o.Err) {
		d.breakOff(conn)
	}
	o.Err = d.orClosed(o.Err)
	return o
}

// leave starts a goroutine that waits for the answer in place of the caller,
// and then returns the connection to the pool.
func (d *lender) leave(conn redis.Conn, sent time.Time, timeout time.Duration) driver.Result {
	c := newCall()
	started := d.tasks.Start(func() {
		reply, err := redis.ReceiveWithTimeout(conn, max(timeout-time.Since(sent), time.Millisecond))
		o := d.result(conn, sent, reply, err)
		d.putBack(conn)
		c.finish(o)
	})
	if !started {
		d.putBack(conn)
		return driver.Result{Err: errs.ErrClosed, Sent: sent}
	}
	return driver.Result{Err: driver.ErrAbandoned, Sent: sent, Abandoned: &c.answer}
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
func (d *lender) do(
	ctx context.Context, c *Call, conn redis.Conn, timeout time.Duration, r driver.Request,
) (any, error) {
	reply, err := d.doOnce(ctx, c, conn, timeout, r)
	if err == nil && r.Ack != nil {
		err = d.confirm(ctx, c, conn, timeout, r, reply)
	}
	return reply, err
}

func (d *lender) doOnce(
	ctx context.Context, c *Call, on redis.Conn, timeout time.Duration, r driver.Request,
) (any, error) {
	if own, ok := on.(*wire.Conn); ok {
		if c != nil {
			ctx = context.Background() // its caller leaves the goroutine
		}
		if r.Asking {
			return own.AskAnd(ctx, timeout, &r)
		}
		return own.Call(ctx, timeout, &r)
	}
	life, cancel := context.WithTimeout(d.life, timeout)
	defer cancel()
	reply, err := redis.DoContext(on, life, r.Cmd, r.List()...)
	if lacksContexts(err) {
		return doWithTimeout(on, timeout, r) // nothing was sent
	}
	return reply, err
}

// doWithTimeout runs a command on a user's connection without contexts. The
// pool wraps connections, so only a call shows what a connection supports.
func doWithTimeout(conn redis.Conn, timeout time.Duration, r driver.Request) (any, error) {
	reply, err := redis.DoWithTimeout(conn, timeout, r.Cmd, r.List()...)
	if err != nil && strings.HasSuffix(err.Error(), "does not support ConnWithTimeout") {
		return nil, errNoTimeouts
	}
	return reply, err
}
