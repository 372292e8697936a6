package conform

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/relock-go/relock"
)

// One that waits has the lock when it is unlocked.
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

// A wait ends with its context: the error matches the end, its cause, and what the wait was for.
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

// timedOut is a call that waits until its deadline. A server under load may not
// have answered once by then: the next call has twice as long.
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

// A call whose context is over takes nothing.
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

// queue makes so many wait, each with a Locker of its own, one after the other. Each sends its number once it has the lock,
// and unlocks; the group is done then.
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

// A fair lock is granted in the order of arrival.
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

// TryLock of a fair lock does not get what somebody waits for.
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
		got, err := other.TryLock(s.limited(), key) // the waiter, once served, keeps the lock until it is seen above
		if err == nil {
			s.unlock(got)
			s.unlock(s.await(done).hold)
			s.Fatal("TryLock has overtaken a waiter")
		}
		s.want(err, relock.ErrLockAcquiredByOthers)
	}
}

// One that gives up leaves its place to the one behind it.
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
