package conform

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock"
)

var errOfTheFunction = errors.New("of the function")

// Do runs the function under the lock, with a context that carries the hold, and returns its error as it is.
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
	if err != errOfTheFunction { //nolint:errorlint // as it is
		s.Errorf("error is %v", err)
	}
	s.unlock(s.lock(other, key))
}

// A function that panics leaves no lock.
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

// The function's context ends with the caller's.
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

// At the caller's deadline the function's context has expired: it is not
// cancelled.
func doEndsAtItsDeadline(s *suite) {
	key, l := s.key(), s.new()
	for range 20 { // one try alone may end right by chance
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		s.want(relock.Do(ctx, l, key, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}), context.DeadlineExceeded)
		cancel()
	}
}

// A function that was not run is an error of the lock's.
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
