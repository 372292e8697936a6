package relock

import (
	"context"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

const maxReason = 256

// ForceUnlock ends the hold of the lock with this name, whichever client has
// it, and hands the lock to the next waiter. It is for an operator who knows
// that the holder hangs. The reason has at most 256 bytes.
//
// It returns [ErrNotHeld] if nobody holds the lock, and [ErrKeyConflict] if the
// key is something else.
//
// The holder learns that its hold is lost. It learns it immediately if its
// client waits for any lock, otherwise at its next renewal, call or Unlock. Its
// error matches [ErrForced] and [ErrLockLost], and contains the reason. Of
// several readers, the first 64 get this error, and the others find a loss.
// Until then the holder's work continues. Only fencing tokens protect others
// from it, see [WithFencing].
//
// The request is sent once. It returns [ErrUnconfirmed] if there was no answer:
// the hold may have been ended, or may still be. Check the holder with
// [Client.Inspect] before you call ForceUnlock again. A second call would end
// the hold of the next holder.
func (c *Client) ForceUnlock(ctx context.Context, key, reason string) error {
	var m lockspec.Problems
	lockspec.CheckKey(&m, key)
	m.Check(len(reason) <= maxReason, "reason: %d bytes are above %d", len(reason), maxReason)
	if err := c.ready(ctx, m.Err()); err != nil {
		return wrap("force unlock", key, err)
	}
	s := script.Call{Script: script.Force, Key: c.engine.RedisKey(key), Args: []any{reason}}
	o := script.RunOnce(ctx, c.engine.Driver, driver.Limits{}, s, nil) // a second copy could end the next hold
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
