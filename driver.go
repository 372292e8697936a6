package relock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/tasks"
)

// driver is what the engine needs of a Redis client.
type driver interface {
	// send runs one command of a lock, within the limits and the client's own timeouts. A few have a connection out of
	// the pool each, which is faster by a hop between goroutines; more share one.
	send(ctx context.Context, limit limits, r request) outcome
	// call runs one command, as send does, on a connection out of the pool.
	call(ctx context.Context, limit limits, r request) outcome
	// link returns a connection for one worker, apart from those of the callers. It is opened when it is
	// first used.
	link() link
	// close cuts every connection, and waits for the calls under way.
	close() error
}

// limits bound one call below the client's own timeouts; 0 does not.
type limits struct {
	connect time.Duration // getting a connection
	answer  time.Duration // the command on it
	end     time.Time     // of all that belongs to it, commands that are sent again included; zero when there is none
}

// over says that nothing more may be sent.
func (l limits) over() bool { return !l.end.IsZero() && time.Until(l.end) <= 0 }

// now is what is left of the limits.
func (l limits) now() limits {
	if !l.end.IsZero() {
		left := max(time.Until(l.end), time.Millisecond)
		l.connect, l.answer = below(left, l.connect), below(left, l.answer)
	}
	return l
}

// minConnect is the least time that getting a connection has, however short the leases are.
const minConnect = time.Second

// ofLease are the limits of a command of a lock. Belief counts from the sending, so only the answer is in a
// hurry.
func ofLease(lease time.Duration) limits {
	return limits{connect: max(lease/3, minConnect), answer: lease / 3}
}

// link is a connection of a worker's own.
type link interface {
	// pipeline sends the requests together and returns an outcome for each,
	// within limit. While it cannot connect it uses a connection of the
	// callers.
	pipeline(limit batchLimit, requests []request) []outcome
	// subscribe listens to a channel until the connection is cut, and returns why.
	subscribe(channel string, confirmed func(), message func(string)) error
	// cut closes the connection; the next use opens another.
	cut()
	close()
}

// poolDriver is the driver on a redigo pool, either our own or the user's.
type poolDriver struct {
	pool    *redis.Pool
	own     bool
	dial    func(context.Context) (redis.Conn, error)
	slots   chan struct{} // one for each connection in use, where callers wait for them; redigo's own wait cannot be closed safely
	dialer  *dialer       // of our own
	sockets *sockets      // of the connections that it opened
	shared  *pipeline

	apart int64        // so many calls of send have a connection each; tests set it
	busy  atomic.Int64 // calls of send under way

	life           context.Context // ends at close
	end            context.CancelFunc
	dialTimeout    time.Duration
	commandTimeout time.Duration
	start          time.Time    // what broken counts from
	broken         atomic.Int64 // ns after start of the last connection that broke; idle ones older than that are not used again
	tasks          tasks.Group
}

func newPoolDriver(c *driverConfig) *poolDriver {
	d := &poolDriver{dialTimeout: c.dialTimeout, commandTimeout: c.commandTimeout, apart: crowd, start: time.Now()}
	d.life, d.end = context.WithCancel(context.Background())
	d.shared = &pipeline{driver: d}
	return d
}

// newOwnPool returns a driver with a pool made from the options.
func newOwnPool(c *driverConfig) *poolDriver {
	d := newPoolDriver(c)
	d.own = true
	d.shared.idle = c.idleTimeout
	d.sockets = newSockets()
	d.dialer = newDialer(c, d.sockets)
	d.dial = d.dialOwn
	d.pool = &redis.Pool{
		DialContext: d.dial, TestOnBorrow: d.check,
		MaxIdle: c.maxIdle, MaxActive: c.maxActive, IdleTimeout: c.idleTimeout,
	}
	if c.wait && c.maxActive > 0 {
		d.slots = make(chan struct{}, c.maxActive)
	}
	return d
}

// newUserPool returns a driver on the user's pool.
func newUserPool(c *driverConfig, pool *redis.Pool) *poolDriver {
	d := newPoolDriver(c)
	d.pool = pool
	d.shared.idle, d.shared.age = pool.IdleTimeout, pool.MaxConnLifetime
	d.dial = func(ctx context.Context) (redis.Conn, error) {
		return dialBeside(ctx, func() (redis.Conn, error) { return dialAsPool(ctx, pool) })
	}
	return d
}

// dialAsPool dials as the user's pool does.
func dialAsPool(ctx context.Context, pool *redis.Pool) (conn redis.Conn, err error) {
	if pool.DialContext != nil {
		conn, err = pool.DialContext(ctx)
	} else {
		conn, err = pool.Dial()
	}
	if err != nil {
		return nil, err
	}
	if _, ok := conn.(redis.ConnWithTimeout); !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("%w (%T)", errNoTimeouts, conn)
	}
	return conn, nil
}

var errNoTimeouts = fmt.Errorf("%w: pool: its connections do not implement redis.ConnWithTimeout", errs.ErrInvalid)

// check refuses an idle connection that was last used before some other one broke, as the server was probably restarted, and one on
// which there is something to read. It asks the server nothing.
func (d *poolDriver) check(idle redis.Conn, lastUsed time.Time) error {
	if int64(lastUsed.Sub(d.start)) <= d.broken.Load() {
		return errStale
	}
	return atRest(idle)
}

var errStale = errors.New("idle connection is older than a break")

// inUse returns how many connections callers have, if the pool counts them: they
// wait for one.
func (d *poolDriver) inUse() int { return len(d.slots) }

// sending returns how many calls of send are under way.
func (d *poolDriver) sending() int64 { return d.busy.Load() }

func (d *poolDriver) send(ctx context.Context, limit limits, r request) outcome {
	n := d.busy.Add(1)
	defer d.busy.Add(-1)
	if n > d.apart && r.confirm == nil {
		return d.shared.call(ctx, limit, r)
	}
	return d.call(ctx, limit, r)
}

func (d *poolDriver) call(ctx context.Context, limit limits, r request) outcome {
	switch {
	case ctx.Err() != nil:
		return outcome{err: errLeft}
	case d.own && (ctx.Done() == nil || d.dialer.interruptible()):
		return d.run(ctx, limit, nil, r)
	}
	return d.callBeside(ctx, limit, r)
}

// callBeside runs a command on a goroutine, where a caller could not leave it otherwise.
func (d *poolDriver) callBeside(ctx context.Context, limit limits, r request) outcome {
	c := newCall()
	started := d.tasks.Start(func() {
		defer close(c.done)
		c.outcome = d.run(ctx, limit, c, r)
	})
	if !started {
		return outcome{err: errs.ErrClosed}
	}
	// A connection of the user's may know no deadlines, so both parts are bounded here as well.
	timer := time.NewTimer(withGrace(below(d.dialTimeout, limit.now().connect)))
	defer timer.Stop()
	begun := c.begun
	for {
		select {
		case <-c.done:
			return c.outcome
		case <-begun:
			begun = nil
			timer.Reset(withGrace(below(d.commandTimeout, limit.now().answer) + r.confirm.longest()))
		case <-timer.C:
			return c.leave(errTimeout)
		case <-ctx.Done():
			return c.leave(errLeft)
		case <-d.life.Done():
			return c.leave(errs.ErrClosed)
		}
	}
}

// run takes a connection and runs the command on it.
func (d *poolDriver) run(ctx context.Context, limit limits, c *call, r request) outcome {
	if limit.over() {
		return outcome{err: errTimeout}
	}
	conn, err := d.connect(ctx, limit.now().connect)
	switch {
	case err != nil && d.life.Err() == nil && isOver(ctx):
		return outcome{err: errLeft}
	case err != nil:
		return outcome{err: d.orClosed(err)}
	}
	sent := time.Now()
	if !c.begin(sent) {
		d.putBack(conn)
		return outcome{err: errLeft}
	}
	timeout := below(d.commandTimeout, limit.now().answer)
	reply, err := d.do(ctx, c, conn, timeout, r)
	if errors.Is(err, errInterrupted) {
		return d.leave(conn, sent, timeout+r.confirm.longest())
	}
	d.putBack(conn)
	o := d.outcome(sent, reply, err)
	if o.unanswered() && ctx.Err() != nil {
		o.err = errLeft // it was interrupted while it was written
	}
	return o
}

// outcome is called when the connection is back in the pool: a break makes all
// that are idle then stale, itself included. So does READONLY: behind one
// address another connection may lead to the new master. A connection that was
// refused says nothing about them.
func (d *poolDriver) outcome(sent time.Time, reply any, err error) outcome {
	o := newOutcome(sent, reply, err)
	if o.broke() && !isUnaccepted(o.err) || isReadOnly(o.err) {
		d.noteBreak()
	}
	o.err = d.orClosed(o.err)
	return o
}

// noteBreak makes the connections stale that are idle now.
func (d *poolDriver) noteBreak() { d.broken.Store(int64(time.Since(d.start))) }

// leave lets a goroutine wait for the answer that the caller does not want to wait for, and put the
// connection back.
func (d *poolDriver) leave(conn redis.Conn, sent time.Time, timeout time.Duration) outcome {
	c := newCall()
	started := d.tasks.Start(func() {
		defer close(c.done)
		reply, err := redis.ReceiveWithTimeout(conn, max(timeout-time.Since(sent), time.Millisecond))
		d.putBack(conn)
		c.outcome = d.outcome(sent, reply, err)
	})
	if !started {
		d.putBack(conn)
		return outcome{err: errs.ErrClosed, sent: sent}
	}
	return outcome{err: errLeft, sent: sent, left: c}
}

// isOver says whether ctx has ended. Its deadline ends a dial by itself, and that can be seen a moment before
// the context ends.
func isOver(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second): // a context of somebody's own, which does not keep its deadline
		}
	}
	return ctx.Err() != nil
}

// do runs the command with a deadline. A caller that runs it itself can be interrupted. Close cuts a
// connection of our own at its socket; one of the user's pool can only be cut through a context, which costs
// a goroutine.
func (d *poolDriver) do(ctx context.Context, c *call, conn redis.Conn, timeout time.Duration, r request) (any, error) {
	reply, err := d.doOnce(ctx, c, conn, timeout, r)
	if err == nil && r.confirm != nil {
		err = d.confirm(ctx, c, conn, timeout, r, reply)
	}
	return reply, err
}

func (d *poolDriver) doOnce(ctx context.Context, c *call, conn redis.Conn, timeout time.Duration, r request) (any, error) {
	switch {
	case d.own && c == nil && ctx.Done() != nil:
		return redis.DoContext(conn, callContext{ctx, timeout}, r.cmd, r.args...)
	case d.own:
		return redis.DoWithTimeout(conn, timeout, r.cmd, r.args...)
	}
	life, cancel := context.WithTimeout(d.life, timeout)
	defer cancel()
	reply, err := redis.DoContext(conn, life, r.cmd, r.args...)
	if err != nil && strings.HasSuffix(err.Error(), "does not support ConnWithContext") {
		return doWithTimeout(conn, timeout, r) // nothing was sent
	}
	return reply, err
}

// doWithTimeout runs a command on a connection of the user's that knows no
// contexts. The pool wraps connections, so that only a call shows what one can.
func doWithTimeout(conn redis.Conn, timeout time.Duration, r request) (any, error) {
	reply, err := redis.DoWithTimeout(conn, timeout, r.cmd, r.args...)
	if err != nil && strings.HasSuffix(err.Error(), "does not support ConnWithTimeout") {
		return nil, errNoTimeouts
	}
	return reply, err
}

// orClosed makes ErrClosed of whatever happens because of close.
func (d *poolDriver) orClosed(err error) error {
	if err != nil && d.life.Err() != nil {
		return errs.ErrClosed
	}
	return err
}

// closeWait is how long close waits for goroutines. They end at once when their
// connections are cut. Only code of the user's can keep one longer: a Dial
// without a context, in a pool of their own.
const closeWait = 40 * time.Millisecond

func (d *poolDriver) close() error {
	d.end()
	var err error
	if d.own {
		d.sockets.close()
		err = d.pool.Close()
	}
	d.tasks.WaitFor(closeWait)
	return err
}

func (d *poolDriver) link() link {
	l := &poolLink{driver: d}
	l.life, l.end = context.WithCancel(d.life)
	return l
}

// below is limit where it is set and lower than d.
func below(d, limit time.Duration) time.Duration {
	if limit > 0 {
		return min(d, limit)
	}
	return d
}
