package relock

import (
	"context"
	"slices"
	"strings"
	"time"
)

// MultiLock locks several keys at once: all of them or none. Each key is held
// as by a [RedisLock], and the two exclude each other. It is neither reentrant
// nor fair.
//
// One attempt is one script, which takes the keys if all are free. A call that
// waits queues for the first key, in alphabetical order, that others hold, and
// for no other. When it is handed that key it tries all again. If another one
// is held it returns the key immediately.
//
// A call that was handed four keys in vain keeps, from then on, the keys that
// sort before the one it waits for. So it also gets in beside callers that lock
// the keys one by one without a pause. Kept keys are no hold: others see them
// as held, for at most half of the lease, and at most 2.5 seconds with the
// default poll interval. Then the call returns them and starts again. A caller
// that holds one of the keys and waits for another is delayed for that long.
// Since all calls keep keys in one order, no two MultiLocks wait for each
// other. If the waits for its keys together take longer than that, a call may
// starve. MultiLocks of the same keys take turns, in no promised order.
//
// A server that refuses keys of several slots together, such as a node of a
// Cluster, is asked for one key after another, in alphabetical order.
//
// The hold is that of all keys: its context ends when any of them is lost, and
// it is valid until the first of them ends. Renewal, Extend and Unlock are for
// each key by itself. Its fencing token is higher than those of all holds of
// any of the keys before it.
//
// It may be shared by goroutines, as a RedisLock may.
type MultiLock struct {
	handle
	shared

	keys        []string // sorted, each once
	whole, part lockSettings
	place       lockSettings // of the one key that a call waits for
}

// commonOptions are what a hold that is made of several can honour.
const commonOptions = optBlock | optBlockTimeout | optPollInterval | optExpiry | optWatchdog | optMaxHold | optMinHold | optLabel | optFencing

const multiOptions = commonOptions | optQueueLimit | optReplicas

// maxKeys limits what one script does.
const maxKeys = 100

// NewMultiLock returns the lock of these names on client: 1 to 100 different ones, in any order. It is cheap, does no I/O
// and needs no closing. Names are 1 to 1024 bytes and do not start with a closing brace.
// A name that is given twice counts once.
//
// By default Lock makes one attempt, and a hold is renewed until Unlock. [WithQueueLimit] is about the one queue that the
// call would wait in. [WithFair] and [WithOwner] are for other kinds.
func NewMultiLock(keys []string, client *Client, opts ...LockOption) *MultiLock {
	l := &MultiLock{keys: slices.Compact(slices.Sorted(slices.Values(keys)))}
	var m mistakes
	m.check(len(l.keys) > 0, "keys: there are none")
	m.check(len(l.keys) <= maxKeys, "keys: more than %d", maxKeys)
	for _, key := range l.keys {
		checkKey(&m, key)
	}
	l.handle = newHandleWith(m, strings.Join(l.keys, ","), client, opts, multiOptions)
	l.settings.kind = kindMulti
	l.whole, l.part = l.settings.split()
	l.place = l.part
	l.place.minHold, l.place.fencing, l.place.replicas = 0, false, 0 // one key alone is never held by the user
	return l
}

// Validate reports all mistakes in the keys and the options, in an error that matches [ErrInvalid].
func (l *MultiLock) Validate() error { return l.validate() }

// Lock takes all keys: in one attempt, or with [WithBlock] as soon as it can, until ctx ends. [ErrLockAcquiredByOthers]
// and [ErrKeyConflict] name the first key that they are about. Its errors are in the table of outcomes of the package's
// documentation.
func (l *MultiLock) Lock(ctx context.Context) error {
	_, err := l.call(ctx, l.settings.block, l.lock)
	return err
}

// TryLock takes all keys in one attempt, also with [WithBlock].
func (l *MultiLock) TryLock(ctx context.Context) error {
	_, err := l.call(ctx, false, l.lock)
	return err
}

// Unlock gives back what Lock or TryLock of this object got. See [Hold] for its errors: [ErrLockLost] when any key was
// lost, else [ErrUnconfirmed] when any release was not confirmed.
func (l *MultiLock) Unlock(ctx context.Context) error {
	if err := l.mistaken(ctx); err != nil {
		return wrap("unlock", l.key, err)
	}
	return wrap("unlock", l.key, l.unlock(l.current()))
}

// Do runs fn while holding all keys. Its context ends with ctx and when the hold is lost, and carries the hold, see
// [HoldFromContext].
//
// If fn was not run, the error is an [*Error] with Op "lock". Else it is fn's own, joined with [ErrLockLost]
// when the hold was lost before the end. A release that is not confirmed is logged. If fn panics, the keys are
// unlocked.
func (l *MultiLock) Do(ctx context.Context, fn func(context.Context) error) error {
	return l.do(ctx, l.settings.block, fn, l.lock, l.unlock)
}

// TryDo is Do with one attempt to get the keys.
func (l *MultiLock) TryDo(ctx context.Context, fn func(context.Context) error) error {
	return l.do(ctx, false, fn, l.lock, l.unlock)
}

// Acquire is Lock for callers that want the [Hold]. It leaves nothing in the object: goroutines that share it
// compete, and it is the hold that is unlocked.
func (l *MultiLock) Acquire(ctx context.Context) (Hold, error) {
	return l.hold(ctx, l.settings.block, l.acquire)
}

// TryAcquire is TryLock for callers that want the [Hold].
func (l *MultiLock) TryAcquire(ctx context.Context) (Hold, error) {
	return l.hold(ctx, false, l.acquire)
}

func (l *MultiLock) lock(ctx context.Context, block bool) (*level, error) {
	w, err := l.wait(ctx, block)
	if err != nil {
		return nil, err
	}
	defer w.cancel()
	return l.lockBy(w, l.compete)
}

func (l *MultiLock) acquire(ctx context.Context, block bool) (*level, error) {
	w, err := l.wait(ctx, block)
	if err != nil {
		return nil, err
	}
	defer w.cancel()
	return l.compete(w)
}

// wait begins a call, unless it cannot begin or would wait for itself.
func (l *MultiLock) wait(ctx context.Context, block bool) (*wait, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	for _, key := range l.keys {
		if block && l.waitsForItself(l.client.held(ctx, key, plainKind)) {
			return nil, errSelfWait
		}
	}
	return l.client.newWait(ctx, &l.settings, block), nil
}

func (l *MultiLock) compete(w *wait) (*level, error) {
	a := &multiAttempt{lock: l, wait: w}
	defer a.end()
	return w.acquire(a.try)
}

// redisKeyOf is where the n-th lock is in Redis.
func (l *MultiLock) redisKeyOf(n int) string { return l.client.redisKey(l.keys[n]) }

// redisKeys are all of them, with fencing those of their counters too.
func (l *MultiLock) redisKeys() (all []string) {
	for n := range l.keys {
		all = append(all, l.redisKeyOf(n))
	}
	if l.part.fencing {
		for n := range l.keys {
			all = append(all, all[n]+endOfCounter)
		}
	}
	return all
}

// cleanup ends what a request may have made of the n-th key.
func (l *MultiLock) cleanup(n int, value string, d doubt) *cleanup {
	release := plainProtocol{l.redisKeyOf(n), value, false}.release(0, 0, 0)
	return newCleanup(l.keys[n], l.part.asked(), l.part.lease, d, func(time.Time) scripted { return release })
}
