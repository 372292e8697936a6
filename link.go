package relock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// poolLink is a connection beside the pool, dialled as the pool's are. One goroutine uses it; close may come
// from another.
type poolLink struct {
	driver *poolDriver
	life   context.Context // of what is dialled; ends with close
	end    context.CancelFunc

	mu     sync.Mutex
	conn   redis.Conn // nil while there is none
	closed bool
}

// linkGrace is by how much an orderly timeout comes first.
const linkGrace = 50 * time.Millisecond

// withGrace is d and the grace, without overflow.
func withGrace(d time.Duration) time.Duration { return max(d, d+linkGrace) }

func (l *poolLink) pipeline(limit time.Duration, requests []request) []outcome {
	outcomes := make([]outcome, len(requests))
	conn, err := l.connect(limit)
	if err != nil {
		fill(outcomes, outcome{err: l.driver.orClosed(explain(err))})
		return outcomes
	}
	sent := time.Now()
	deadline := sent.Add(below(l.driver.commandTimeout, limit))
	for _, r := range requests {
		deadline = deadline.Add(r.waits)
	}
	// A connection of the user's may know no deadlines.
	closer := time.AfterFunc(withGrace(time.Until(deadline)), func() { _ = conn.Close() })
	defer closer.Stop()
	if err := sendAll(conn, requests); err != nil {
		l.drop(conn)
		fill(outcomes, orLate(l.failed(sent, err), closer))
		return outcomes
	}
	for i := range outcomes {
		outcomes[i] = l.receive(conn, sent, deadline)
		if outcomes[i].unanswered() {
			l.drop(conn)
			from := i
			if errors.Is(outcomes[i].err, errUnasked) {
				from = 0 // any of them may be the one too many
			}
			fill(outcomes[from:], orLate(outcomes[i], closer))
			return outcomes
		}
	}
	if slices.ContainsFunc(outcomes, func(o outcome) bool { return isReadOnly(o.err) }) {
		l.drop(conn)
		l.driver.noteBreak() // so that no call meets the old master, too
	}
	return outcomes
}

// orLate is o, or no answer in time where it was the closer that ended the connection: the server has not broken it.
func orLate(o outcome, closer *time.Timer) outcome {
	if o.broke() && !closer.Stop() {
		o.err = errTimeout
	}
	return o
}

func fill(outcomes []outcome, o outcome) {
	for i := range outcomes {
		outcomes[i] = o
	}
}

func (l *poolLink) failed(sent time.Time, err error) outcome {
	o := newOutcome(sent, nil, err)
	o.err = l.driver.orClosed(o.err)
	return o
}

func sendAll(conn redis.Conn, requests []request) error {
	for _, r := range requests {
		if err := conn.Send(r.cmd, r.args...); err != nil {
			return err
		}
	}
	return conn.Flush()
}

func (l *poolLink) receive(conn redis.Conn, sent, deadline time.Time) outcome {
	reply, err := receiveWithin(conn, max(time.Until(deadline), time.Millisecond))
	o := newOutcome(sent, reply, err)
	o.err = l.driver.orClosed(o.err)
	return o
}

// receiveWithin takes an answer in; 0 is no limit. A connection of the user's may know no limits, or only its own.
func receiveWithin(conn redis.Conn, limit time.Duration) (any, error) {
	if _, ok := conn.(redis.ConnWithTimeout); ok {
		return redis.ReceiveWithTimeout(conn, limit)
	}
	return conn.Receive()
}

// connect returns the connection, dialling it when there is none.
func (l *poolLink) connect(limit time.Duration) (redis.Conn, error) {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn != nil {
		if atRest(conn) == nil {
			return conn, nil
		}
		l.drop(conn)
	}
	ctx, cancel := context.WithTimeout(l.life, below(l.driver.dialTimeout, max(limit, minConnect)))
	defer cancel()
	conn, err := l.driver.dial(ctx)
	if err != nil {
		return nil, err
	}
	return l.keep(conn)
}

func (l *poolLink) keep(conn redis.Conn) (redis.Conn, error) {
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.conn = conn
	}
	l.mu.Unlock()
	if closed {
		l.drop(conn)
		return nil, ErrClosed
	}
	return conn, nil
}

// subscribe listens to a channel until the connection is cut, and returns why.
func (l *poolLink) subscribe(channel string, confirmed func(), message func(string)) error {
	conn, err := l.connect(0)
	if err != nil {
		return l.driver.orClosed(explain(err))
	}
	defer l.drop(conn)
	if err := sendAll(conn, []request{{cmd: "SUBSCRIBE", args: []any{channel}}}); err != nil {
		return l.driver.orClosed(explain(err))
	}
	for timeout := l.driver.commandTimeout; ; timeout = 0 {
		reply, err := receiveWithin(conn, timeout)
		if err != nil {
			return l.driver.orClosed(explain(err))
		}
		values, _ := redis.Values(reply, nil)
		if len(values) != 3 {
			return errBadMessage
		}
		switch kind, _ := redis.String(values[0], nil); kind {
		case "subscribe":
			confirmed()
		case "message":
			text, _ := redis.String(values[2], nil)
			message(text)
		}
	}
}

var errBadMessage = fmt.Errorf("%w: not a message of a subscription", io.ErrUnexpectedEOF)

// cut ends whatever waits for the connection; the next use opens another.
func (l *poolLink) cut() {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn != nil {
		l.drop(conn)
	}
}

// drop closes a connection, on a goroutine: the Close of one of the user's may block, and whoever drops it has others to serve.
func (l *poolLink) drop(conn redis.Conn) {
	l.mu.Lock()
	if l.conn == conn {
		l.conn = nil
	}
	l.mu.Unlock()
	cut := func() { _ = conn.Close() }
	if !l.driver.tasks.start(cut) {
		cut()
	}
}

func (l *poolLink) close() {
	l.end() // ends a dial
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cut() // ends a pipeline that waits for an answer
}
