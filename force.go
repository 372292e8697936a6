package relock

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

const maxReason = 256

// ForceUnlock ends the hold of the lock of this name, whoever has it, and hands it over to the next that waits: for a person
// who knows that the holder hangs. [ErrNotHeld] when nobody has it, [ErrKeyConflict] when the key is something else. The
// holder is told: its hold is lost, at once when its client waits for any lock, else at its next renewal, call or Unlock, with an error that matches [ErrForced] and
// [ErrLockLost], and has the reason: at most 256 bytes. Of those who read together the first 64 are told so, the others find
// a loss. Until then it goes on: what it does to others is safe with fencing tokens alone, see [WithFencing].
//
// It is sent once. [ErrUnconfirmed] when there was no answer: the hold may have been ended, or may still be. Ask [Client.Inspect]
// who has the lock before you call it again, which would end the hold of the next one.
func (c *Client) ForceUnlock(ctx context.Context, key, reason string) error {
	var m lockspec.Problems
	lockspec.CheckKey(&m, key)
	m.Check(len(reason) <= maxReason, "reason: longer than %d bytes", maxReason)
	if err := c.ready(ctx, m.Err()); err != nil {
		return wrap("force unlock", key, err)
	}
	s := script.Call{Script: script.Force, Key: c.redisKey(key), Args: []any{reason}}
	o := script.RunOnce(ctx, c.driver, driver.Limits{}, s, nil) // a second copy could end the hold of the next one
	if o.Err == nil && o.Reply == int64(script.Foreign) {
		s.Script = script.RWForce
		o = script.RunOnce(ctx, c.driver, driver.Limits{}, s, nil)
	}
	switch {
	case o.Unanswered():
		return wrap("force unlock", key, errs.Both(ErrUnconfirmed, ended(ctx, o.Err)))
	case o.Err != nil:
		return wrap("force unlock", key, ended(ctx, o.Err))
	case o.Reply == int64(script.Other):
		return wrap("force unlock", key, ErrNotHeld)
	case o.Reply == int64(script.More):
		c.retrier.PassOn(s)
	case o.Reply != int64(script.Ours):
		return wrap("force unlock", key, ErrKeyConflict)
	}
	c.logger.Warn("relock: lock forced open", "key", key, "reason", reason)
	return nil
}

// forced takes the message that a hold was ended: a hint, to look at the notice.
func (c *Client) forced(hold, redisKey string) {
	for _, l := range c.allLeases() {
		if at, id := l.stored(); at == redisKey && id == hold {
			c.tasks.Start(func() {
				if err := l.notice(); err != nil {
					l.lose(err)
				}
			})
		}
	}
}

// stored is where the lease is in Redis, and the id of its hold there; empty for one that is made of several.
func (l *lease) stored() (redisKey, hold string) {
	if l.protocol == nil {
		return "", ""
	}
	return l.protocol.lockKey(), l.protocol.holdID()
}

// noticeLimit is how long a holder that was refused may look for the reason.
const noticeLimit = 200 * time.Millisecond

// askNotice is the request for the notice; false for a kind that has none.
func (l *lease) askNotice() (script.Call, bool) {
	redisKey, hold := l.stored()
	return script.Call{Script: script.Notice, Key: redisKey + script.NoticeSuffix}, hold != ""
}

// readNotice returns why somebody has ended the hold by force; nil when nobody has, or it cannot be known.
func (l *lease) readNotice(o driver.Result) error {
	text, err := driver.String(o.Reply, o.Err)
	_, hold := l.stored()
	named, reason, ok := strings.Cut(text, " ")
	if err != nil || !ok || !slices.Contains(strings.Split(named, ","), hold) {
		return nil
	}
	return &forcedError{reason}
}

// notice asks for the notice, and reads it.
func (l *lease) notice() error {
	ask, ok := l.askNotice()
	if !ok {
		return nil
	}
	limit := l.client.reasonLimit
	o, _ := l.client.eval(context.Background(), driver.Limits{Connect: limit, Answer: limit, End: time.Now().Add(limit)}, ask)
	return l.readNotice(o)
}

// forcedError is the loss of a hold that was ended by force.
type forcedError struct{ reason string }

func (e *forcedError) Error() string {
	return ErrLockLost.Error() + ": " + ErrForced.Error() + ": " + strconv.Quote(e.reason)
}

// Unwrap returns what it matches.
func (e *forcedError) Unwrap() []error { return []error{ErrForced, ErrLockLost} }

// refused ends a lease of which a request has found that it is not ours any more, as soon as it was asked whether somebody has ended
// it by force, and returns why.
func (l *lease) refused() error {
	l.endWithin(l.client.reasonLimit)
	why := l.notice()
	if why == nil {
		why = ErrLockLost
	}
	l.lose(why)
	return why
}
