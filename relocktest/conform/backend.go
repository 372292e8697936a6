package conform

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
)

// Backend describes the Lockers of one kind to the suite. New and Lease are
// required. If another function is nil, the tests that need it are left out.
type Backend struct {
	// New returns a Locker with its own identity, like that of another process.
	// New must close it when the test ends.
	New func(t *testing.T) relock.Locker
	// Lease is how long a hold of these Lockers lasts at the server if it is
	// not renewed. Use a second or two.
	Lease time.Duration

	// Fair reports whether locks are granted in the order of arrival, and
	// TryLock never overtakes a waiter.
	Fair bool
	// Fenced reports whether each hold has a fencing token.
	Fenced bool
	// Reentrant reports whether a second Lock by the holder's goroutine does
	// not wait, whatever its context.
	Reentrant bool
	// Refuses reports whether a nested call, under the context of the same
	// hold, is refused: Lock with ErrInvalid, TryLock with
	// ErrLockAcquiredByOthers. Otherwise a nested call must add a level. Locks
	// that are no Locker may refuse.
	Refuses bool

	// Faulty returns a Locker whose messages are now and then lost, late or
	// doubled, in both directions.
	Faulty func(t *testing.T) relock.Locker
	// Break removes the lock of this name at the server, without the knowledge
	// of its holder.
	Break func(t *testing.T, key string)
	// Waiting returns the number of waiters for the lock at the server.
	Waiting func(t *testing.T, key string) int
	// Left returns what the server stores for the lock of this name, in
	// readable form. It returns nothing once the lock has no holder and no
	// waiter.
	Left func(t *testing.T, key string) []string
}

// Run checks the backend. Each promise is a subtest, and several run in
// parallel.
func Run(t *testing.T, b Backend) {
	t.Helper()
	if b.New == nil || b.Lease <= 0 {
		t.Fatal("conform: a Backend needs New and Lease")
	}
	for _, tt := range tests {
		if tt.applies != nil && !tt.applies(b) {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if !tt.waits {
				busy <- struct{}{}
				defer func() { <-busy }()
			}
			s := &suite{T: t, Backend: b}
			tt.run(s)
		})
	}
}

// busy has room for the tests that run side by side and seldom wait. More would
// take the processors from each other, and their calls would time out.
var busy = make(chan struct{}, 3*runtime.GOMAXPROCS(0))

// suite is one test of one backend.
type suite struct {
	*testing.T
	Backend
}

// patience returns how long the suite waits for what should come soon, even on
// a busy machine.
func (s *suite) patience() time.Duration { return 30*time.Second + 4*s.Lease }

var keys atomic.Int64

// key returns a name that no other test uses. It is a fault if the server still
// stores anything for it when the test ends.
func (s *suite) key() string {
	s.Helper()
	key := fmt.Sprintf("conform-%d", keys.Add(1))
	s.Cleanup(func() { s.cleared(key) })
	return key
}

// cleared waits until the server stores nothing for the lock.
func (s *suite) cleared(key string) {
	if s.Left == nil || s.Failed() {
		return
	}
	var left []string
	if !s.soon(func() bool { left = s.Left(s.T, key); return len(left) == 0 }) {
		s.Errorf("%s: left at the server: %q", key, left)
	}
}

// soon repeats ok until it is true, and reports whether it came true in time.
func (s *suite) soon(ok func() bool) bool {
	end := time.Now().Add(s.patience())
	for !ok() {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(time.Millisecond)
	}
	return true
}

func (s *suite) new() relock.Locker {
	s.Helper()
	return s.New(s.T)
}

// limited returns a context that is cancelled after the suite's patience.
func (s *suite) limited() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), s.patience())
	s.Cleanup(cancel)
	return ctx
}

func (s *suite) lock(l relock.Locker, key string) relock.Hold {
	s.Helper()
	hold, err := l.Lock(s.limited(), key)
	if err != nil {
		s.Fatalf("Lock: %v", err)
	}
	return hold
}

func (s *suite) unlock(hold relock.Hold) {
	s.Helper()
	if err := hold.Unlock(context.Background()); err != nil {
		s.Fatalf("Unlock: %v", err)
	}
}

// result is the result of a call on another goroutine.
type result struct {
	hold relock.Hold
	err  error
}

// waiter calls Lock on another goroutine.
func (s *suite) waiter(ctx context.Context, l relock.Locker, key string) <-chan result {
	done := make(chan result, 1)
	go func() {
		hold, err := l.Lock(ctx, key)
		done <- result{hold, err}
	}()
	return done
}

// await returns the result of a waiter.
func (s *suite) await(done <-chan result) result {
	s.Helper()
	select {
	case r := <-done:
		return r
	case <-time.After(s.patience()):
		s.Fatal("a call did not return")
		return result{}
	}
}

// queued waits until the server knows of n waiters.
func (s *suite) queued(key string, n int) {
	s.Helper()
	if !s.soon(func() bool { return s.Waiting(s.T, key) == n }) {
		s.Fatalf("%d wait at the server, not %d", s.Waiting(s.T, key), n)
	}
}
