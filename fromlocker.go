package relock

import (
	"context"
	"strconv"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
)

// FromLocker returns the lock with this name of l as a [Mutex], for code that
// uses a Mutex. It works with the Locker of any backend.
//
// Lock waits until it gets the lock or ctx is cancelled, as l does. TryLock
// makes one attempt. Do and TryDo are [Do] and [TryDo] with l and key.
//
// Goroutines may share the Mutex, as they may share a [RedisLock]. It stays
// taken from Lock to the matching Unlock, also if the hold is lost in between.
// Only after that Unlock the next Lock of this Mutex is granted. A Lock that
// waits for it ends with ctx, or on Redis with [Client.Close]. Do and TryDo do
// not take the Mutex, so their calls can be nested.
//
// FromLocker does no I/O. A nil Locker is [ErrInvalid] at the first call.
func FromLocker(l Locker, key string) Mutex { return &lockerMutex{locker: l, key: key} }

type lockerMutex struct {
	locker Locker
	key    string
	object holds.Object[Hold]
}

// Lock waits until it gets the lock or ctx is cancelled.
func (m *lockerMutex) Lock(ctx context.Context) error {
	if m.locker == nil {
		return wrap("lock", m.key, errNilLocker)
	}
	for {
		taken, err := m.acquire(ctx, m.locker.Lock)
		if taken || err != nil {
			return err
		}
		select {
		case <-m.object.Freed():
		case <-ctx.Done():
			return wrap("lock", m.key, errs.EndOf(ctx, ErrLockAcquiredByOthers))
		case <-m.closed():
			return wrap("lock", m.key, ErrClosed)
		}
	}
}

// closed returns a channel that is closed by Close of the client, or nil for
// the Locker of another backend.
func (m *lockerMutex) closed() <-chan struct{} {
	if own, ok := m.locker.(*locker); ok {
		return own.base.target.Manager.Life.Done()
	}
	return nil
}

// TryLock makes one attempt.
func (m *lockerMutex) TryLock(ctx context.Context) error {
	if m.locker == nil {
		return wrap("lock", m.key, errNilLocker)
	}
	taken, err := m.acquire(ctx, m.locker.TryLock)
	if taken || err != nil {
		return err
	}
	return wrap("lock", m.key, ErrLockAcquiredByOthers)
}

// acquire acquires the lock, and takes the Mutex with it. If the Mutex is still
// taken, it releases the lock: the hold there was lost, or the caller is inside
// of a Do.
func (m *lockerMutex) acquire(ctx context.Context, acquire acquireFunc) (taken bool, err error) {
	h, err := acquire(ctx, m.key)
	if err != nil {
		return false, asLockError(m.key, err)
	}
	if m.object.Take(&h) {
		return true, nil
	}
	if own, ok := h.(hold); ok {
		own.level.Unused()
	}
	_ = h.Unlock(ctx) // a failed release is retried by the backend
	return false, nil
}

// Unlock ends what Lock or TryLock acquired.
func (m *lockerMutex) Unlock(ctx context.Context) error {
	if m.locker == nil {
		return wrap("unlock", m.key, errNilLocker)
	}
	h := m.object.Held()
	if !m.object.Free(h) {
		return wrap("unlock", m.key, ErrNotHeld)
	}
	return (*h).Unlock(ctx)
}

// Do runs fn between Lock and Unlock.
func (m *lockerMutex) Do(ctx context.Context, fn func(context.Context) error) error {
	return Do(ctx, m.locker, m.key, fn)
}

// TryDo runs fn between TryLock and Unlock.
func (m *lockerMutex) TryDo(ctx context.Context, fn func(context.Context) error) error {
	return TryDo(ctx, m.locker, m.key, fn)
}

// String returns "lock" and the quoted name.
func (m *lockerMutex) String() string { return "lock " + strconv.Quote(m.key) }
