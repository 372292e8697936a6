package conform

import (
	"context"
	"time"

	"github.com/relock-go/relock"
)

// renewal checks that a hold is renewed for as long as it is held.
func renewal(s *suite) {
	key, other := s.key(), s.new()
	hold := s.lock(s.new(), key)
	defer s.unlock(hold)
	first := hold.ValidUntil()
	for end := time.Now().Add(2*s.Lease + s.Lease/2); time.Now().Before(end); time.Sleep(s.Lease / 20) {
		if err := hold.Err(); err != nil {
			s.Fatalf("Err: %v", err)
		}
		if _, err := other.TryLock(s.limited(), key); err == nil {
			s.Fatal("two have the lock")
		}
	}
	if !hold.ValidUntil().After(first) || hold.Context().Err() != nil {
		s.Error("was not renewed")
	}
}

// extend checks that Extend makes a hold valid for longer, and never shortens
// it.
func extend(s *suite) {
	key := s.key()
	hold := s.lock(s.new(), key)
	defer s.unlock(hold)
	long, before := 3*s.Lease, time.Now()
	if err := hold.Extend(s.limited(), long); err != nil {
		s.Fatalf("Extend: %v", err)
	}
	until := hold.ValidUntil()
	if length := until.Sub(before); length < long-long/10-100*time.Millisecond || length > long+s.patience() {
		s.Errorf("valid for %v after Extend to %v", length, long)
	}
	s.remaining(hold, long+s.patience())
	if err := hold.Extend(s.limited(), s.Lease/2); err != nil {
		s.Fatalf("Extend: %v", err)
	}
	if hold.ValidUntil().Before(until) {
		s.Error("Extend has shortened it")
	}
}

func extendMistakes(s *suite) {
	hold := s.lock(s.new(), s.key())
	defer s.unlock(hold)
	for _, d := range []time.Duration{-time.Second, 0} {
		s.want(hold.Extend(s.limited(), d), relock.ErrInvalid)
	}
	s.want(hold.Extend(nil, s.Lease), relock.ErrInvalid) //nolint:staticcheck // the mistake
	if hold.Err() != nil {
		s.Errorf("a mistake has ended the hold: %v", hold.Err())
	}
}

// loss checks that a hold is lost when its lock was removed at the server. Its
// context is cancelled, and every method reports the loss from then on.
func loss(s *suite) {
	key, l := s.key(), s.new()
	hold := s.lock(l, key)
	s.Break(s.T, key)
	select {
	case <-hold.Context().Done():
	case <-time.After(s.patience()):
		s.Fatal("the loss was not noticed")
	}
	s.want(context.Cause(hold.Context()), relock.ErrLockLost)
	s.want(hold.Err(), relock.ErrLockLost)
	s.want(hold.Extend(s.limited(), s.Lease), relock.ErrLockLost)
	s.isOver(hold)
	s.want(hold.Unlock(context.Background()), relock.ErrLockLost, relock.ErrNotHeld)
	s.unlock(s.lock(l, key))
}

// lossUnderDo checks that Do returns ErrLockLost if the lock is lost while the
// function runs.
func lossUnderDo(s *suite) {
	key, l := s.key(), s.new()
	err := relock.Do(s.limited(), l, key, func(ctx context.Context) error {
		s.Break(s.T, key)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	s.want(err, relock.ErrLockLost)
	s.unlock(s.lock(l, key))
}
