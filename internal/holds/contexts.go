package holds

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/carried"
)

// Remaining returns the time until a hold is over, or 0 if it is over.
func Remaining(validUntil time.Time) time.Duration { return max(0, time.Until(validUntil)) }

// Contexts are the contexts that are cancelled when a hold ends. The mutex of
// the hold must be held for all methods.
type Contexts struct {
	made    context.Context // by Use; nil until it is requested
	cancels []context.CancelCauseFunc
	err     error
}

// New returns a context that carries the hold. It has the values of another
// context, but not its cancellation. No mutex may be held: New calls the
// caller's context, which may take locks.
func New(values context.Context, hold carried.Hold) (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(carried.WithHold(context.WithoutCancel(values), hold))
}

// Made returns the context of the hold, or nil if there is none yet.
func (c *Contexts) Made() context.Context { return c.made }

// Use makes ctx the context of the hold, unless another call was first. It
// returns the context of the hold.
func (c *Contexts) Use(ctx context.Context, cancel context.CancelCauseFunc) context.Context {
	if c.made != nil {
		cancel(nil)
		return c.made
	}
	c.made = ctx
	c.Add(cancel)
	return ctx
}

// Add adds a function to call when the hold ends. If it has already ended, Add
// calls it immediately.
func (c *Contexts) Add(cancel context.CancelCauseFunc) {
	if c.err != nil {
		cancel(c.err)
		return
	}
	c.cancels = append(c.cancels, cancel)
}

// End cancels all contexts for this reason. Only the first call has an effect.
func (c *Contexts) End(why error) {
	if c.err != nil {
		return
	}
	c.err = why
	for _, cancel := range c.cancels {
		cancel(why)
	}
	c.cancels = nil
}

// Err returns why the hold ended, or nil while it is held.
func (c *Contexts) Err() error { return c.err }
