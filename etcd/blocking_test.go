package etcdlock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

type valueKey struct{}

// A request has the values of its caller, such as gRPC metadata, but not its
// deadline. It ends at its own limit or with the Locker.
func TestDetachedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		s.life, s.end = context.WithCancelCause(context.Background())
		caller, leave := context.WithTimeout(context.WithValue(context.Background(), valueKey{}, "value"), time.Second)
		defer leave()
		ctx, cancel := s.detached(caller, 3*time.Second)
		defer cancel()
		child, stop := context.WithCancel(ctx)
		defer stop()
		time.Sleep(2 * time.Second)
		if _, limited := ctx.Deadline(); limited || ctx.Value(valueKey{}) != "value" || child.Err() != nil {
			t.Errorf("has a deadline: %v, value %v, %v", limited, ctx.Value(valueKey{}), child.Err())
		}
		<-child.Done()
		if !errors.Is(child.Err(), context.DeadlineExceeded) {
			t.Errorf("after its limit: %v", child.Err())
		}
		next, done := s.detached(caller, time.Hour)
		defer done()
		s.end(nil)
		<-next.Done()
		if !errors.Is(next.Err(), context.Canceled) {
			t.Errorf("after Close: %v", next.Err())
		}
	})
}

func TestLockersHaveShortNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		id := newID()
		if len(id) != 16 || seen[id] {
			t.Fatalf("%q", id)
		}
		seen[id] = true
	}
}
