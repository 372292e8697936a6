package conns

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
)

// Call is a command that its caller can leave. It runs on its own goroutine, or
// on the shared connection.
type Call struct {
	state   atomic.Int32
	sent    time.Time     // set before state becomes callSent
	begun   chan struct{} // closed when state is callSent; nil if nothing waits for it
	done    chan struct{} // closed when outcome is set; nil on the shared connection
	outcome driver.Result
	answer  driver.Late // for the caller that has left

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
func (c *Call) leave(err error) driver.Result {
	if c.state.CompareAndSwap(callWaiting, callLeft) {
		return driver.Result{Err: err}
	}
	return driver.Result{Err: err, Sent: c.sent, Abandoned: &c.answer}
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

// set sets the outcome.
func (c *Call) set(o driver.Result) {
	c.outcome = o
	if o.Answered {
		c.answer.Answer()
	}
}

// finish ends a call that runs on its own goroutine.
func (c *Call) finish(o driver.Result) {
	c.set(o)
	close(c.done)
}
