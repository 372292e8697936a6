package holds

import (
	"context"
	"time"
)

// values is a context with the values of another one. It is not cancelled with
// it. Unlike the one of context.WithoutCancel, it is part of a Report, and a
// look-up in it allocates nothing. An observer makes several for each hold.
type values struct{ of context.Context }

// Deadline implements context.Context.
func (*values) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Done implements context.Context.
func (*values) Done() <-chan struct{} { return nil }

// Err implements context.Context.
func (*values) Err() error { return nil }

// Value implements context.Context. It leaves out the cancellation of the other
// context, which package context finds as a context by a key that is an *int.
// In Go 1.25, context.Cause would return its cause, although Err is nil.
func (v *values) Value(key any) any {
	found := v.of.Value(key)
	if _, isInternal := key.(*int); isInternal {
		if _, isCancellation := found.(context.Context); isCancellation {
			return nil
		}
	}
	return found
}
