package locktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/testkit"
)

// AnyLock is what every kind of lock has.
type AnyLock interface {
	relock.Mutex
	Acquire(context.Context) (relock.Hold, error)
	TryAcquire(context.Context) (relock.Hold, error)
	Validate() error
}

// NewLock makes a lock of some kind.
type NewLock = func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock

// Kinds are the kinds of locks with one holder, for tests of what they share.
// AllKinds are those and the others of one client.
var (
	Kinds = map[string]NewLock{
		"RedisLock": anyLock(relock.NewRedisLock), "ReentrantLock": anyLock(relock.NewReentrantLock),
	}
	AllKinds = map[string]NewLock{
		"RedisLock": Kinds["RedisLock"], "ReentrantLock": Kinds["ReentrantLock"], "RWLock": anyLock(relock.NewRWLock),
		"RWLock, reading": func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock {
			return relock.NewRWLock(key, c, opts...).RLocker().(AnyLock)
		},
		"Semaphore": NewPermits(1),
		"MultiLock": func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock {
			return relock.NewMultiLock([]string{key, OtherKey}, c, opts...)
		},
	}
)

// anyLock returns a function that makes the same locks as newLock.
func anyLock[L AnyLock](newLock func(string, *relock.Client, ...relock.LockOption) L) NewLock {
	return func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock { return newLock(key, c, opts...) }
}

// OtherKey is the second key of a MultiLock of [AllKinds].
const OtherKey = "other"

// Nothing does nothing.
func Nothing(context.Context) error { return nil }

// ErrMine is an error of the caller's own.
var ErrMine = errors.New("mine")

// Numbered returns n names that begin alike.
func Numbered(begin string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(begin, i))
	}
	return names
}

// Unbounded returns a context that is never cancelled.
func Unbounded(t testing.TB) context.Context { return context.WithoutCancel(t.Context()) }

// Take acquires a lock, as with its Acquire. On a busy machine, the answer may
// come after the command timeout. What such an attempt leaves is soon gone, so
// Take tries again.
func Take(t testing.TB, acquire func(context.Context) (relock.Hold, error)) relock.Hold {
	t.Helper()
	h, err := acquire(t.Context())
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Logf("tries again after: %v", err)
		testkit.Eventually(t, testkit.Patience, func() bool {
			h, err = acquire(t.Context())
			return !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, relock.ErrLockAcquiredByOthers)
		}, "it does not get the lock")
	}
	require.NoError(t, err)
	return h
}

// NewLocker returns a Locker of the client.
func NewLocker(t testing.TB, c *relock.Client, opts ...relock.LockOption) relock.Locker {
	t.Helper()
	l, err := relock.NewLocker(c, opts...)
	require.NoError(t, err)
	return l
}

// TakeKey acquires a lock of l.
func TakeKey(t testing.TB, ctx context.Context, l relock.Locker, key string) relock.Hold {
	t.Helper()
	h, err := l.Lock(ctx, key)
	require.NoError(t, err)
	return h
}

// Owned makes all calls of a reentrant or read/write lock those of the owner
// id, whichever goroutine makes them. Another lock stays as it is.
func Owned(id string, l AnyLock) AnyLock {
	switch l.(type) {
	case *relock.ReentrantLock, *relock.RWLock:
		return owned{l, id}
	}
	return l
}

// OwnedRW is [Owned] for a lock that reads, too.
func OwnedRW(id string, l *relock.RWLock) RWLock {
	return RWLock{owned{l, id}, owned{l.RLocker().(AnyLock), id}}
}

// RWLock is a read/write lock of one owner.
type RWLock struct {
	AnyLock
	reads AnyLock
}

// RLock is that of relock.RWLock.
func (l RWLock) RLock(ctx context.Context) error { return l.reads.Lock(ctx) }

// RUnlock is that of relock.RWLock.
func (l RWLock) RUnlock(ctx context.Context) error { return l.reads.Unlock(ctx) }

// RAcquire is that of relock.RWLock.
func (l RWLock) RAcquire(ctx context.Context) (relock.Hold, error) { return l.reads.Acquire(ctx) }

// owned is a lock whose calls are those of one owner.
type owned struct {
	AnyLock
	id string
}

func (o owned) as(ctx context.Context) context.Context { return relock.ContextWithOwner(ctx, o.id) }

func (o owned) Lock(ctx context.Context) error { return o.AnyLock.Lock(o.as(ctx)) }

func (o owned) TryLock(ctx context.Context) error { return o.AnyLock.TryLock(o.as(ctx)) }

func (o owned) Unlock(ctx context.Context) error { return o.AnyLock.Unlock(o.as(ctx)) }

func (o owned) Do(ctx context.Context, f func(context.Context) error) error {
	return o.AnyLock.Do(o.as(ctx), f)
}

func (o owned) TryDo(ctx context.Context, f func(context.Context) error) error {
	return o.AnyLock.TryDo(o.as(ctx), f)
}

func (o owned) Acquire(ctx context.Context) (relock.Hold, error) { return o.AnyLock.Acquire(o.as(ctx)) }

func (o owned) TryAcquire(ctx context.Context) (relock.Hold, error) {
	return o.AnyLock.TryAcquire(o.as(ctx))
}

// As returns the context of an owner.
func As(t testing.TB, name string) context.Context { return relock.ContextWithOwner(t.Context(), name) }
