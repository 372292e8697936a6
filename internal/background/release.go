package background

import (
	"errors"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/script"
)

// The pauses between two sendings of one release: short at first, and never a
// second, so that a late copy of an acquire holds the key for less than that.
const (
	firstPause = 10 * time.Millisecond
	MaxPause   = 800 * time.Millisecond
)

// RetryLimit is how long the retrier waits for an answer before it tries
// another connection.
const RetryLimit = 700 * time.Millisecond

// Release is a release that is repeated in the background, on the retrier's
// connection and on no caller's context.
type Release struct {
	key           string // as the user named it, for the log
	retrier       *Retrier
	BestEffort    bool // nothing is said when it is given up: no lock depends on it
	Call          func(now time.Time) script.Call
	Lost          func()               // called when the server answers that there is nothing of ours; may be nil
	indeterminate script.Indeterminate // requests that the release cleans up after
	until         time.Time            // with requests in doubt it is repeated until it was sent after that, whatever the answers
	giveUp        time.Time            // after that the key has ended by itself
	gap           time.Duration        // the next pause, from sending to sending

	// Of the retrier's goroutine.
	settled bool          // the doubt was settled before the sending under way
	sending script.Call   // that
	tries   int           // that were sent, and may have been executed
	connect time.Duration // what connecting may take where that takes longer than an answer may; 0 where it does not

	Answer   driver.Result // the first answer
	First    bool          // it answered the first sending
	Answered chan struct{} // closed when the two are there
}

// NewRelease makes a release that is sent until it is answered, for a lease at
// most; with doubt, until late after the last request in doubt.
func NewRelease(key string, lease, late time.Duration, d script.Indeterminate, release func(time.Time) script.Call) *Release {
	c := &Release{key: key, Call: release, indeterminate: d, gap: firstPause, Answered: make(chan struct{})}
	c.giveUp = time.Now().Add(lease)
	if !d.Last.IsZero() {
		c.until = d.Last.Add(late)
		if late := c.until.Add(lease); late.After(c.giveUp) {
			c.giveUp = late // the last of them may take the key at until
		}
	}
	return c
}

// Limit returns how long an answer may take.
func (c *Release) Limit() time.Duration { return max(RetryLimit, c.connect) }

// allow gives connecting twice as long after each time that it took too long:
// without a connection nothing is ever released.
func (c *Release) allow(o driver.Result) {
	if !o.Unconnected() {
		c.connect = 0
		return
	}
	c.connect = min(2*max(c.connect, driver.MinConnect), c.retrier.dialTimeout)
}

// Next returns the release to send now; false once the key has ended by itself.
func (c *Release) Next(now time.Time) (script.Call, bool) {
	if now.After(c.giveUp) {
		c.report()
		return script.Call{}, false
	}
	c.settled = c.indeterminate.Resolved()
	c.sending = c.Call(now)
	return c.sending, true
}

// Handle keeps the first answer and says when to send again. Only the answer to
// a release that was sent after the doubt had settled ends the job early: one
// that was sent before may have overtaken the request in doubt.
func (c *Release) Handle(o driver.Result) (time.Time, bool) {
	c.allow(o)
	if !o.Sent.IsZero() && !driver.IsReadOnly(o.Err) {
		c.tries++
	}
	if o.Resent {
		c.tries++
	}
	if o.Answered && (o.Err == nil || errors.Is(o.Err, errs.ErrDenied)) {
		c.note(o)
		if o.Reply == int64(script.More) {
			c.retrier.PassOn(c.sending)
		}
		if o.Err == nil && (c.settled || !o.Sent.Before(c.until)) {
			return time.Time{}, false
		}
	}
	sent := o.Sent
	if sent.IsZero() {
		sent = time.Now()
	}
	pause := c.gap
	c.gap = min(2*c.gap, MaxPause)
	return sent.Add(pause), true
}

// report says that no release was ever answered: the key has ended by itself.
func (c *Release) report() {
	if !c.BestEffort && !c.IsAnswered() {
		c.retrier.logger.Warn("relock: release given up, the lease has ended", "key", c.key)
	}
}

// note keeps the first answer.
func (c *Release) note(o driver.Result) {
	if c.IsAnswered() {
		return
	}
	c.Answer, c.First = o, c.tries == 1
	close(c.Answered)
	if c.Lost != nil && o.Err == nil && !script.IsOurs(o.Reply) {
		c.Lost()
	}
}

// IsAnswered reports whether the first answer has come.
func (c *Release) IsAnswered() bool {
	select {
	case <-c.Answered:
		return true
	default:
		return false
	}
}

// tookLast takes the answer to it: a release that is done is not told of.
func (c *Release) tookLast(o driver.Result) {
	if o.Err == nil && (c.indeterminate.Resolved() || !o.Sent.Before(c.until)) {
		c.BestEffort = true
	}
}
