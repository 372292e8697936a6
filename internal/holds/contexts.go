package holds

import (
	"context"

	"github.com/relock-go/relock/internal/carried"
)

// Contexts are the contexts that are cancelled when a hold ends. The mutex of
// the hold is held for all methods.
type Contexts struct {
	made    context.Context // by Use; nil until it is asked for
	cancels []context.CancelCauseFunc
	over    error
}

// New returns a context with the values of another one, which carries the hold
// but is not cancelled. No mutex is held: it asks the caller's context, which
// may have locks of its own.
func New(values context.Context, hold any) (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(carried.WithHold(context.WithoutCancel(values), hold))
}

// Made returns the context of the hold, nil if there is none yet.
func (c *Contexts) Made() context.Context { return c.made }

// Use makes ctx the context of the hold, unless another call was first, and
// returns the one that is.
func (c *Contexts) Use(ctx context.Context, cancel context.CancelCauseFunc) context.Context {
	if c.made != nil {
		cancel(nil)
		return c.made
	}
	c.made = ctx
	c.Add(cancel)
	return ctx
}

// Add makes cancel part of the end, which may have been.
func (c *Contexts) Add(cancel context.CancelCauseFunc) {
	if c.over != nil {
		cancel(c.over)
		return
	}
	c.cancels = append(c.cancels, cancel)
}

// End cancels all contexts, for this reason. Only the first call does.
func (c *Contexts) End(why error) {
	if c.over != nil {
		return
	}
	c.over = why
	for _, cancel := range c.cancels {
		cancel(why)
	}
	c.cancels = nil
}

// Over returns why the hold ended, nil while it is held.
func (c *Contexts) Over() error { return c.over }
