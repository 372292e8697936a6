package relock

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/errs"
)

// outcome is what became of one command.
//
// Three cases matter. Not sent: nothing happened. Answered, by a value or an error line: no copy of it is
// under way any more. Unanswered (no answer in time, a connection that broke, a caller that left): it may be
// executed now, later or never.
type outcome struct {
	reply    any
	err      error
	sent     time.Time // right before it was written; zero when it never was
	answered bool
	again    bool  // an earlier copy, which was not answered, was sent right before
	acks     int64 // replicas that have it, where that was asked
	unacked  error // why that is not known
	left     *call // the call that its caller left, still waiting for the answer
}

func newOutcome(sent time.Time, reply any, err error) outcome {
	if err == nil {
		return outcome{reply: reply, sent: sent, answered: true}
	}
	_, answered := errorLine(err)
	answered = answered || errors.Is(err, errs.ErrReplicas)
	return outcome{reply: reply, err: explain(err), sent: sent, answered: answered}
}

// errorLine is the error line of the server in err, if there is one. It costs nothing where there is no error: a variable for
// errors.As is on the heap.
func errorLine(err error) (redis.Error, bool) {
	if err == nil {
		return "", false
	}
	var line redis.Error
	ok := errors.As(err, &line)
	return line, ok
}

func (o outcome) unanswered() bool { return !o.sent.IsZero() && !o.answered }

// unconnected says that it was not sent because connecting took too long.
func (o outcome) unconnected() bool {
	return o.sent.IsZero() && isTimeout(o.err)
}

// broke says that the connection was cut under the command: another one may do.
func (o outcome) broke() bool {
	return o.unanswered() && o.left == nil && !isTimeout(o.err) && isNetwork(o.err)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// errLeft is the error of a call whose caller left when its context ended.
var errLeft = errors.New("caller left")

// call is a command that runs on a goroutine of its own, so that its caller can leave.
type call struct {
	state   atomic.Int32
	sent    time.Time     // set before state becomes callSent
	begun   chan struct{} // closed then; nil when nobody wants to know
	done    chan struct{} // closed when outcome is there
	outcome outcome
}

const (
	callWaiting = iota // for a connection
	callSent
	callLeft // before anything was sent
)

func newCall() *call { return &call{begun: make(chan struct{}), done: make(chan struct{})} }

// begin is called right before the command is written. It says no when the caller has left: then nothing may
// be sent.
func (c *call) begin(now time.Time) bool {
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
func (c *call) leave(err error) outcome {
	if c.state.CompareAndSwap(callWaiting, callLeft) {
		return outcome{err: err}
	}
	return outcome{err: err, sent: c.sent, left: c}
}

// end gives the call its outcome.
func (c *call) end(o outcome) {
	c.outcome = o
	close(c.done)
}

func (c *call) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// settled says that the answer came after all.
func (c *call) settled() bool { return c.isDone() && c.outcome.answered }
