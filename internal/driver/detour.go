package driver

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
)

// A worker that cannot connect uses a connection of its client. The server, or
// the system, may have no room for one more connection while idle ones work.
// The batch goes over an idle connection of the pool, or else over the shared
// one. The next batch dials again.
//
// The goroutine that sends the batch owns the borrowed connection and returns
// it to the pool. Any error in the middle of the batch is the result of all
// requests behind it. The pool then closes the connection. A batch is sent a
// second time only if a new connection broke before its first answer.

// BatchLimit limits how long a batch waits for its answers.
type BatchLimit struct {
	Own      time.Duration // over the worker's connection
	Borrowed time.Duration // over a borrowed one, which callers lack meanwhile
}

// detour sends the requests over a connection of the callers. It reports
// whether there was one.
func (l *poolLink) detour(limit time.Duration, requests []Request) ([]Result, bool) {
	if l.life.Err() != nil {
		return nil, false
	}
	if conn := l.driver.borrow(l.life, limit); conn != nil {
		return l.overBorrowed(conn, limit, requests), true
	}
	if s := l.driver.shared.open(); s != nil && waitsOf(requests) == 0 {
		return l.driver.shared.batch(l.life, s, limit, requests), true
	}
	return nil, false
}

// overBorrowed sends the requests over a connection of the pool, on a
// goroutine, because a write may block. If the limit passes, the goroutine
// keeps the connection.
func (l *poolLink) overBorrowed(conn redis.Conn, limit time.Duration, requests []Request) []Result {
	d := l.driver
	sent := time.Now()
	deadline := sent.Add(min(below(d.commandTimeout, limit)+waitsOf(requests), limit))
	answers := make(chan []Result, 1)
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
		return same(requests, Result{Err: errs.ErrClosed})
	}
	timer := time.NewTimer(withGrace(time.Until(deadline)))
	defer timer.Stop()
	select {
	case outcomes := <-answers:
		return outcomes
	case <-timer.C:
		return same(requests, Result{Err: ErrTimeout, Sent: sent})
	case <-l.life.Done():
		return same(requests, Result{Err: errs.ErrClosed, Sent: sent})
	}
}

// isRefused reports whether the server has refused the link's connection. The
// server accepts each connection first. So only the first answer shows it, or a
// break in its place.
func (l *poolLink) isRefused(first Result) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh := l.fresh
	l.fresh = fresh && !first.Answered && !IsAnswer(first.Err)
	return isRefusal(first.Err) || fresh && first.Broke()
}

// resent returns the results of a batch that was sent again. For a request that
// was not sent again, the first result stays.
func resent(first, again []Result) []Result {
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
func (d *Pool) borrow(ctx context.Context, limit time.Duration) redis.Conn {
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
func (d *Pool) takeIdle(ctx context.Context) (redis.Conn, error) {
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
