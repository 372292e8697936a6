package relock

import (
	"context"
	"fmt"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/waitqueue"
)

// Mutex is what all kinds of lock can do. Mistakes in the key and the options are reported by the kind's
// Validate, else by the first call, all at once.
type Mutex interface {
	// Lock makes one attempt; with [WithBlock] it waits until it gets the lock or ctx ends.
	Lock(ctx context.Context) error
	// TryLock makes one attempt.
	TryLock(ctx context.Context) error
	// Unlock ends what Lock or TryLock got, whatever it returns but [ErrInvalid].
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

// RedisLock is a lock that is not reentrant: one string in Redis, taken with SET NX PX.
//
// It may be shared by goroutines like a [sync.Mutex]: it stays taken for them from Lock to the matching
// Unlock, also when the hold is lost in between. Then that Unlock returns [ErrLockLost], and only after it
// the next Lock of this object is granted. Unlock without a matching Lock is a mistake that may end the hold
// of another goroutine; [Hold] and Do cannot make it.
type RedisLock struct {
	base
	shared
}

// NewRedisLock returns the lock of this name on client. It is cheap, does no I/O and needs no closing. Names
// are 1 to 1024 bytes and do not start with a closing brace.
//
// By default Lock makes one attempt, and a hold is renewed until Unlock.
func NewRedisLock(key string, client *Client, opts ...LockOption) *RedisLock {
	return newRedisLock(newHandle(key, client, opts, lockspec.Plain))
}

func newRedisLock(h handle) *RedisLock {
	l := &RedisLock{base: base{handle: h}}
	l.how = l
	return l
}

func (l *RedisLock) take(ctx context.Context, block, lasting bool) (*lease.Hold, error) {
	w, err := l.wait(ctx, block)
	if err != nil {
		return nil, err
	}
	return l.takeBy(w, lasting, l.compete)
}

// wait begins a call, unless it cannot begin or would wait for itself.
func (l *RedisLock) wait(ctx context.Context, block bool) (*wait, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	if block && l.waitsForItself(l.client.engine.Held(ctx, l.key, lockspec.PlainFamily)) {
		return nil, errSelfWait
	}
	return newWait(ctx, l.client.engine.Life, &l.settings, block), nil
}

var errSelfWait = fmt.Errorf("%w: context: carries the hold that Lock would wait for; use a ReentrantLock", ErrInvalid)

func (l *RedisLock) compete(w *wait) (*lease.Hold, error) {
	a := &plainAttempt{client: l.client, key: l.key, redisKey: l.redisKey(), settings: &l.settings, caller: w.Caller}
	defer a.finish()
	if !w.block && !l.settings.Fair {
		return w.acquire(a.try)
	}
	if a.mayHurry() && !l.client.engine.Queue.Uses(a.redisKey) {
		if h, done, err := a.hurry(w); done {
			return h, err
		}
	}
	line := l.client.engine.Queue.Enter(l.key, a.redisKey)
	defer line.Exit()
	if !l.settings.Fair {
		return w.sitForValid(line, a)
	}
	a.queued = waitqueue.NewEntry(line, &l.settings, !w.block, a.body)
	defer a.queued.Leave()
	w.queued = a.queued
	return w.acquire(a.try)
}
