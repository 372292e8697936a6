package conns

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
)

// pipeline is the connection that the calls of locks share. Requests of many
// goroutines are written together. A caller that leaves abandons its answer
// instead of closing the connection. The connection is dialled when it is first
// used, and again after it was lost.
type pipeline struct {
	lender    *lender
	idle, age time.Duration // after which it is not used again; 0 is no limit

	stream  atomic.Pointer[stream] // nil while there is none
	calls   sync.Pool              // that have ended
	mu      sync.Mutex
	dialing *dialing // nil while no dial is under way; guarded by mu
}

// call runs one command, within the limits and the client's own timeouts. A
// request that was written is never written again.
func (p *pipeline) call(ctx context.Context, limit driver.Limits, r driver.Request) (o driver.Result) {
	for range 3 {
		now := time.Now()
		switch {
		case ctx.Err() != nil:
			return driver.Result{Err: driver.ErrAbandoned}
		case limit.HasPassed(now):
			return driver.Result{Err: driver.ErrTimeout}
		}
		s, idle, err := p.connect(ctx, now, limit.At(now).Connect)
		switch {
		case err != nil:
			return driver.Result{Err: p.lender.orClosed(err)}
		case idle != nil:
			return p.lender.call(ctx, limit, idle, r)
		}
		if o = p.callOn(ctx, s, limit, r); !errors.Is(o.Err, errUnsent) {
			return o
		}
	}
	return driver.Result{Err: p.lender.orClosed(o.Err)}
}

func (p *pipeline) callOn(ctx context.Context, s *stream, limit driver.Limits, r driver.Request) driver.Result {
	start := time.Now()
	c := newSharedCall(&p.calls, start.Add(driver.Below(p.lender.commandTimeout, limit.At(start).Answer)))
	if !s.send(c, r, start) {
		return driver.Result{Err: s.unsent()}
	}
	return p.await(ctx, s, c, start)
}

// await returns the result of a call that the connection took after start.
// Close ends the calls on a connection of our own by closing it.
func (p *pipeline) await(ctx context.Context, s *stream, c *Call, start time.Time) driver.Result {
	var life <-chan struct{}
	if !p.lender.own {
		life = p.lender.life.Done()
	}
	outcome, why := c.wait(ctx, life)
	if why == nil {
		return outcome
	}
	s.retireIfSilent(c, start)
	if c.isDone() { // both happened before this goroutine ran
		return c.outcome
	}
	return c.leave(why)
}

// open returns the connection if there is one. It never dials.
func (p *pipeline) open() *stream { return p.openAt(time.Now()) }

// openAt returns the connection if there is one that is usable at now.
func (p *pipeline) openAt(now time.Time) *stream {
	if s := p.stream.Load(); s != nil && s.usable(now, p.idle, p.age) {
		return s
	}
	return nil
}

// batch runs the commands together, within limit.
func (p *pipeline) batch(
	ctx context.Context, s *stream, limit time.Duration, requests []driver.Request,
) []driver.Result {
	start := time.Now()
	until := start.Add(driver.Below(p.lender.commandTimeout, limit))
	calls := make([]*Call, len(requests))
	for i := range calls {
		calls[i] = newSharedCall(&p.calls, until)
	}
	if !s.sendAll(calls, requests, start) {
		return Same(requests, driver.Result{Err: s.unsent()})
	}
	outcomes := make([]driver.Result, len(calls))
	for i, c := range slices.Backward(calls) { // with the last answer, all are there
		outcomes[i] = p.await(ctx, s, c, start)
	}
	return outcomes
}

// current returns the open connection, or else the attempt to open one. It
// starts an attempt unless one is under way.
func (p *pipeline) current() (*stream, *dialing, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.open(); s != nil {
		return s, nil, nil
	}
	if p.dialing == nil {
		d := newDialing(p.lender.life)
		if !p.lender.tasks.Start(func() { p.dial(d) }) {
			d.end()
			return nil, nil, errs.ErrClosed
		}
		p.dialing = d
	}
	return nil, p.dialing, nil
}

// dial connects, and then reads answers until the connection is lost.
func (p *pipeline) dial(d *dialing) {
	ctx, cancel := context.WithTimeout(p.lender.opening, p.lender.dialTimeout)
	conn, err := p.lender.dialGreeted(ctx)
	cancel()
	if err == nil {
		d.stream = newStream(&p.lender.server, conn)
	} else {
		d.err = p.lender.explain(err)
	}
	p.mu.Lock()
	p.stream.Store(d.stream)
	p.dialing = nil
	p.mu.Unlock()
	close(d.done)
	d.end()
	if d.stream != nil {
		d.stream.run()
	}
}
