package locktest

import (
	"context"
	"reflect"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
)

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
