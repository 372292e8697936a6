package relock

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
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
// [ErrLockAcquiredByOthers] and [ErrKeyConflict] name the first key that they
// are about. Unlock returns [ErrLockLost] if any key was lost, otherwise
// [ErrUnconfirmed] if any release was not confirmed.
//
// It may be shared by goroutines, as a RedisLock may.
type MultiLock struct {
	base
	shared

	keys        []string // sorted, each once
	whole, part lockspec.Spec
	place       lockspec.Spec // of the one key that a call waits for
}

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
	var m lockspec.Problems
	m.Check(len(l.keys) > 0, "keys: there are none")
	m.Check(len(l.keys) <= maxKeys, "keys: more than %d", maxKeys)
	for _, key := range l.keys {
		lockspec.CheckKey(&m, key)
	}
	l.handle = newHandleWith(m, strings.Join(l.keys, ","), client, opts, lockspec.Multi)
	l.how = l
	l.whole, l.part = l.settings.Split()
	l.place = l.part
	l.place.MinHold, l.place.Fencing, l.place.Replicas = 0, false, 0 // one key alone is never held by the user
	return l
}

func (l *MultiLock) take(ctx context.Context, block, lasting bool) (*lease.Hold, error) {
	w, err := l.wait(ctx, block)
	if err != nil {
		return nil, err
	}
	return l.takeBy(w, lasting, l.compete)
}

// wait begins a call, unless it cannot begin or would wait for itself.
func (l *MultiLock) wait(ctx context.Context, block bool) (*wait, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	for _, key := range l.keys {
		if block && l.waitsForItself(l.client.engine.Held(ctx, key, lockspec.PlainFamily)) {
			return nil, errSelfWait
		}
	}
	return newWait(ctx, l.client.engine.Life, &l.settings, block), nil
}

func (l *MultiLock) compete(w *wait) (*lease.Hold, error) {
	a := &multiAttempt{lock: l, wait: w}
	defer a.end()
	return w.acquire(a.try)
}

// redisKeyOf is where the n-th lock is in Redis.
func (l *MultiLock) redisKeyOf(n int) string { return l.client.engine.RedisKey(l.keys[n]) }

// redisKeys are all of them, with fencing those of their counters too.
func (l *MultiLock) redisKeys() (all []string) {
	for n := range l.keys {
		all = append(all, l.redisKeyOf(n))
	}
	if l.part.Fencing {
		for n := range l.keys {
			all = append(all, all[n]+script.CounterSuffix)
		}
	}
	return all
}

// cleanup ends what a request may have made of the n-th key.
func (l *MultiLock) cleanup(n int, value string, d script.Indeterminate) *background.Release {
	release := plainProtocol{l.redisKeyOf(n), value, false}.Release(lease.Levels{}, 0, 0)
	return background.NewRelease(l.keys[n], l.part.Expiry(), l.part.Lease, d, func(time.Time) script.Call { return release })
}
