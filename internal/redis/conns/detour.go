package conns

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
)

// detour sends the requests over a connection of the callers. It reports
// whether there was one.
func (l *poolLink) detour(limit time.Duration, requests []driver.Request) ([]driver.Result, bool) {
	if l.life.Err() != nil {
		return nil, false
	}
	if conn := l.driver.borrow(l.life, limit); conn != nil {
		return l.overBorrowed(conn, limit, requests), true
	}
	if s := l.shared.open(); s != nil && WaitsOf(requests) == 0 {
		return l.shared.batch(l.life, s, limit, requests), true
	}
	return nil, false
}

// overBorrowed sends the requests over a connection of the pool, on a
// goroutine, because a write may block. If the limit passes, the goroutine
// keeps the connection.
func (l *poolLink) overBorrowed(conn redis.Conn, limit time.Duration, requests []driver.Request) []driver.Result {
	d := l.driver
	sent := time.Now()
	deadline := sent.Add(min(driver.Below(d.commandTimeout, limit)+WaitsOf(requests), limit))
	answers := make(chan []driver.Result, 1)
	started := d.tasks.Start(func() {
		outcomes := l.roundTrip(conn, nil, sent, deadline, requests)
		d.putBack(conn)
		if outcomes[len(outcomes)-1].Broke() || d.hasBreak(outcomes) {
			d.noteBreak()
		}
		answers <- outcomes
	})
	if !started {
		d.putBack(conn)
		return Same(requests, driver.Result{Err: errs.ErrClosed})
	}
	timer := time.NewTimer(withGrace(time.Until(deadline)))
	defer timer.Stop()
	select {
	case outcomes := <-answers:
		return outcomes
	case <-timer.C:
		return Same(requests, driver.Result{Err: driver.ErrTimeout, Sent: sent})
	case <-l.life.Done():
		return Same(requests, driver.Result{Err: errs.ErrClosed, Sent: sent})
	}
}

// isRefused reports whether the server has refused the link's connection. The
// server accepts each connection first. So only the first answer shows it, or a
// break in its place.
func (l *poolLink) isRefused(first driver.Result) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := l.fresh
	l.fresh = fresh && !first.Answered && !driver.IsAnswer(first.Err)
	return driver.IsRefusal(first.Err) || fresh && first.Broke()
}

// resent returns the results of a batch that was sent again. For a request that
// was not sent again, the first result stays.
func resent(first, again []driver.Result) []driver.Result {
	for i, o := range again {
		if !o.Sent.IsZero() {
			o.Resent = first[i].Unanswered()
			first[i] = o
		}
	}
	return first
}

// borrow takes an idle connection from the pool. It returns nil if there is
// none. putBack returns the connection.
func (d *lender) borrow(ctx context.Context, limit time.Duration) redis.Conn {
	if d.slots != nil {
		select {
		case d.slots <- struct{}{}:
		default:
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := d.takeIdle(ctx)
	if err != nil {
		if d.slots != nil {
			<-d.slots
		}
		return nil
	}
	return conn
}

// takeIdle takes an idle connection from the pool. The user's pool may dial
// instead, if its idle ones are stale.
func (d *lender) takeIdle(ctx context.Context) (redis.Conn, error) {
	switch {
	case d.own:
		own, err := d.borrowOwn(ctx, 0, false)
		if err != nil {
			return nil, err
		}
		return own, nil
	case d.Redis.IdleCount() == 0:
		return nil, errNoIdle
	}
	return dialBeside(ctx, func() (redis.Conn, error) { return getContext(ctx, d.Redis) })
}
