package driver

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
)

// Result is what became of one command.
//
// Three cases matter. Not sent: nothing happened. Answered, by a value or an
// error line: no copy of it is under way any more. Unanswered (no answer in
// time, a connection that broke, a caller that left): it may be executed now,
// later or never.
type Result struct {
	Reply     any
	Err       error
	Sent      time.Time // right before it was written; zero when it never was
	Answered  bool
	Resent    bool  // an earlier copy, which was not answered, was sent right before
	Abandoned *Call // the call that its caller left, still waiting for the answer
}

func newResult(sent time.Time, reply any, err error) Result {
	if err == nil {
		return Result{Reply: reply, Sent: sent, Answered: true}
	}
	_, answered := errorLine(err)
	answered = answered || errors.Is(err, errs.ErrReplicas)
	return Result{Reply: reply, Err: Explain(err), Sent: sent, Answered: answered}
}

// errorLine is the error line of the server in err, if there is one. It costs
// nothing where there is no error: a variable for errors.As is on the heap.
func errorLine(err error) (redis.Error, bool) {
	if err == nil {
		return "", false
	}
	var line redis.Error
	ok := errors.As(err, &line)
	return line, ok
}

// Unanswered reports whether the request was sent and not answered: it may be
// executed now, later or never.
func (o Result) Unanswered() bool { return !o.Sent.IsZero() && !o.Answered }

// Unconnected reports whether it was not sent because connecting took too long.
func (o Result) Unconnected() bool {
	return o.Sent.IsZero() && isTimeout(o.Err)
}

// Broke reports whether the connection was cut under the command: another one
// may work.
func (o Result) Broke() bool {
	return o.Unanswered() && o.Abandoned == nil && !isTimeout(o.Err) && IsNetwork(o.Err)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// ErrAbandoned is the error of a call whose caller left when its context ended.
var ErrAbandoned = errors.New("caller left")

// Ended turns the error of a call whose caller left into the end of its
// context.
func Ended(ctx context.Context, err error) error {
	if errors.Is(err, ErrAbandoned) {
		return errs.EndOf(ctx, nil)
	}
	return err
}

// Call is a command that runs on a goroutine of its own, so that its caller can
// leave.
type Call struct {
	state   atomic.Int32
	sent    time.Time     // set before state becomes callSent
	begun   chan struct{} // closed then; nil when nobody wants to know
	done    chan struct{} // closed when outcome is there
	outcome Result
}

const (
	callWaiting = iota // for a connection
	callSent
	callLeft // before anything was sent
)

func newCall() *Call { return &Call{begun: make(chan struct{}), done: make(chan struct{})} }

// begin is called right before the command is written. It returns false if the
// caller has left: then nothing may be sent.
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

// leave is called by a caller that does not want to wait any longer.
func (c *Call) leave(err error) Result {
	if c.state.CompareAndSwap(callWaiting, callLeft) {
		return Result{Err: err}
	}
	return Result{Err: err, Sent: c.sent, Abandoned: c}
}

// end gives the call its outcome.
func (c *Call) end(o Result) {
	c.outcome = o
	close(c.done)
}

func (c *Call) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Answered reports whether the answer came after all.
func (c *Call) Answered() bool { return c.isDone() && c.outcome.Answered }
