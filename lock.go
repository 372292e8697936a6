package relock

import (
	"context"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lockspec"
)

// Mutex has the methods that all kinds of lock share. The kind's Validate, or
// otherwise the first call, reports all mistakes in the key and the options in
// one error.
type Mutex interface {
	// Lock makes one attempt. With [WithBlock], and for [FromLocker], it waits
	// until it gets the lock or ctx is cancelled.
	Lock(ctx context.Context) error
	// TryLock makes one attempt.
	TryLock(ctx context.Context) error
	// Unlock ends what Lock or TryLock acquired, whatever it returns, except
	// for [ErrInvalid].
	Unlock(ctx context.Context) error
	// Do runs fn between Lock and Unlock.
	Do(ctx context.Context, fn func(context.Context) error) error
	// TryDo runs fn between TryLock and Unlock.
	TryDo(ctx context.Context, fn func(context.Context) error) error
}

var (
	_ Mutex = (*RedisLock)(nil)
	_ Mutex = (*ReentrantLock)(nil)
	_ Mutex = (*MultiLock)(nil)
	_ Mutex = (*RedLock)(nil)
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
	plain acquire.Plain
}

// NewRedisLock returns the lock with this name on client. It is cheap, does no
// I/O and needs no closing. Names are 1 to 1024 bytes, and do not start with a
// closing brace.
//
// By default Lock makes one attempt, and a hold is renewed until Unlock.
func NewRedisLock(key string, client *Client, opts ...LockOption) *RedisLock {
	return newRedisLock(newBase(key, client, opts, lockspec.Plain))
}

func newRedisLock(b base) *RedisLock {
	l := &RedisLock{base: b}
	l.plain = acquire.NewPlain(&l.target)
	l.use(&l.plain)
	return l
}
