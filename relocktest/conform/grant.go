package conform

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock"
)

// want fails the test if err does not match each of the reasons.
func (s *suite) want(err error, reasons ...error) {
	s.Helper()
	for _, reason := range reasons {
		if !errors.Is(err, reason) {
			s.Fatalf("error is %v, not %v", err, reason)
		}
	}
}

// grant checks that a hold returns its key and is valid. Its context must have
// the values of the caller's.
func grant(s *suite) {
	type name struct{}
	key, l := s.key(), s.new()
	before := time.Now()
	hold, err := l.TryLock(context.WithValue(s.limited(), name{}, "value"), key)
	if err != nil {
		s.Fatalf("TryLock: %v", err)
	}
	defer s.unlock(hold)
	if hold.Key() != key {
		s.Errorf("Key is %q, not %q", hold.Key(), key)
	}
	if hold.Err() != nil {
		s.Errorf("Err: %v", hold.Err())
	}
	if until := hold.ValidUntil(); !until.After(before) || until.After(time.Now().Add(s.Lease)) {
		s.Errorf("valid for %v of a lease of %v", time.Until(until), s.Lease)
	}
	s.remaining(hold, s.Lease)
	if hold.Context().Value(name{}) != "value" || hold.Context().Err() != nil {
		s.Error("the context has not the values of the caller's, or is over")
	}
	if got, ok := relock.HoldFromContext(hold.Context(), key); !ok || got != hold {
		s.Error("the context does not carry the hold")
	}
	if (hold.Fence() != 0) != s.Fenced {
		s.Errorf("Fence is %d", hold.Fence())
	}
}

// remaining checks that a valid hold returns the time until ValidUntil, at most
// limit.
func (s *suite) remaining(hold relock.Hold, limit time.Duration) {
	s.Helper()
	before := time.Until(hold.ValidUntil())
	got := hold.Remaining()
	if after := time.Until(hold.ValidUntil()); got <= 0 || got > limit || got > max(before, after) ||
		got < min(before, after)-time.Second {
		s.Errorf("Remaining is %v, and %v to %v are left", got, before, after)
	}
}

// isOver checks that a hold that has ended has no time left.
func (s *suite) isOver(hold relock.Hold) {
	s.Helper()
	if !hold.ValidUntil().IsZero() || hold.Remaining() != 0 {
		s.Errorf("valid until %v, Remaining is %v", hold.ValidUntil(), hold.Remaining())
	}
}

// heldByOthers checks the error for a lock that another Locker holds. A lock of
// another name is free.
func heldByOthers(s *suite) {
	key, other := s.key(), s.key()
	a, b := s.new(), s.new()
	hold := s.lock(a, key)
	_, err := b.TryLock(s.limited(), key)
	s.want(err, relock.ErrLockAcquiredByOthers)
	var e *relock.Error
	if !errors.As(err, &e) || e.Op != "lock" || e.Key != key {
		s.Errorf("error is %#v", err)
	}
	if !relock.IsRetryableErr(err) {
		s.Error("is not retryable")
	}
	s.unlock(s.lock(b, other)) // another name is another lock
	s.unlock(hold)
	s.unlock(s.lock(b, key))
}

// sameLocker checks that goroutines with one Locker exclude each other.
func sameLocker(s *suite) {
	key, l := s.key(), s.new()
	hold := s.lock(l, key)
	_, err := l.TryLock(s.limited(), key)
	s.want(err, relock.ErrLockAcquiredByOthers)
	s.unlock(hold)
	s.unlock(s.lock(l, key))
}

// unlockOnce checks that Unlock ends the hold and its context. A second Unlock
// must return ErrNotHeld.
func unlockOnce(s *suite) {
	key, l := s.key(), s.new()
	hold := s.lock(l, key)
	ctx, fence := hold.Context(), hold.Fence()
	s.unlock(hold)
	select {
	case <-ctx.Done():
		s.want(context.Cause(ctx), relock.ErrNotHeld)
	default:
		s.Error("the context goes on")
	}
	s.want(hold.Err(), relock.ErrNotHeld)
	s.want(hold.Unlock(context.Background()), relock.ErrNotHeld)
	s.want(hold.Extend(s.limited(), s.Lease), relock.ErrNotHeld)
	s.isOver(hold)
	if hold.Fence() != fence {
		s.Error("the fencing token has changed")
	}
}

// unlockAfterTheContext checks that Unlock works with a cancelled context.
func unlockAfterTheContext(s *suite) {
	key, l := s.key(), s.new()
	ctx, cancel := context.WithCancel(s.limited())
	hold, err := l.Lock(ctx, key)
	if err != nil {
		s.Fatalf("Lock: %v", err)
	}
	cancel()
	if err := hold.Unlock(ctx); err != nil {
		s.Fatalf("Unlock: %v", err)
	}
	s.unlock(s.lock(s.new(), key))
}

// holdOutlivesTheCaller checks that the hold does not end when the context of
// Lock is cancelled.
func holdOutlivesTheCaller(s *suite) {
	key, l := s.key(), s.new()
	ctx, cancel := context.WithCancel(s.limited())
	hold, err := l.Lock(ctx, key)
	if err != nil {
		s.Fatalf("Lock: %v", err)
	}
	defer s.unlock(hold)
	cancel()
	if hold.Err() != nil || hold.Context().Err() != nil {
		s.Fatalf("the hold has ended: %v", hold.Err())
	}
	_, err = s.new().TryLock(s.limited(), key)
	s.want(err, relock.ErrLockAcquiredByOthers)
}

// mistakes checks that invalid arguments are refused. A Locker must refuse them
// before it sends anything.
func mistakes(s *suite) {
	l := s.new()
	for what, call := range map[string]func() error{
		"an empty name":              func() error { _, err := l.Lock(s.limited(), ""); return err },
		"an empty name, one attempt": func() error { _, err := l.TryLock(s.limited(), ""); return err },
		//nolint:staticcheck // the mistake
		"no context": func() error { _, err := l.Lock(nil, "name"); return err },
		//nolint:staticcheck // the mistake
		"no context, one attempt": func() error { _, err := l.TryLock(nil, "name"); return err },
	} {
		if err := call(); !errors.Is(err, relock.ErrInvalid) {
			s.Errorf("%s: %v", what, err)
		}
	}
}
