package conform

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
)

// Backend is what the suite has to know of the Lockers of one kind. New and Lease are needed; a nil function leaves out
// the tests that need it.
type Backend struct {
	// New returns a Locker with an identity of its own, as another process has one. It is closed when the test ends.
	New func(t *testing.T) relock.Locker
	// Lease is how long a hold of these Lockers lasts at the server when it is not renewed: a second or two.
	Lease time.Duration

	// Fair says that locks are granted in the order of arrival, and that TryLock overtakes nobody.
	Fair bool
	// Fenced says that each hold has a fencing token.
	Fenced bool
	// Reentrant says that the holder's own second Lock, with the context of its hold, does not wait.
	Reentrant bool

	// Faulty returns a Locker whose messages are lost, late or doubled now and then, in both directions.
	Faulty func(t *testing.T) relock.Locker
	// Break takes the lock of this name away at the server, behind its holder's back.
	Break func(t *testing.T, key string)
	// Waiting returns how many wait for the lock at the server.
	Waiting func(t *testing.T, key string) int
	// Left returns what the server has of the lock of this name, for people to read: nothing once nobody holds it or
	// waits for it.
	Left func(t *testing.T, key string) []string
}

// Run checks the backend, each promise in a subtest of its own, several at once.
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
			t.Parallel() // most of them wait most of the time
			s := &suite{T: t, Backend: b}
			tt.run(s)
		})
	}
}

// suite is one test of one backend.
type suite struct {
	*testing.T
	Backend
}

// patience is how long the suite waits for what should come soon, also on a busy machine.
func (s *suite) patience() time.Duration { return 10*time.Second + 4*s.Lease }

var keys atomic.Int64

// key returns a name that no other test uses. What is left of it when the test ends is a fault.
func (s *suite) key() string {
	s.Helper()
	key := fmt.Sprintf("conform-%d", keys.Add(1))
	s.Cleanup(func() { s.cleared(key) })
	return key
}

// cleared waits until the server has nothing of the lock.
func (s *suite) cleared(key string) {
	if s.Left == nil || s.Failed() {
		return
	}
	var left []string
	if !s.soon(func() bool { left = s.Left(s.T, key); return len(left) == 0 }) {
		s.Errorf("%s: left at the server: %q", key, left)
	}
}

// soon waits until ok is true, and says whether it came to be.
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

// limited returns a context that ends when the suite has waited for long enough.
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

// A result is what a call on another goroutine came to.
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

// queued waits until the server knows of so many waiters.
func (s *suite) queued(key string, n int) {
	s.Helper()
	if !s.soon(func() bool { return s.Waiting(s.T, key) == n }) {
		s.Fatalf("%d wait at the server, not %d", s.Waiting(s.T, key), n)
	}
}
