package locktest

import (
	"context"
	"errors"
	"testing"

	"github.com/relock-go/relock"
)

// AnyLock is what every kind of lock has.
type AnyLock interface {
	relock.Mutex
	Acquire(context.Context) (relock.Hold, error)
	TryAcquire(context.Context) (relock.Hold, error)
	Validate() error
}

// Kinds returns the kinds of locks with one holder, for tests of what they
// share.
var Kinds = map[string]func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock{
	"RedisLock": func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock {
		return relock.NewRedisLock(key, c, opts...)
	},
	"ReentrantLock": func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock {
		return relock.NewReentrantLock(key, c, opts...)
	},
}

// Acquirer is a lock whose hold can be acquired.
type Acquirer interface {
	Acquire(ctx context.Context) (relock.Hold, error)
}

// NoWork does nothing.
func NoWork(context.Context) error { return nil }

// Nothing does nothing.
func Nothing(context.Context) error { return nil }

// ErrMine is an error of the caller's own.
var ErrMine = errors.New("mine")

// Unbounded returns a context that is never cancelled.
func Unbounded(t testing.TB) context.Context { return context.WithoutCancel(t.Context()) }
