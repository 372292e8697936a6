package driver

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
)

// Result is the result of one command. There are three cases:
//
//   - not sent: nothing happened at the server;
//   - answered, by a value or a known error line: no copy is under way any
//     more;
//   - unanswered, by a timeout, a broken connection, a caller that left or an
//     unknown error line: the command may be executed now, later or never.
//
// A line is known if Redis or one of our scripts sends it. A proxy may send
// another one after the command was executed.
type Result struct {
	Reply     any
	Err       error
	Sent      time.Time // right before it was written; zero if it never was
	Answered  bool
	Resent    bool  // an earlier copy was sent right before, and was not answered
	followed  bool  // in a batch: it followed a redirect, and has waited for its replicas
	Abandoned *Call // the call that its caller left; it still waits for the answer
}

// newResult returns the result of a command that was answered, or failed.
func (d *Pool) newResult(sent time.Time, reply any, err error) Result {
	if err == nil {
		d.noteAnswered()
		d.repeats.succeeded()
		return Result{Reply: reply, Sent: sent, Answered: true}
	}
	line, answered := errorLine(err)
	if answered {
		d.noteAnswered()
	}
	answered = answered && classOfLine(line) != unknown || errors.Is(err, errs.ErrReplicas)
	return Result{Reply: reply, Err: d.explain(err), Sent: sent, Answered: answered}
}

// explain explains an error of this server. It says if the server may want TLS.
// An unknown error that has repeated for too long is final.
func (d *Pool) explain(err error) error { return d.repeats.judge(explain(d.orEncrypted(err))) }

// errorLine returns the server's error line in err, and reports whether there
// is one. A nil err is returned early, because the variable for errors.As is on
// the heap.
func errorLine(err error) (redis.Error, bool) {
	if err == nil {
		return "", false
	}
	var line redis.Error
	ok := errors.As(err, &line)
	return line, ok
}

// IsAnswer reports whether a server has answered with this error.
func IsAnswer(err error) bool {
	_, ok := errorLine(err)
	return ok
}

// Unanswered reports whether the request was sent and not answered. It may be
// executed now, later or never.
func (o Result) Unanswered() bool { return !o.Sent.IsZero() && !o.Answered }

// IsMissing reports whether the request was sent and no reply was read, not
// even an unknown line.
func (o Result) IsMissing() bool { return o.Unanswered() && !IsAnswer(o.Err) }

// Unconnected reports whether the request was not sent because connecting took
// too long.
func (o Result) Unconnected() bool {
	return o.Sent.IsZero() && isTimeout(o.Err) && !errors.As(o.Err, new(unroutedError))
}

// Broke reports whether the connection broke under the command. Another
// connection may work.
func (o Result) Broke() bool {
	return o.Unanswered() && o.Abandoned == nil && !isTimeout(o.Err) && IsNetwork(o.Err)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// ErrAbandoned is the error of a call whose caller left when its context was
// cancelled.
var ErrAbandoned = errors.New("caller left")

// Ended replaces the error of an abandoned call by the reason why its context
// ended.
func Ended(ctx context.Context, err error) error {
	if errors.Is(err, ErrAbandoned) {
		return errs.EndOf(ctx, nil)
	}
	return err
}

// Call is a command that its caller can leave. It runs on its own goroutine, or
// on the shared connection.
type Call struct {
	state   atomic.Int32
	sent    time.Time     // set before state becomes callSent
	begun   chan struct{} // closed when state is callSent; nil if nothing waits for it
	done    chan struct{} // closed when outcome is set; nil on the shared connection
	outcome Result

	// On the shared connection.
	ended atomic.Bool   // outcome is set
	until time.Time     // the caller waits until then
	wake  chan struct{} // has a value when the caller is to look
	pool  *sync.Pool    // gets the call when it has ended
	late  bool          // was woken because its time is over; guarded by the stream's mutex
}

const (
	callWaiting = iota // for a connection
	callSent
	callLeft // by its caller, before anything was sent
)

func newCall() *Call { return &Call{begun: make(chan struct{}), done: make(chan struct{})} }

// begin is called right before the command is written. It reports whether the
// command may be sent. It may not if the caller has left.
func (c *Call) begin(now time.Time) bool {
	if c == nil {
		return true
	}
	c.sent = now
	if !c.state.CompareAndSwap(callWaiting, callSent) {
		return false
	}
	if c.begun != nil {
		close(c.begun)
	}
	return true
}

// leave is called by a caller that stops waiting. It returns the result so far.
func (c *Call) leave(err error) Result {
	if c.state.CompareAndSwap(callWaiting, callLeft) {
		return Result{Err: err}
	}
	return Result{Err: err, Sent: c.sent, Abandoned: c}
}

func (c *Call) isDone() bool {
	if c.done == nil {
		return c.ended.Load()
	}
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Answered reports whether the answer has come after all.
func (c *Call) Answered() bool { return c.isDone() && c.outcome.Answered }
