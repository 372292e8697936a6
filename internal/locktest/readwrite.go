package locktest

import (
	"context"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
)

// rwLevels is a read/write lock whose levels are taken to read and to write in
// an order.
type rwLevels struct {
	*relock.RWLock
	order string
	taken int
}

func newRWLevels(order string, l *relock.RWLock) AnyLock { return &rwLevels{RWLock: l, order: order} }

func (l *rwLevels) reads() bool { return l.order[l.taken%len(l.order)] == 'r' }

func (l *rwLevels) Acquire(ctx context.Context) (relock.Hold, error) {
	return l.Next(ctx, l.RAcquire, l.RWLock.Acquire)
}

func (l *rwLevels) TryAcquire(ctx context.Context) (relock.Hold, error) {
	return l.Next(ctx, l.TryRAcquire, l.RWLock.TryAcquire)
}

func (l *rwLevels) Next(ctx context.Context, read, write func(context.Context) (relock.Hold, error)) (h relock.Hold, err error) {
	if l.reads() {
		h, err = read(ctx)
	} else {
		h, err = write(ctx)
	}
	if err == nil {
		l.taken++
	}
	return h, err
}

func (l *rwLevels) Lock(ctx context.Context) error { return l.by(ctx, l.RLock, l.RWLock.Lock) }

func (l *rwLevels) TryLock(ctx context.Context) error {
	return l.by(ctx, l.TryRLock, l.RWLock.TryLock)
}

func (l *rwLevels) Unlock(ctx context.Context) error { return l.by(ctx, l.RUnlock, l.RWLock.Unlock) }

func (l *rwLevels) by(ctx context.Context, read, write func(context.Context) error) error {
	if l.reads() {
		return read(ctx)
	}
	return write(ctx)
}

// RwKinds are read/write locks for the tests of waiters.
var RwKinds = map[string]func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock{
	"RWLock": func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock {
		return relock.NewRWLock(key, c, opts...)
	},
	// All write, except waiters behind a proxy.
	"RWLock that waits to read": func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock {
		if Config(c).CommandTimeout == WaiterLimit {
			return newRWLevels("r", relock.NewRWLock(key, c, opts...))
		}
		return relock.NewRWLock(key, c, opts...)
	},
}

// As returns the context of an owner.
func As(t testing.TB, name string) context.Context { return relock.ContextWithOwner(t.Context(), name) }

// RwStored returns what the server has of a read/write lock by the owner's
// name, as '<r or w> <reads>:<writes>'.
func RwStored(t testing.TB, s *redistest.Server, c *relock.Client, key string) map[string]string {
	t.Helper()
	stored := map[string]string{}
	for _, e := range scripttest.ReadRW(t, s.Dial(t), KeyOf(c, key)) {
		stored[e.Owner] = e.Kind + " " + e.Counts
	}
	return stored
}
