package conns

import (
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/wire"
)

// detour is a batch of a link that has no connection yet. It goes over a
// connection that callers have open. If that does not answer soon, a copy of
// the batch goes over another one. Only the goroutine of Pipeline uses it.
type detour struct {
	link     *poolLink
	limit    time.Duration    // for the answers
	requests []driver.Request // the detour's own: a copy may outlive the call

	dialled <-chan struct{}      // closed when the dial of the link ends; nil after that
	lent    <-chan redis.Conn    // of callers that return one; nil while none is wanted
	answers chan []driver.Result // to the copies
	timer   *time.Timer          // when the next copy is due
	pause   time.Duration        // until the one after it
	first   time.Time            // when the first copy was sent; zero before
	end     time.Time            // a limit after it, or after the start of the detour
	copies  int                  // that were sent
	flight  int                  // of them, those under way
	shared  bool                 // one went over the shared connection
	waited  bool                 // for a connection that a caller returns
	best    []driver.Result      // of each request: an answer, or why it is missing
}

const (
	// headStarts is how many times the wait for a dial alone, and that for
	// the first answer, go into the limit for answers. That is a third of a
	// lease.
	headStarts = 16
	maxCopies  = 6
)

// newDetour returns a detour beside a dial, which has a moment first.
func (l *poolLink) newDetour(o *opening, limit time.Duration, requests []driver.Request) *detour {
	d := &detour{
		link: l, limit: limit, requests: slices.Clone(requests), answers: make(chan []driver.Result, maxCopies),
		dialled: o.done, end: time.Now().Add(limit),
	}
	d.pause = max(min(limit/headStarts, driver.MinConnect), time.Millisecond)
	d.timer = time.NewTimer(time.Until(o.begun.Add(d.pause)))
	return d
}

// run returns the answers, or reports that the link has a connection now. If
// there are no answers, it returns what the last copy got, or nil if none was
// sent.
func (d *detour) run(o *opening) (outcomes []driver.Result, connected bool) {
	defer d.timer.Stop()
	for !d.isOver() || d.goesOn() {
		select {
		case <-d.dialled:
			if d.dialled = nil; o.err == nil {
				return nil, true
			}
			d.sendUnlessWaiting()
		case outcomes := <-d.answers:
			d.flight--
			if d.note(outcomes); isWhole(d.best) {
				return repeated(d.best, d.copies > 1), false
			}
			d.send()
		case conn := <-d.lent:
			d.take(conn)
		case <-d.timer.C:
			d.send()
		case <-d.link.life.Done():
			return Same(d.requests, driver.Result{Err: errs.ErrClosed, Sent: d.first}), false
		}
	}
	return d.failure(), false
}

// isOver reports whether the batch gets no answer any more. Without a dial
// under way, only a connection that a caller has can still help.
func (d *detour) isOver() bool {
	left := time.Until(d.end)
	switch {
	case d.flight > 0:
		return left+linkGrace <= 0
	case d.dialled != nil:
		return left <= 0 && !d.first.IsZero()
	}
	return left <= 0 || !d.mayCopy() || d.lent != nil && !d.link.driver.isLent()
}

// goesOn looks once more before the batch is over, and reports whether a copy
// is under way. A connection may have come back after the last look, when it
// was still lent.
func (d *detour) goesOn() bool {
	if d.lent == nil || time.Until(d.end) <= 0 || !d.mayCopy() {
		return false
	}
	d.send()
	return d.flight > 0
}

// mayCopy reports whether a copy can still help. It gets at least as long as
// the one before it had alone: without an answer, it costs its connection.
func (d *detour) mayCopy() bool {
	return d.first.IsZero() || d.copies < maxCopies && time.Until(d.end) >= d.pause
}

// send sends a copy over an open connection. While callers have those of the
// pool, it first waits for one that is returned: these work, and packets of the
// shared one may get lost.
func (d *detour) send() {
	d.lent = nil
	if l := d.link; len(d.answers) == 0 && d.mayCopy() {
		conn, s := l.driver.borrow(l.life, d.pause), l.shared.open()
		switch {
		case conn != nil:
			d.waited = true // from here on, its own one is lent
			d.overBorrowed(conn)
		case s != nil && !d.shared && WaitsOf(d.requests) == 0 && (d.waited || !l.driver.isLent()):
			d.overShared(s)
		default:
			d.lent, d.waited = l.driver.returned, true
		}
	}
	d.plan()
}

// sendUnlessWaiting is send after the dial has failed, which says nothing about
// a connection that the batch waits for. That wait goes on.
func (d *detour) sendUnlessWaiting() {
	if d.lent == nil {
		d.send()
	}
}

// plan sets the timer to the next copy, or to the end of the wait for answers.
func (d *detour) plan() {
	pause := d.pause
	if !d.first.IsZero() {
		pause = min(pause, time.Until(d.end)+linkGrace)
	}
	d.timer.Reset(max(pause, time.Millisecond))
}

// take sends a copy over a connection that a caller has returned, if it works.
func (d *detour) take(conn redis.Conn) {
	if conn.Err() != nil || wire.AtRest(conn) != nil || !d.mayCopy() {
		d.link.driver.putBack(conn)
		return
	}
	d.lent = nil
	d.overBorrowed(conn)
	d.plan()
}

// overBorrowed sends a copy over a connection of the pool, on a goroutine,
// because a write may block. If the limit passes, the goroutine keeps the
// connection. It returns it after the answers, and answers that are there come
// first: a copy that was answered is followed by no other over the same.
func (d *detour) overBorrowed(conn redis.Conn) {
	l := d.link
	if len(d.answers) > 0 {
		l.driver.putBack(conn)
		return
	}
	started := d.start(func(sent, end time.Time) {
		if most := sent.Add(l.driver.commandTimeout + WaitsOf(d.requests)); most.Before(end) {
			end = most
		}
		outcomes := l.roundTrip(conn, nil, sent, end, d.requests)
		if outcomes[len(outcomes)-1].Broke() || l.driver.hasBreak(outcomes) {
			l.driver.breakOff(conn)
		}
		d.answers <- outcomes
		l.driver.putBack(conn)
	})
	if !started {
		l.driver.putBack(conn)
	}
}

// overShared sends a copy over the shared connection.
func (d *detour) overShared(s *stream) {
	l := d.link
	d.shared = true
	d.start(func(sent, end time.Time) { d.answers <- l.shared.batch(l.life, s, end.Sub(sent), d.requests) })
}

// start sends a copy on a goroutine, within what is left of the limit. The next
// copy has to wait twice as long. It reports whether the client is open.
func (d *detour) start(send func(sent, end time.Time)) bool {
	sent := time.Now()
	if d.first.IsZero() {
		d.first, d.end = sent, sent.Add(d.limit)
	}
	end := d.end
	if !d.link.driver.tasks.Start(func() { send(sent, end) }) {
		return false
	}
	d.copies++
	d.flight++
	d.pause *= 2
	return true
}

// note keeps the best result of each request: an answer of any copy, else one
// of a copy that was written.
func (d *detour) note(outcomes []driver.Result) {
	if d.best == nil {
		d.best = outcomes
		return
	}
	for i, o := range outcomes {
		if have := d.best[i]; have.Sent.IsZero() || have.IsMissing() && !o.Sent.IsZero() {
			d.best[i] = o
		}
	}
}

// failure returns the results of a batch of which an answer is missing, or nil
// if it was not sent.
func (d *detour) failure() []driver.Result {
	if d.flight > 0 {
		d.note(Same(d.requests, driver.Result{Err: driver.ErrTimeout, Sent: d.first}))
	}
	return repeated(d.best, d.copies > 1)
}

// isWhole reports whether no answer to a batch is missing.
func isWhole(outcomes []driver.Result) bool {
	return !outcomes[0].Sent.IsZero() && !slices.ContainsFunc(outcomes, driver.Result.IsMissing)
}

// repeated returns the results of a batch. If another copy was sent, each
// request may have been executed by that.
func repeated(outcomes []driver.Result, another bool) []driver.Result {
	for i := range outcomes {
		outcomes[i].Resent = outcomes[i].Resent || another && !outcomes[i].Sent.IsZero()
	}
	return outcomes
}
