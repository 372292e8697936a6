package relock

import (
	"context"
	"strconv"
	"sync"

	"github.com/relock-go/relock/internal/errs"
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

	mu   sync.Mutex
	held Hold // from Lock to the matching Unlock; else nil
	// freed is closed by that Unlock, for calls that got the lock and found a
	// hold here; nil if there are none.
	freed chan struct{}
}

// Lock waits until it gets the lock or ctx is cancelled.
func (m *lockerMutex) Lock(ctx context.Context) error {
	if m.locker == nil {
		return wrap("lock", m.key, errNilLocker)
	}
	for {
		freed, err := m.acquire(ctx, m.locker.Lock)
		if freed == nil {
			return err
		}
		select {
		case <-freed:
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
	_, err := m.acquire(ctx, m.locker.TryLock)
	return err
}

// acquire takes the lock, and the Mutex with it. If the Mutex is still taken,
// it returns a channel that is closed by the Unlock. Then the hold there was
// lost, or the caller is inside of a Do.
func (m *lockerMutex) acquire(ctx context.Context, acquire acquireFunc) (freed <-chan struct{}, err error) {
	h, err := acquire(ctx, m.key)
	if err != nil {
		return nil, asLockError(m.key, err)
	}
	if freed = m.take(h); freed == nil {
		return nil, nil
	}
	if own, ok := h.(hold); ok {
		own.level.Unused()
	}
	_ = h.Unlock(ctx) // a failed release is retried by the backend
	return freed, wrap("lock", m.key, ErrLockAcquiredByOthers)
}

// take makes h the hold of the Mutex, unless the Mutex is taken.
func (m *lockerMutex) take(h Hold) (freed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil {
		m.held = h
		return nil
	}
	if m.freed == nil {
		m.freed = make(chan struct{})
	}
	return m.freed
}

// Unlock ends what Lock or TryLock acquired.
func (m *lockerMutex) Unlock(ctx context.Context) error {
	if m.locker == nil {
		return wrap("unlock", m.key, errNilLocker)
	}
	h := m.leave()
	if h == nil {
		return wrap("unlock", m.key, ErrNotHeld)
	}
	return h.Unlock(ctx)
}

// leave frees the Mutex, and returns its hold, or nil if it is not taken.
func (m *lockerMutex) leave() Hold {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.held
	m.held = nil
	if m.freed != nil {
		close(m.freed)
		m.freed = nil
	}
	return h
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
