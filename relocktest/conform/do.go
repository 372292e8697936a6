package conform

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock"
)

var errOfTheFunction = errors.New("of the function")

// do checks that Do runs the function under the lock, with a context that
// carries the hold. Do must return the function's error unchanged.
func do(s *suite) {
	key, l, other := s.key(), s.new(), s.new()
	err := relock.Do(s.limited(), l, key, func(ctx context.Context) error {
		hold, ok := relock.HoldFromContext(ctx, key)
		if !ok || hold.Err() != nil {
			s.Error("the context does not carry the hold")
		}
		if _, err := other.TryLock(s.limited(), key); !errors.Is(err, relock.ErrLockAcquiredByOthers) {
			s.Errorf("TryLock of another: %v", err)
		}
		return errOfTheFunction
	})
	if err != errOfTheFunction { //nolint:errorlint // unchanged
		s.Errorf("error is %v", err)
	}
	s.unlock(s.lock(other, key))
}

// doPanics checks that a function that panics leaves no lock.
func doPanics(s *suite) {
	key, l := s.key(), s.new()
	func() {
		defer func() {
			if recover() != "panic of the function" {
				s.Error("the panic was swallowed")
			}
		}()
		_ = relock.Do(s.limited(), l, key, func(context.Context) error { panic("panic of the function") })
	}()
	s.unlock(s.lock(s.new(), key))
}

// doEndsWithItsContext checks that the function's context is cancelled with the
// caller's.
func doEndsWithItsContext(s *suite) {
	key, l := s.key(), s.new()
	ctx, cancel := context.WithCancelCause(s.limited())
	err := relock.Do(ctx, l, key, func(ctx context.Context) error {
		cancel(errOfTheFunction)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	s.want(err, errOfTheFunction)
	s.unlock(s.lock(s.new(), key))
}

// doEndsAtItsDeadline checks that the function's context has expired at the
// caller's deadline: it is not cancelled.
func doEndsAtItsDeadline(s *suite) {
	key, l := s.key(), s.new()
	for range 20 { // a single try may succeed by chance
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		s.want(relock.Do(ctx, l, key, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}), context.DeadlineExceeded)
		cancel()
	}
}

// doIsNotRun checks that the error is one of the lock if the function was not
// run.
func doIsNotRun(s *suite) {
	key, l := s.key(), s.new()
	ctx, cancel := context.WithCancel(s.limited())
	cancel()
	err := relock.Do(ctx, l, key, func(context.Context) error { s.Error("was run"); return nil })
	s.want(err, context.Canceled)
	var e *relock.Error
	if !errors.As(err, &e) || e.Op != "lock" {
		s.Errorf("error is %#v", err)
	}
	s.want(relock.Do(s.limited(), l, key, nil), relock.ErrInvalid)
	s.want(relock.Do(s.limited(), nil, key, func(context.Context) error { return nil }), relock.ErrInvalid)
}

// tryDo checks that TryDo makes one attempt, and is otherwise like Do.
func tryDo(s *suite) {
	key, l, other := s.key(), s.new(), s.new()
	err := relock.TryDo(s.limited(), l, key, func(ctx context.Context) error {
		if hold, ok := relock.HoldFromContext(ctx, key); !ok || hold.Err() != nil {
			s.Error("the context does not carry the hold")
		}
		err := relock.TryDo(s.limited(), other, key, func(context.Context) error { s.Error("was run"); return nil })
		s.want(err, relock.ErrLockAcquiredByOthers)
		var e *relock.Error
		if !errors.As(err, &e) || e.Op != "lock" {
			s.Errorf("error is %#v", err)
		}
		return errOfTheFunction
	})
	if err != errOfTheFunction { //nolint:errorlint // unchanged
		s.Errorf("error is %v", err)
	}
	s.unlock(s.lock(other, key))
}
