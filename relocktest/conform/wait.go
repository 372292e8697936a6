package conform

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/relock-go/relock"
)

// waiterIsServed checks that a waiter gets the lock when it is unlocked.
func waiterIsServed(s *suite) {
	key, l := s.key(), s.new()
	hold := s.lock(l, key)
	done := s.waiter(s.limited(), s.new(), key)
	select {
	case <-done:
		s.Fatal("Lock did not wait")
	case <-time.After(50 * time.Millisecond):
	}
	s.unlock(hold)
	r := s.await(done)
	if r.err != nil {
		s.Fatalf("Lock: %v", r.err)
	}
	s.unlock(r.hold)
}

// waitEnds checks that a wait ends with its context. The error matches the
// context's error, its cause, and what the call waited for.
func waitEnds(s *suite) {
	key, l := s.key(), s.new()
	hold := s.lock(l, key)
	defer s.unlock(hold)

	r := s.timedOut(key)
	s.want(r.err, context.DeadlineExceeded, relock.ErrLockAcquiredByOthers)
	if relock.IsRetryableErr(r.err) {
		s.Error("the end of a context is not to be retried")
	}

	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(s.limited())
	done := s.waiter(ctx, l, key)
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	r = s.await(done)
	s.want(r.err, context.Canceled, why)
}

// timedOut makes a call that waits until its deadline. A server under load may
// not have answered by then, so the next call has twice as long.
func (s *suite) timedOut(key string) (r result) {
	for limit := 100 * time.Millisecond; limit < 10*time.Second; limit *= 2 {
		timed, cancel := context.WithTimeout(s.limited(), limit)
		r = s.await(s.waiter(timed, s.new(), key))
		cancel()
		if errors.Is(r.err, relock.ErrLockAcquiredByOthers) {
			break
		}
	}
	return r
}

// contextOverBefore checks that a call with a cancelled context takes no lock.
func contextOverBefore(s *suite) {
	key, l := s.key(), s.new()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := l.Lock(ctx, key)
	s.want(err, context.Canceled)
	_, err = l.TryLock(ctx, key)
	s.want(err, context.Canceled)
	s.unlock(s.lock(s.new(), key))
}

// queue starts n waiters one after the other, each with its own Locker. Each
// sends its number once it has the lock, and unlocks. The group is done after
// that.
func (s *suite) queue(key string, n int) (<-chan int, *sync.WaitGroup) {
	served, group := make(chan int, n), &sync.WaitGroup{}
	for i := range n {
		done := s.waiter(s.limited(), s.new(), key)
		group.Go(func() {
			r := <-done
			if r.err != nil {
				s.Errorf("waiter %d: %v", i, r.err)
				served <- -1
				return
			}
			served <- i
			if err := r.hold.Unlock(context.Background()); err != nil {
				s.Errorf("waiter %d: %v", i, err)
			}
		})
		s.queued(key, i+1)
	}
	return served, group
}

// order checks that a fair lock is granted in the order of arrival.
func order(s *suite) {
	const waiters = 8
	key := s.key()
	hold := s.lock(s.new(), key)
	served, group := s.queue(key, waiters)
	defer group.Wait()
	s.unlock(hold)
	for i := range waiters {
		select {
		case got := <-served:
			if got != i {
				s.Fatalf("waiter %d was served when it was the turn of %d", got, i)
			}
		case <-time.After(s.patience()):
			s.Fatal("nobody is served")
		}
	}
}

// tryOvertakesNobody checks that TryLock never gets a fair lock that has a
// waiter.
func tryOvertakesNobody(s *suite) {
	key := s.key()
	hold := s.lock(s.new(), key)
	done := s.waiter(s.limited(), s.new(), key)
	s.queued(key, 1)
	other := s.new()
	s.unlock(hold)
	for {
		select {
		case r := <-done:
			if r.err != nil {
				s.Fatalf("Lock: %v", r.err)
			}
			s.unlock(r.hold)
			return
		default:
		}
		got, err := other.TryLock(s.limited(), key) // the waiter keeps the lock until its result is read above
		if err == nil {
			s.unlock(got)
			s.unlock(s.await(done).hold)
			s.Fatal("TryLock has overtaken a waiter")
		}
		s.want(err, relock.ErrLockAcquiredByOthers)
	}
}

// givesUp checks that a waiter that gives up does not block the next one.
func givesUp(s *suite) {
	key := s.key()
	hold := s.lock(s.new(), key)
	ctx, cancel := context.WithCancel(s.limited())
	first := s.waiter(ctx, s.new(), key)
	s.queued(key, 1)
	second := s.waiter(s.limited(), s.new(), key)
	s.queued(key, 2)
	cancel()
	s.want(s.await(first).err, context.Canceled)
	s.unlock(hold)
	r := s.await(second)
	if r.err != nil {
		s.Fatalf("Lock: %v", r.err)
	}
	s.unlock(r.hold)
}
