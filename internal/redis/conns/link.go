package conns

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/wire"
)

// poolLink is a connection outside the pool, dialled as the pool's are. One
// goroutine uses it. Another one may call Close.
type poolLink struct {
	driver *lender
	shared *pipeline       // for a detour
	life   context.Context // of dials; cancelled by Close
	end    context.CancelFunc
	slow   time.Duration // the least limit of the next dial; only for the goroutine that dials

	mu      sync.Mutex
	conn    redis.Conn // nil while there is none
	opening *opening   // nil while no dial is under way
	feed    *feed      // of the subscription under way
	waiting *waiting   // of the pipeline under way; nil if there is none
	closed  bool
}

func (l *poolLink) Pipeline(limit driver.BatchLimit, requests []driver.Request) []driver.Result {
	l.beginWait()
	defer l.endWait()
	conn, o := l.current(limit.Own)
	var around *detour
	if o != nil {
		around = l.newDetour(o, limit.Borrowed, requests)
		outcomes, connected := around.run(o)
		switch {
		case connected:
			conn = o.conn
		case outcomes == nil:
			return Same(requests, driver.Result{Err: l.driver.orClosed(l.driver.explain(o.err))})
		default:
			return outcomes
		}
	}
	return repeated(l.exchange(conn, limit.Own, requests), around != nil && around.copies > 0)
}

// exchange sends the requests over the link's own connection.
func (l *poolLink) exchange(conn redis.Conn, limit time.Duration, requests []driver.Request) []driver.Result {
	sent := time.Now()
	deadline := sent.Add(driver.Below(l.driver.commandTimeout, limit) + WaitsOf(requests))
	w := l.expect(conn, deadline, requests)
	outcomes := l.roundTrip(conn, w, sent, deadline, requests)
	switch {
	case outcomes[len(outcomes)-1].IsMissing() || driver.IsRefusal(outcomes[0].Err) || w.isOver():
		l.drop(conn)
	case l.driver.hasBreak(outcomes):
		l.drop(conn)
		l.driver.noteBreak() // so that no call meets the old master, too
	}
	return outcomes
}

// roundTrip sends the requests and reads the answers. If one is missing, so are
// those behind it. A WAIT behind the others is sent once one was granted: it
// would delay the answers that need no replica.
func (l *poolLink) roundTrip(
	conn redis.Conn, w *waiting, sent, deadline time.Time, requests []driver.Request,
) []driver.Result {
	before := len(requests)
	if before > 1 && requests[before-1].Waits > 0 {
		before--
	}
	outcomes := make([]driver.Result, len(requests))
	l.answerAll(conn, w, sent, deadline, requests[:before], outcomes)
	if before < len(requests) && !outcomes[before].IsMissing() && anyGranted(requests[:before], outcomes) {
		l.answerAll(conn, w, sent, deadline, requests[before:], outcomes[before:])
		if errors.Is(outcomes[before].Err, wire.ErrUnasked) {
			fill(outcomes, outcomes[before])
		}
	}
	return outcomes
}

// answerAll sends the requests together, and reads the answers to them. A
// missing one is also that of all outcomes behind it.
func (l *poolLink) answerAll(
	conn redis.Conn, w *waiting, sent, deadline time.Time, requests []driver.Request, outcomes []driver.Result,
) {
	if err := sendAll(conn, requests); err != nil {
		fill(outcomes, orLate(l.failed(sent, err), w))
		return
	}
	for i := range requests {
		outcomes[i] = l.receive(conn, sent, deadline)
		if outcomes[i].IsMissing() {
			from := i
			if errors.Is(outcomes[i].Err, wire.ErrUnasked) {
				from = 0 // any of them may be the surplus one
			}
			fill(outcomes[from:], orLate(outcomes[i], w))
			return
		}
	}
}

// anyGranted reports whether a request of a batch that waits for replicas was
// granted.
func anyGranted(requests []driver.Request, outcomes []driver.Result) bool {
	for i, r := range requests {
		if outcomes[i].Err == nil && outcomes[i].Answered && r.Granted(outcomes[i].Reply) {
			return true
		}
	}
	return false
}

// orLate returns o. If the closer ended the connection, its error is
// ErrTimeout: the server did not break the connection.
func orLate(o driver.Result, w *waiting) driver.Result {
	if o.Broke() && w.isOver() {
		o.Err = driver.ErrTimeout
	}
	return o
}

func (l *poolLink) failed(sent time.Time, err error) driver.Result {
	o := l.driver.newResult(sent, nil, err)
	o.Err = l.driver.orClosed(o.Err)
	return o
}

func sendAll(conn redis.Conn, requests []driver.Request) error {
	for _, r := range requests {
		if err := wire.Send(conn, &r); err != nil {
			return err
		}
	}
	return conn.Flush()
}

func (l *poolLink) receive(conn redis.Conn, sent, deadline time.Time) driver.Result {
	reply, err := redis.ReceiveWithTimeout(conn, max(time.Until(deadline), time.Millisecond))
	o := l.driver.newResult(sent, reply, err)
	o.Err = l.driver.orClosed(o.Err)
	return o
}

// connect returns the connection, and dials it if there is none.
func (l *poolLink) connect(limit time.Duration) (redis.Conn, error) {
	conn, o := l.current(limit)
	if o == nil {
		return conn, nil
	}
	<-o.done
	return o.conn, o.err
}

// current returns the connection, or else the attempt to open one.
func (l *poolLink) current(limit time.Duration) (redis.Conn, *opening) {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn != nil && wire.AtRest(conn) != nil {
		l.drop(conn)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		return l.conn, nil
	}
	return nil, l.open(limit)
}

// Cut closes the connection, which ends the calls that wait on it. The next use
// opens another one.
func (l *poolLink) Cut() {
	l.mu.Lock()
	conn := l.conn
	l.mu.Unlock()
	if conn != nil {
		l.drop(conn)
	}
}

// drop closes a connection of the link.
func (l *poolLink) drop(conn redis.Conn) {
	l.mu.Lock()
	if l.conn == conn {
		l.conn = nil
	}
	l.mu.Unlock()
	l.driver.discard(conn)
}

func (l *poolLink) Close() {
	l.end() // ends a dial
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.Cut() // ends a pipeline that waits for an answer
}
