package relock

import (
	"errors"
	"time"
)

// The pauses between two sendings of one release: short at first, and never a second, so that a late copy of an
// acquire holds the key for less than that.
const (
	firstCleanGap = 10 * time.Millisecond
	maxCleanGap   = 800 * time.Millisecond
)

// cleanup is a release that is repeated in the background, on the cleaner's connection and on no caller's context.
type cleanup struct {
	key     string // as the user named it, for the log
	release func(now time.Time) scripted
	limit   time.Duration
	doubt   doubt         // requests that the release cleans up after
	until   time.Time     // with requests in doubt it is repeated until then, whatever the answers
	giveUp  time.Time     // after that the lease has ended by itself
	gap     time.Duration // the next pause

	tries    int
	answer   outcome       // the first answer
	first    bool          // it answered the first sending
	answered chan struct{} // closed when the two are there
}

// newCleanup makes a release that is sent until it is answered; with doubt, until one lease after the last request in doubt.
func newCleanup(key string, lease, limit time.Duration, d doubt, release func(time.Time) scripted) *cleanup {
	c := &cleanup{key: key, release: release, limit: limit, doubt: d, gap: firstCleanGap, answered: make(chan struct{})}
	c.giveUp = time.Now().Add(lease)
	if !d.last.IsZero() {
		c.until = d.last.Add(lease)
		if c.until.After(c.giveUp) {
			c.giveUp = c.until
		}
	}
	return c
}

func (c *cleanup) next(now time.Time) (scripted, time.Duration, bool) {
	if now.After(c.giveUp) {
		return scripted{}, 0, false
	}
	c.tries++
	return c.release(now), c.limit, true
}

// took keeps the first answer and says when to send again.
func (c *cleanup) took(o outcome) (time.Time, bool) {
	if o.answered && (o.err == nil || errors.Is(o.err, ErrDenied)) {
		c.note(o)
		if !c.doubtful() {
			return time.Time{}, false
		}
	}
	pause := c.gap
	c.gap = min(2*c.gap, maxCleanGap)
	return time.Now().Add(pause), true
}

// note keeps the first answer. Only the cleaner's goroutine calls it.
func (c *cleanup) note(o outcome) {
	select {
	case <-c.answered:
	default:
		c.answer, c.first = o, c.tries == 1
		close(c.answered)
	}
}

// doubtful says that the release has to be repeated even when it was answered.
func (c *cleanup) doubtful() bool { return time.Now().Before(c.until) && !c.doubt.settled() }

// clean hands a release to the cleaner, to be sent at once.
func (c *Client) clean(job *cleanup) { c.cleaner.add(newJob(job), time.Now()) }
