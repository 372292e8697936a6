package locktest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock"
)

// Permits is a semaphore with the methods of a lock. Lock and Unlock are for
// one goroutine.
type Permits struct {
	*relock.Semaphore
	hold relock.Hold
}

// NewPermits returns a function that makes semaphores with n permits.
func NewPermits(n int) NewLock {
	return func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock {
		return &Permits{Semaphore: relock.NewSemaphore(key, n, c, opts...)}
	}
}

// HoldOf returns the id of the permit with a label, in the semaphore at a key.
// It is empty if there is none.
func HoldOf(t testing.TB, conn redis.Conn, key, label string) string {
	t.Helper()
	for _, e := range ReadRW(t, conn, key) {
		if fields := strings.Split(e.Info, "|"); e.Kind == "r" && slices.Contains(fields, label) {
			return e.Name
		}
	}
	return ""
}

// Lock takes a permit.
func (p *Permits) Lock(ctx context.Context) (err error) {
	p.hold, err = p.Acquire(ctx)
	return err
}

// TryLock takes a permit in one attempt.
func (p *Permits) TryLock(ctx context.Context) (err error) {
	p.hold, err = p.TryAcquire(ctx)
	return err
}

// Unlock returns the permit of Lock or TryLock.
func (p *Permits) Unlock(ctx context.Context) error {
	if p.hold == nil {
		return relock.ErrNotHeld
	}
	return p.hold.Unlock(ctx)
}
