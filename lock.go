package relock

import (
	"context"

	"github.com/relock-go/relock/internal/kinds/plain"
	"github.com/relock-go/relock/internal/lockspec"
)

// Mutex has the methods that all kinds of lock but [Semaphore] share. The
// kind's Validate, or otherwise the first call, reports all mistakes in the key
// and the options in one error.
type Mutex interface {
	// Lock makes one attempt. With [WithBlock], and for [FromLocker], it waits
	// until it gets the lock or ctx is cancelled. A Mutex does not show which:
	// a function that must wait takes a [Locker] instead. It returns no
	// context, so Unlock is what shows a later loss. That of Do is cancelled in
	// time.
	Lock(ctx context.Context) error
	// TryLock makes one attempt.
	TryLock(ctx context.Context) error
	// Unlock ends what Lock or TryLock acquired, as [RedisLock.Unlock] does.
	Unlock(ctx context.Context) error
	// Do runs fn between Lock and Unlock, as [RedisLock.Do] does.
	Do(ctx context.Context, fn func(context.Context) error) error
	// TryDo runs fn between TryLock and Unlock.
	TryDo(ctx context.Context, fn func(context.Context) error) error
}

var (
	_ Mutex = (*RedisLock)(nil)
	_ Mutex = (*ReentrantLock)(nil)
	_ Mutex = (*MultiLock)(nil)
	_ Mutex = (*RWLock)(nil)
)

// RedisLock is a lock that is not reentrant. It is one string in Redis, set
// with SET NX PX.
//
// Goroutines may share it like a [sync.Mutex]. For them it stays taken from
// Lock to the matching Unlock, also if the hold is lost in between. Then that
// Unlock returns [ErrLockLost]. Only after it the next Lock of this object is
// granted. An Unlock without a matching Lock is a mistake that may end the hold
// of another goroutine. [Hold] and Do cannot make this mistake.
type RedisLock struct {
	base
	plain plain.Lock
}

// NewRedisLock returns the lock with this name on client. It is cheap, does no
// I/O and needs no closing. Names are 1 to 1024 bytes, and do not start with a
// closing brace.
//
// By default Lock makes one attempt, and a hold is renewed until Unlock.
func NewRedisLock(key string, client *Client, opts ...LockOption) *RedisLock {
	return newRedisLock(newBase(key, client, opts, lockspec.Plain))
}

// Do acquires the lock as Lock does: in one attempt, unless [WithBlock] is
// given. It then runs fn, and unlocks. The context of fn is cancelled with ctx,
// and when the hold is lost. It carries the hold, see [HoldFromContext].
//
// If fn was not run, the error is an [*Error] with Op "lock", and [NotRun]
// reports it. Otherwise it is fn's own error. If the hold was lost before the
// end, that is joined with [ErrLockLost], unless fn's error matches it already.
// A release that is not confirmed is shown by [WithLogger] and [WithObserver]
// only. If fn panics, the lock is unlocked.
func (l *RedisLock) Do(ctx context.Context, fn func(context.Context) error) error {
	return l.base.Do(ctx, fn)
}

// Acquire is Lock for callers that want the [Hold]. Unlock the hold, not the
// lock: the hold is not stored in the object, and goroutines that share the
// object compete for it. ctx ends only the wait, while that of Do ends the work
// too. The hold goes on until its Unlock, also when ctx is cancelled.
func (l *RedisLock) Acquire(ctx context.Context) (Hold, error) { return l.base.Acquire(ctx) }

// Unlock releases what Lock or TryLock of this object acquired. It ends the
// hold, whatever it returns, except for [ErrInvalid]. It works even if ctx is
// cancelled. The package documentation lists its errors under Outcomes.
func (l *RedisLock) Unlock(ctx context.Context) error { return l.base.Unlock(ctx) }

func newRedisLock(b base) *RedisLock {
	l := &RedisLock{base: b}
	l.plain = plain.New(&l.target)
	l.use(&l.plain)
	return l
}
