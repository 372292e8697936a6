package conns

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
)

// dialing is one attempt to connect, for all calls that wait for it.
type dialing struct {
	late   context.Context // ends a moment after the dial began, or with it
	end    context.CancelFunc
	done   chan struct{} // closed when stream or err is set
	stream *stream
	err    error
}

func newDialing(life context.Context) *dialing {
	d := &dialing{done: make(chan struct{})}
	d.late, d.end = context.WithTimeout(life, aside)
	return d
}

// connect returns the connection that is usable at now. If it must be dialled,
// connect waits for it. A dial may hang or fail while connections of the pool
// work. Then connect returns one of these, as soon as one is idle.
func (p *pipeline) connect(ctx context.Context, now time.Time, limit time.Duration) (*stream, redis.Conn, error) {
	if s := p.openAt(now); s != nil {
		return s, nil, nil
	}
	limit = driver.Below(p.lender.dialTimeout, limit)
	s, d, err := p.current()
	if d == nil {
		return s, nil, err
	}
	timer := time.NewTimer(withGrace(limit))
	defer timer.Stop()
	for other := d.late.Done(); ; other = p.lender.freed {
		if err := p.wait(ctx, d, timer.C, other); err != nil {
			return nil, nil, err
		}
		done := isClosed(d.done)
		if done && d.err == nil {
			return d.stream, nil, nil
		}
		idle := p.lender.borrowFreed(ctx)
		switch {
		case idle != nil:
			return nil, idle, nil
		case done:
			return nil, nil, d.err
		}
	}
}

// wait waits for the end of a dial, or for the other.
func (p *pipeline) wait(ctx context.Context, d *dialing, end <-chan time.Time, other <-chan struct{}) error {
	select {
	case <-d.done:
		return nil
	case <-other:
		return nil
	case <-end:
		return errDialTimeout
	case <-ctx.Done():
		return driver.ErrAbandoned
	case <-p.lender.life.Done():
		return errs.ErrClosed
	}
}
