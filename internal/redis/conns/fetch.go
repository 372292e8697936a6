package conns

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
)

// fetch opens a connection of the pool for a call, on a goroutine. A dial may
// hang while a connection comes back. Then the call uses that one, and leaves
// the fetch. The next call that finds no idle connection goes on with it: calls
// that take turns over one connection start no dial each.
type fetch struct {
	ctx  context.Context // of the dial; ends with it
	end  func()
	done chan struct{} // closed when conn or err is set
	conn redis.Conn
	err  error
	left bool // no call waits for it; guarded by the mutex of the spares
}

// isUnderWay reports whether the fetch has time left. A user's Dial may ignore
// that it has none.
func (f *fetch) isUnderWay() bool { return f.ctx.Err() == nil }

// fetch starts a fetch with the deadline of ctx. It does not end with that, but
// when the caller ends it.
func (d *lender) fetch(ctx context.Context) *fetch {
	f := &fetch{done: make(chan struct{})}
	deadline, _ := ctx.Deadline()
	f.ctx, f.end = d.bound(context.WithoutCancel(ctx), max(time.Until(deadline), time.Millisecond))
	serve := func() { d.serve(f) }
	switch {
	case !d.own:
		go serve() // a user's Dial may keep it
	case !d.tasks.Start(serve):
		f.err = errs.ErrClosed
		f.end()
		close(f.done)
	}
	return f
}

// serve opens the connection. The pool gets it, or its place, if no call waits
// for it.
func (d *lender) serve(f *fetch) {
	conn, err := d.getAny(f.ctx)
	if left := d.spare.end(f, conn, err); left {
		d.discharge(f)
	}
}

// getAny takes a connection from the pool, or dials.
func (d *lender) getAny(ctx context.Context) (redis.Conn, error) {
	if !d.own {
		return getContext(ctx, d.Redis)
	}
	own, err := d.borrowOwn(ctx, true)
	if err != nil {
		return nil, err // a nil *conn is no nil redis.Conn
	}
	return own, nil
}

// discharge returns what a fetch has got, which no call wants.
func (d *lender) discharge(f *fetch) {
	if f.err != nil {
		d.slots.free()
		return
	}
	d.putBack(f.conn)
}

// claim returns a fetch that its call has left, or nil.
func (d *lender) claim() *fetch {
	if d.Redis.IdleCount() > 0 {
		return nil // a new fetch gets that immediately
	}
	return d.spare.claim()
}

// openOrIdle opens a connection within the limit. Once that takes long, or has
// failed, it takes one that is idle. The limit is for all fetches together: a
// claimed one may fail late. The error is that of the call's own dial.
func (d *lender) openOrIdle(ctx context.Context, limit time.Duration) (redis.Conn, error) {
	bound, cancel := d.bound(ctx, limit)
	defer cancel()
	for {
		if f := d.claim(); f != nil {
			conn, err := d.awaitClaimed(bound, f)
			if err == nil || bound.Err() != nil {
				return conn, err
			}
		}
		conn, err := d.awaitOwn(ctx, d.fetch(bound))
		if bound.Err() != nil || !d.goesOn(err) {
			return conn, err
		}
	}
}

// goesOn reports whether a call with this error may have another fetch to wait
// for: it has left its own, or those that were left have all the room.
func (d *lender) goesOn(err error) bool {
	return err == errDialTimeout || errors.Is(err, redis.ErrPoolExhausted) && d.spare.has() //nolint:errorlint // our own
}

// awaitClaimed is await for a fetch that another call has left. It may hang
// although new dials do not. So its caller leaves it, too, after a while.
func (d *lender) awaitClaimed(ctx context.Context, f *fetch) (redis.Conn, error) {
	tick := time.NewTicker(aside)
	defer tick.Stop()
	return d.await(ctx, f, d.freed, tick.C)
}

// awaitOwn is await for a fetch that no call has left before.
func (d *lender) awaitOwn(ctx context.Context, f *fetch) (redis.Conn, error) {
	late, end := context.WithTimeout(d.life, aside)
	defer end()
	return d.await(ctx, f, late.Done(), nil)
}

// await returns what a fetch has got. After a value of other, it also takes an
// idle connection. After one of tick it leaves the fetch, see leaveLast.
func (d *lender) await(
	ctx context.Context, f *fetch, other <-chan struct{}, tick <-chan time.Time,
) (redis.Conn, error) {
	for {
		select {
		case <-f.done:
			return d.orIdle(ctx, f)
		case <-other:
			other = d.freed
			switch idle, kept := d.swap(ctx, f); {
			case idle != nil:
				return idle, nil
			case !kept:
				return nil, errDialTimeout
			}
		case <-ctx.Done():
			return d.endFetch(ctx, f)
		case <-tick:
			if d.spare.leaveLast(f) {
				return nil, errDialTimeout
			}
		}
	}
}

// swap returns an idle connection in place of a fetch, or nil. It leaves the
// fetch before: another call must find the one or the other. swap reports
// whether the caller still has the fetch.
func (d *lender) swap(ctx context.Context, f *fetch) (idle redis.Conn, kept bool) {
	if d.Redis.IdleCount() == 0 {
		return nil, true // no newcomer is to take the fetch meanwhile
	}
	if !d.spare.leave(f) {
		if isClosed(f.done) { // the caller uses that, and another call the idle one
			nudge(d.freed)
		}
		return nil, true
	}
	if idle, err := d.takeIdle(ctx, aside); err == nil {
		nudge(d.freed) // there may be more
		return idle, false
	}
	return nil, d.spare.reclaim(f)
}

// orIdle returns what a fetch has got, or else an idle connection in its place.
func (d *lender) orIdle(ctx context.Context, f *fetch) (redis.Conn, error) {
	if f.err != nil && ctx.Err() == nil {
		if idle, err := d.takeIdle(ctx, aside); err == nil {
			return idle, nil
		}
	}
	return f.conn, f.err
}

// endFetch ends a fetch, because ctx has ended. A user's Dial may go on.
func (d *lender) endFetch(ctx context.Context, f *fetch) (redis.Conn, error) {
	f.end()
	if !d.own && d.spare.leave(f) {
		return nil, ctx.Err()
	}
	<-f.done
	if f.err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && d.opening.Err() == nil {
		return nil, errDialTimeout
	}
	return f.conn, f.err
}
