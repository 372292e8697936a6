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

	mu      sync.Mutex
	conn    redis.Conn // nil while there is none
	fresh   bool       // the server has not answered on it yet
	opening *opening   // nil while nobody dials
	closed  bool
}

// linkGrace is by how much an orderly timeout comes first.
const linkGrace = 50 * time.Millisecond

// withGrace is d and the grace, without overflow.
func withGrace(d time.Duration) time.Duration { return max(d, d+linkGrace) }

func (l *poolLink) pipeline(limit batchLimit, requests []request) []outcome {
	conn, o := l.current(limit.own)
	if o != nil {
		if !o.succeeds(minConnect) {
			if outcomes, ok := l.detour(limit.borrowed, requests); ok {
				return outcomes
			}
		}
		<-o.done
		if o.err != nil {
			return same(requests, outcome{err: l.driver.orClosed(explain(o.err))})
		}
		conn = o.conn
	}
	outcomes := l.over(conn, limit.own, requests)
	if !l.isRefused(outcomes[0]) {
		return outcomes
	}
	again, _ := l.detour(limit.borrowed, requests)
	return resent(outcomes, again)
}

// over sends the requests over the link's own connection.
func (l *poolLink) over(conn redis.Conn, limit time.Duration, requests []request) []outcome {
	sent := time.Now()
	deadline := sent.Add(below(l.driver.commandTimeout, limit) + waitsOf(requests))
	// A connection of the user's may know no deadlines.
	closer := time.AfterFunc(withGrace(time.Until(deadline)), func() { _ = conn.Close() })
	defer closer.Stop()
	outcomes := l.roundTrip(conn, closer, sent, deadline, requests)
	switch {
	case outcomes[len(outcomes)-1].unanswered() || isRefusal(outcomes[0].err):
		l.drop(conn)
	case hasReadOnly(outcomes):
		l.drop(conn)
		l.driver.noteBreak() // so that no call meets the old master, too
	}
	return outcomes
}

// roundTrip sends the requests and takes the answers in. When one is missing,
// so are those behind it. The closer may be nil.
func (l *poolLink) roundTrip(conn redis.Conn, closer *time.Timer, sent, deadline time.Time, requests []request) []outcome {
	if err := sendAll(conn, requests); err != nil {
		return same(requests, orLate(l.failed(sent, err), closer))
	}
	outcomes := make([]outcome, len(requests))
	for i := range outcomes {
		outcomes[i] = l.receive(conn, sent, deadline)
		if outcomes[i].unanswered() {
			from := i
			if errors.Is(outcomes[i].err, errUnasked) {
				from = 0 // any of them may be the one too many
			}
			fill(outcomes[from:], orLate(outcomes[i], closer))
			break
		}
	}
	return outcomes
}

// waitsOf is how long the server may take for the requests on top of what
// commands may.
func waitsOf(requests []request) (sum time.Duration) {
	for _, r := range requests {
		sum += r.waits
	}
	return sum
}

func hasReadOnly(outcomes []outcome) bool {
	return slices.ContainsFunc(outcomes, func(o outcome) bool { return isReadOnly(o.err) })
}

// orLate is o, or no answer in time where it was the closer that ended the connection: the server has not broken it.
func orLate(o outcome, closer *time.Timer) outcome {
	if o.broke() && closer != nil && !closer.Stop() {
		o.err = errTimeout
	}
	return o
}

func fill(outcomes []outcome, o outcome) {
	for i := range outcomes {
		outcomes[i] = o
	}
}

// same is one outcome for all requests.
func same(requests []request, o outcome) []outcome {
	outcomes := make([]outcome, len(requests))
	fill(outcomes, o)
	return outcomes
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
	reply, err := redis.ReceiveWithTimeout(conn, max(time.Until(deadline), time.Millisecond))
	o := newOutcome(sent, reply, err)
	o.err = l.driver.orClosed(o.err)
	return o
}

// connect returns the connection, dialling it when there is none.
func (l *poolLink) connect(limit time.Duration) (redis.Conn, error) {
	conn, o := l.current(limit)
	if o == nil {
		return conn, nil
	}
	<-o.done
	return o.conn, o.err
}

// current returns the connection, or else the attempt to get one.
func (l *poolLink) current(limit time.Duration) (redis.Conn, *opening) {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn != nil && atRest(conn) != nil {
		l.drop(conn)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		return l.conn, nil
	}
	return nil, l.open(limit)
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
		reply, err := redis.ReceiveWithTimeout(conn, timeout)
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
	if !l.driver.tasks.Start(cut) {
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
