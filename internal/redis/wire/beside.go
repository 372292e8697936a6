package wire

import (
	"context"
	"fmt"
)

// Beside runs a user's function on a goroutine, because it may ignore ctx. If
// ctx ends first, the caller continues, and a late result goes to discard.
func Beside[T any](ctx context.Context, what string, f func() (T, error), discard func(T)) (T, error) {
	type result struct {
		value T
		err   error
	}
	ready := make(chan result)
	go func() {
		value, err := guarded(what, f)
		select {
		case ready <- result{value, err}:
		case <-ctx.Done():
			if err == nil {
				discard(value)
			}
		}
	}()
	select {
	case r := <-ready:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// guarded turns a panic into an error. On this goroutine no caller can recover
// it, so it would end the program.
func guarded[T any](what string, f func() (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s panicked: %v", what, p)
		}
	}()
	return f()
}
