package conns

import (
	"context"
	"errors"
	"slices"
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
	left bool // no call waits for it; guarded by the lender's mu
}

// fetch starts a fetch. It does not end with the caller's ctx, but when the
// caller ends it.
func (d *lender) fetch(ctx context.Context, limit time.Duration) *fetch {
	f := &fetch{done: make(chan struct{})}
	f.ctx, f.end = d.bound(context.WithoutCancel(ctx), limit)
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
	f.end()
	d.mu.Lock()
	f.conn, f.err = conn, err
	close(f.done)
	left := f.left
	d.spare = slices.DeleteFunc(d.spare, func(s *fetch) bool { return s == f })
	d.mu.Unlock()
	if left {
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
	switch {
	case f.err == nil:
		d.putBack(f.conn)
	case d.slots != nil:
		<-d.slots
	}
}

// leaveTo leaves a fetch, with its slot, to the next call. Without one, its
// connection goes to the pool.
func (d *lender) leaveTo(next bool, f *fetch) {
	d.mu.Lock()
	ended := isClosed(f.done)
	if !ended {
		f.left = true
	}
	if !ended && next {
		d.spare = append(d.spare, f)
	}
	d.mu.Unlock()
	if ended {
		d.discharge(f)
	}
}

// claim returns a fetch that its call has left, or nil. Its slot is freed,
// because the caller has one.
func (d *lender) claim() *fetch {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Redis.IdleCount() > 0 {
		return nil // a new fetch gets that immediately
	}
	for i, f := range d.spare {
		if f.ctx.Err() != nil {
			continue // a user's Dial ignores its end
		}
		f.left, d.spare = false, slices.Delete(d.spare, i, i+1)
		if d.slots != nil {
			<-d.slots
		}
		return f
	}
	return nil
}

// openOrIdle opens a connection within the limit. Once that takes long, or has
// failed, it takes one that is idle.
func (d *lender) openOrIdle(ctx context.Context, limit time.Duration) (redis.Conn, error) {
	if f := d.claim(); f != nil {
		ctx, cancel := d.bound(ctx, limit)
		defer cancel()
		conn, err := d.await(ctx, f, d.freed)
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
	}
	late, end := context.WithTimeout(d.life, aside)
	defer end()
	return d.await(ctx, d.fetch(ctx, limit), late.Done())
}

// await returns what a fetch has got. After a value of other, it also takes an
// idle connection.
func (d *lender) await(ctx context.Context, f *fetch, other <-chan struct{}) (redis.Conn, error) {
	for {
		select {
		case <-f.done:
			return d.orIdle(ctx, f)
		case <-other:
			other = d.freed
			if idle := d.borrowUnless(ctx, f); idle != nil {
				d.leaveTo(true, f)
				return idle, nil
			}
		case <-ctx.Done():
			return d.endFetch(ctx, f)
		}
	}
}

// orIdle returns what a fetch has got, or else an idle connection in its place.
func (d *lender) orIdle(ctx context.Context, f *fetch) (redis.Conn, error) {
	if f.err != nil && ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(ctx, aside)
		defer cancel()
		if idle, err := d.takeIdle(ctx); err == nil {
			return idle, nil
		}
	}
	return f.conn, f.err
}

// borrowUnless is borrowFreed until the fetch has ended.
func (d *lender) borrowUnless(ctx context.Context, f *fetch) redis.Conn {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(f.ctx, cancel)
	defer stop()
	return d.borrowFreed(ctx)
}

// endFetch ends a fetch, because ctx has ended. A user's Dial may go on.
func (d *lender) endFetch(ctx context.Context, f *fetch) (redis.Conn, error) {
	f.end()
	if !d.own {
		d.leaveTo(false, f)
		return nil, ctx.Err()
	}
	<-f.done
	if f.err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) && d.opening.Err() == nil {
		return nil, errDialTimeout
	}
	return f.conn, f.err
}
