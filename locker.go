package relock

import (
	"context"

	"github.com/relock-go/relock/internal/lockspec"
)

// Locker gives locks by name, the same way for every backend: [NewLocker] makes one for Redis, package etcdlock one
// for etcd. Code that takes a Locker does not need to know which of them it uses, as long as it does not lock a name
// again under its own hold's context: on etcd that is one level more, in Redis a Lock is [ErrInvalid] and a TryLock
// [ErrLockAcquiredByOthers]. See [Do] for the usual way to use it.
type Locker interface {
	// Lock waits until it gets the lock or ctx ends. It ends sooner with what waiting does not mend, see [IsRetryableErr],
	// and where no more may wait ([WithQueueLimit]).
	Lock(ctx context.Context, key string) (Hold, error)
	// TryLock makes one attempt; the error matches [ErrLockAcquiredByOthers] when somebody else has the lock.
	TryLock(ctx context.Context, key string) (Hold, error)
}

// NewLocker returns a Locker whose locks are those of [NewRedisLock] with these options: not reentrant, unfair unless
// [WithFair] is given. It does no I/O and needs no closing. Mistakes in the options, [WithBlockTimeout] among them, are
// an error that matches [ErrInvalid].
func NewLocker(client *Client, opts ...LockOption) (Locker, error) {
	l := &locker{newBase("any", client, opts, lockspec.Locker)}
	if m, ok := l.base.how.(invalid); ok {
		return nil, wrap("new locker", "", m.why)
	}
	return l, nil
}

// locker makes a plain lock for each call, from options that are settled once.
type locker struct{ base base }

func (l *locker) Lock(ctx context.Context, key string) (Hold, error) { return l.take(ctx, key, true) }

func (l *locker) TryLock(ctx context.Context, key string) (Hold, error) {
	return l.take(ctx, key, false)
}

func (l *locker) take(ctx context.Context, key string, block bool) (Hold, error) {
	var m lockspec.Problems
	lockspec.CheckKey(&m, key)
	b := l.base
	b.target.Key = key
	if err := m.Err(); err != nil {
		b.how = invalid{err}
	}
	return newRedisLock(b).hold(ctx, block)
}

// String says what it is without the name that it was checked with.
func (l *locker) String() string { return "locker of redis" }
