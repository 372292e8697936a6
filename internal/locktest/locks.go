package locktest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// AnyLock is what every kind of lock has.
type AnyLock interface {
	relock.Mutex
	Acquire(context.Context) (relock.Hold, error)
	TryAcquire(context.Context) (relock.Hold, error)
	Validate() error
}

// NewLock makes a lock of some kind.
type NewLock func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock

// Kinds has the kinds of locks with one holder, for tests of what they share.
var Kinds = map[string]NewLock{
	"RedisLock": func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock {
		return relock.NewRedisLock(key, c, opts...)
	},
	"ReentrantLock": func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock {
		return relock.NewReentrantLock(key, c, opts...)
	},
}

// EachKind runs a parallel subtest for each of the kinds, each with a client of
// the shared server.
func EachKind(t *testing.T, test func(t *testing.T, s *redistest.Server, c *relock.Client, newLock NewLock)) {
	t.Helper()
	s := redistest.Shared(t)
	testkit.Each(t, Kinds, func(t *testing.T, _ string, newLock NewLock) { test(t, s, NewTestClient(t, s), newLock) })
}

// Acquirer is a lock whose hold can be acquired.
type Acquirer interface {
	Acquire(ctx context.Context) (relock.Hold, error)
}

// Nothing does nothing.
func Nothing(context.Context) error { return nil }

// ErrMine is an error of the caller's own.
var ErrMine = errors.New("mine")

// Unbounded returns a context that is never cancelled.
func Unbounded(t testing.TB) context.Context { return context.WithoutCancel(t.Context()) }

// Take acquires a lock, as with its Acquire.
func Take(t testing.TB, acquire func(context.Context) (relock.Hold, error)) relock.Hold {
	t.Helper()
	h, err := acquire(t.Context())
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
