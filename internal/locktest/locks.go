package locktest

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
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
		"RedisLock": func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock {
			return relock.NewRedisLock(key, c, opts...)
		},
		"ReentrantLock": func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock {
			return relock.NewReentrantLock(key, c, opts...)
		},
	}
	AllKinds = map[string]NewLock{
		"RedisLock": Kinds["RedisLock"], "ReentrantLock": Kinds["ReentrantLock"],
		"RWLock": func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock {
			return relock.NewRWLock(key, c, opts...)
		},
		"RWLock, reading": func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock {
			return relock.NewRWLock(key, c, opts...).RLocker().(AnyLock)
		},
		"MultiLock": func(key string, c *relock.Client, opts ...relock.LockOption) AnyLock {
			return relock.NewMultiLock([]string{key, OtherKey}, c, opts...)
		},
	}
)

// OtherKey is the second key of a MultiLock of [AllKinds].
const OtherKey = "other"

// Nothing does nothing.
func Nothing(context.Context) error { return nil }

// ErrMine is an error of the caller's own.
var ErrMine = errors.New("mine")

// Unbounded returns a context that is never cancelled.
func Unbounded(t testing.TB) context.Context { return context.WithoutCancel(t.Context()) }

// Owned makes all calls of a reentrant or read/write lock those of the owner
// id, whichever goroutine makes them. Another lock stays as it is.
func Owned[L any](id string, l L) L {
	switch any(l).(type) {
	case *relock.ReentrantLock, *relock.RWLock:
	default:
		return l
	}
	v := reflect.ValueOf(l).Elem()
	own(v.FieldByName("how"), id)
	if reading := v.FieldByName("reading"); reading.IsValid() {
		own(reading.FieldByName("how"), id)
	}
	return l
}

// own replaces what a lock calls in an unexported field.
func own(field reflect.Value, id string) {
	how := reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem()
	how.Set(reflect.ValueOf(asOwner{how.Interface().(locking), id}))
}

// locking has the methods of a lock's engine.
type locking interface {
	Take(ctx context.Context, block, lasting bool) (*lease.Hold, error)
	Release(ctx context.Context) error
	Unlock(h *lease.Hold) error
}

type asOwner struct {
	locking
	id string
}

func (o asOwner) Take(ctx context.Context, block, lasting bool) (*lease.Hold, error) {
	return o.locking.Take(relock.ContextWithOwner(ctx, o.id), block, lasting)
}

func (o asOwner) Release(ctx context.Context) error {
	return o.locking.Release(relock.ContextWithOwner(ctx, o.id))
}

// As returns the context of an owner.
func As(t testing.TB, name string) context.Context { return relock.ContextWithOwner(t.Context(), name) }
