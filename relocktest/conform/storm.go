package conform

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
)

// room is what a lock guards. At most one caller with a valid hold is inside.
type room struct {
	*suite
	mu      sync.Mutex
	inside  relock.Hold
	entries int
	token   int64
}

// enter is called with the lock. A hold that is still inside must have been
// lost.
func (r *room) enter(hold relock.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inside != nil && r.inside.Err() == nil && hold.Err() == nil && r.inside.Err() == nil {
		r.Error("two valid holds at the same time")
	}
	if fence := hold.Fence(); r.Fenced && hold.Err() == nil {
		if fence <= r.token {
			r.Errorf("fencing token %d after %d", fence, r.token)
		}
		r.token = fence
	}
	r.inside = hold
	r.entries++
}

func (r *room) leave(hold relock.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inside == hold {
		r.inside = nil
	}
}

// exclusion checks that a count that is guarded only by the lock is right in
// the end.
func exclusion(s *suite) {
	const lockers, goroutines, times = 3, 4, 15
	r, key := &room{suite: s}, s.key()
	var count int
	var group sync.WaitGroup
	for range lockers {
		l := s.new()
		for range goroutines {
			group.Go(func() {
				for range times {
					err := relock.Do(s.limited(), l, key, func(ctx context.Context) error {
						hold, _ := relock.HoldFromContext(ctx, key)
						r.enter(hold)
						before := count
						time.Sleep(rand.N(200 * time.Microsecond))
						count = before + 1
						r.leave(hold)
						return nil
					})
					if err != nil {
						s.Errorf("Do: %v", err)
						return
					}
				}
			})
		}
	}
	group.Wait()
	if count != lockers*goroutines*times && !s.Failed() {
		s.Errorf("%d of %d are counted", count, lockers*goroutines*times)
	}
}

// cancels checks that calls whose contexts end at any moment leave nothing
// behind.
func cancels(s *suite) {
	r := &room{suite: s}
	s.storm(r, s.New, 3, 4, 40, 3*time.Millisecond)
	if r.entries == 0 {
		s.Error("nobody had the lock")
	}
}

// faults checks that lost, late and doubled messages let no two holders in, and
// leave nothing behind.
func faults(s *suite) {
	r := &room{suite: s}
	s.storm(r, s.Faulty, 3, 3, 8, s.Lease)
	if r.entries == 0 {
		s.Error("nobody had the lock")
	}
}

// storm makes many calls. Half of them have a context that ends within limit.
func (s *suite) storm(
	r *room, locker func(*testing.T) relock.Locker, lockers, goroutines, times int, limit time.Duration,
) {
	key := s.key()
	var group sync.WaitGroup
	for range lockers {
		l := locker(s.T)
		for range goroutines {
			group.Go(func() {
				for n := range times {
					s.visit(r, l, key, n%2 == 0, limit)
				}
			})
		}
	}
	group.Wait()
}

// visit locks and unlocks once, unless the context ends before.
func (s *suite) visit(r *room, l relock.Locker, key string, limited bool, limit time.Duration) {
	ctx := s.limited()
	if limited {
		short, cancel := context.WithTimeout(ctx, rand.N(limit))
		defer cancel()
		ctx = short
	}
	hold, err := l.Lock(ctx, key)
	if err != nil {
		if !limited || !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("Lock: %v", err)
		}
		return
	}
	r.enter(hold)
	time.Sleep(rand.N(time.Millisecond))
	r.leave(hold)
	if err := hold.Unlock(ctx); err != nil && !errors.Is(err, relock.ErrUnconfirmed) &&
		!errors.Is(err, relock.ErrLockLost) {
		s.Errorf("Unlock: %v", err)
	}
}

// tokens checks that fencing tokens rise from hold to hold, regardless of the
// holder.
func tokens(s *suite) {
	key := s.key()
	lockers := []relock.Locker{s.new(), s.new()}
	var last int64
	for n := range 20 {
		hold := s.lock(lockers[n%2], key)
		if hold.Fence() <= last {
			s.Fatalf("token %d after %d", hold.Fence(), last)
		}
		last = hold.Fence()
		s.unlock(hold)
		if hold.Fence() != last {
			s.Fatal("the token has changed")
		}
	}
}
