package relock

import (
	"context"

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
	s := script.Call{Script: script.Force, Key: c.engine.RedisKey(key), Args: []any{reason}}
	o := script.RunOnce(ctx, c.engine.Driver, driver.Limits{}, s, nil) // a second copy could end the hold of the next one
	if o.Err == nil && o.Reply == int64(script.Foreign) {
		s.Script = script.RWForce
		o = script.RunOnce(ctx, c.engine.Driver, driver.Limits{}, s, nil)
	}
	switch {
	case o.Unanswered():
		return wrap("force unlock", key, errs.Both(ErrUnconfirmed, driver.Ended(ctx, o.Err)))
	case o.Err != nil:
		return wrap("force unlock", key, driver.Ended(ctx, o.Err))
	case o.Reply == int64(script.Other):
		return wrap("force unlock", key, ErrNotHeld)
	case o.Reply == int64(script.More):
		c.engine.Retrier.PassOn(s)
	case o.Reply != int64(script.Ours):
		return wrap("force unlock", key, ErrKeyConflict)
	}
	c.engine.Logger.Warn("relock: lock forced open", "key", key, "reason", reason)
	return nil
}
