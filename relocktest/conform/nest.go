package conform

import (
	"context"
	"time"

	"github.com/relock-go/relock"
)

// nested checks that calls under the context of a hold add levels. The last
// Unlock releases the lock, whichever level it is of.
func nested(s *suite) {
	key, l, other := s.key(), s.new(), s.new()
	outer := s.lock(l, key)
	inner, err := l.Lock(s.under(outer), key)
	if err != nil {
		s.Fatalf("nested Lock: %v", err)
	}
	innermost, err := l.TryLock(s.under(inner), key)
	if err != nil {
		s.Fatalf("nested TryLock: %v", err)
	}
	if inner.Key() != key || inner.Err() != nil || inner.Fence() != outer.Fence() {
		s.Errorf("level of %q with token %d of %d: %v", inner.Key(), inner.Fence(), outer.Fence(), inner.Err())
	}
	for _, h := range []relock.Hold{innermost, outer} {
		s.unlock(h)
		s.want(h.Err(), relock.ErrNotHeld)
		s.want(h.Unlock(context.Background()), relock.ErrNotHeld)
		_, err = other.TryLock(s.limited(), key)
		s.want(err, relock.ErrLockAcquiredByOthers)
	}
	if inner.Err() != nil || inner.Context().Err() != nil {
		s.Errorf("Unlock of other levels has ended this one: %v", inner.Err())
	}
	s.unlock(inner)
	s.unlock(s.lock(other, key))
}

// under returns the context of a hold with the suite's limit.
func (s *suite) under(hold relock.Hold) context.Context {
	ctx, cancel := context.WithTimeout(hold.Context(), s.patience())
	s.Cleanup(cancel)
	return ctx
}

// nestedInDo checks that a nested Do has its own level. It is renewed for as
// long as the outer one.
func nestedInDo(s *suite) {
	key, l, other := s.key(), s.new(), s.new()
	held := func(ctx context.Context) error {
		_, err := other.TryLock(s.limited(), key)
		s.want(err, relock.ErrLockAcquiredByOthers)
		return context.Cause(ctx)
	}
	err := relock.Do(s.limited(), l, key, func(ctx context.Context) error {
		for _, do := range []func(context.Context, relock.Locker, string, func(context.Context) error) error{
			relock.Do, relock.TryDo,
		} {
			if err := do(ctx, l, key, held); err != nil {
				s.Errorf("nested: %v", err)
			}
		}
		time.Sleep(s.Lease + s.Lease/4)
		return held(ctx)
	})
	if err != nil {
		s.Errorf("Do: %v", err)
	}
	s.unlock(s.lock(other, key))
}

// nestedAfterUnlock checks that the context of a hold that was unlocked gives
// no level: the call competes like any other.
func nestedAfterUnlock(s *suite) {
	key, l := s.key(), s.new()
	ctx := context.WithoutCancel(s.under(s.unlocked(l, key)))
	hold := s.lock(s.new(), key)
	_, err := l.TryLock(ctx, key)
	s.want(err, relock.ErrLockAcquiredByOthers)
	s.unlock(hold)
	again, err := l.TryLock(ctx, key)
	if err != nil {
		s.Fatalf("TryLock: %v", err)
	}
	s.unlock(again)
}

func (s *suite) unlocked(l relock.Locker, key string) relock.Hold {
	s.Helper()
	hold := s.lock(l, key)
	s.unlock(hold)
	return hold
}

// nestedAfterALoss checks that a call under a lost hold gets ErrLockLost, and
// not the lock. All levels are lost together.
func nestedAfterALoss(s *suite) {
	key, l := s.key(), s.new()
	outer := s.lock(l, key)
	inner, err := l.Lock(s.under(outer), key)
	if err != nil {
		s.Fatalf("nested Lock: %v", err)
	}
	ctx := context.WithoutCancel(inner.Context())
	s.Break(s.T, key)
	if !s.soon(func() bool { return outer.Err() != nil && inner.Err() != nil }) {
		s.Fatal("the loss was not noticed")
	}
	for _, call := range []func(context.Context, string) (relock.Hold, error){l.Lock, l.TryLock} {
		_, err := call(ctx, key)
		s.want(err, relock.ErrLockLost)
	}
	for _, h := range []relock.Hold{inner, outer} {
		s.want(h.Unlock(context.Background()), relock.ErrLockLost, relock.ErrNotHeld)
	}
	s.unlock(s.lock(l, key))
}

// nestedIsRefused checks that a nested call does not wait for its own hold.
func nestedIsRefused(s *suite) {
	key, l := s.key(), s.new()
	hold := s.lock(l, key)
	_, err := l.Lock(s.under(hold), key)
	s.want(err, relock.ErrInvalid)
	_, err = l.TryLock(s.under(hold), key)
	s.want(err, relock.ErrLockAcquiredByOthers)
	s.unlock(hold)
}
