package background

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// The pauses between two sendings of one release are short at first. They stay
// below a second, so that a late copy of an acquire keeps the key for less than
// that.
const (
	firstPause = 10 * time.Millisecond
	maxPause   = 800 * time.Millisecond
)

// RetryLimit is how long the retrier waits for an answer before it tries
// another connection.
const RetryLimit = 700 * time.Millisecond

// Release is a release that is retried in the background, over the retrier's
// connection. It depends on no caller's context.
type Release struct {
	key           string // the name that the user gave, for the log
	retrier       *Retrier
	BestEffort    bool // no lock depends on it, so giving it up is not logged
	Quiet         bool // the loss of its lease is logged, so giving it up is no warning
	Call          func(now time.Time) script.Call
	Lost          func()               // called if the server has nothing of the caller; may be nil
	indeterminate script.Indeterminate // requests that the release cleans up after
	// With indeterminate requests, the release is retried until it was sent
	// after this time, regardless of the answers.
	until  time.Time
	giveUp time.Time     // the key has expired after this time
	gap    time.Duration // the next pause, from sending to sending

	// Only for the retrier's goroutine.
	resolved bool          // the requests were resolved before the sending under way
	sending  script.Call   // the sending under way
	tries    int           // sendings that may have been executed
	connect  time.Duration // limit for connecting, after a dial that was too slow; otherwise 0

	isDone bool // by SendLast; only for Close

	Answer   driver.Result // the first answer
	First    bool          // Answer is that of the first sending
	Answered chan struct{} // closed when Answer and First are set
}

// NewRelease returns a release that is sent until it is answered, for a lease
// at most. With indeterminate requests, it is sent until the duration late has
// passed since the last of them was sent.
func NewRelease(
	key string, lease, late time.Duration, d script.Indeterminate, release func(time.Time) script.Call,
) *Release {
	c := &Release{key: key, Call: release, indeterminate: d, gap: firstPause, Answered: make(chan struct{})}
	c.giveUp = time.Now().Add(lease)
	if !d.Last.IsZero() {
		c.until = d.Last.Add(late)
		if late := c.until.Add(lease); late.After(c.giveUp) {
			c.giveUp = late // the last request may take the key as late as until
		}
	}
	return c
}

// Key returns the first key of the release.
func (c *Release) Key() string { return c.Call(time.Now()).Keys()[0] }

// Limit returns how long an answer may take.
func (c *Release) Limit() time.Duration { return max(RetryLimit, c.connect) }

// allow doubles the limit for connecting each time that connecting takes too
// long. Without a connection, nothing is ever released.
func (c *Release) allow(o driver.Result) {
	if !o.Unconnected() {
		c.connect = 0
		return
	}
	c.connect = min(2*max(c.connect, driver.MinConnect), c.retrier.dialTimeout)
}

// Next returns the release to send now, or false once the key has expired.
func (c *Release) Next(now time.Time) (script.Call, bool) {
	if now.After(c.giveUp) {
		c.report()
		return script.Call{}, false
	}
	c.resolved = c.indeterminate.Resolved()
	c.sending = c.Call(now)
	return c.sending, true
}

// Handle keeps the first answer, and returns when to send again. Only the
// answer to a release that was sent after the requests were resolved ends the
// job early. An earlier release may have overtaken the indeterminate request.
func (c *Release) Handle(o driver.Result) (time.Time, bool) {
	c.allow(o)
	if !o.Sent.IsZero() && !driver.IsUnexecuted(o.Err) {
		c.tries++
	}
	if o.Resent {
		c.tries++
	}
	if o.Answered && (o.Err == nil || errors.Is(o.Err, errs.ErrDenied)) {
		c.note(o)
		if script.MayGoOn(o.Reply) {
			c.retrier.PassOn(c.sending)
		}
		if o.Err == nil && (c.resolved || !o.Sent.Before(c.until)) {
			return time.Time{}, false
		}
	}
	sent := o.Sent
	if sent.IsZero() {
		sent = time.Now()
	}
	pause := c.gap
	c.gap = min(2*c.gap, maxPause)
	return sent.Add(pause), true
}

// report logs that no release was ever answered. The key has expired by then.
func (c *Release) report() {
	if c.BestEffort || c.IsAnswered() {
		return
	}
	level := slog.LevelWarn
	if c.Quiet {
		level = slog.LevelDebug
	}
	c.retrier.logger.Log(context.Background(), level, "relock: release given up, the lease has ended", "key", c.key)
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

// tookLast takes the answer to the sending of SendLast. Unconfirmed does not
// return a release that is done.
func (c *Release) tookLast(o driver.Result) {
	if o.Err == nil && (c.indeterminate.Resolved() || !o.Sent.Before(c.until)) {
		c.isDone = true
	}
}
