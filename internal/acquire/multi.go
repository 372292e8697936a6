package acquire

import (
	"context"
	"sync/atomic"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// Multi acquires the lock of several keys.
type Multi struct {
	*Target
	shared

	keys        []string      // sorted, without duplicates
	whole, part lockspec.Spec // of the group, and of its members
	entrySpec   lockspec.Spec // of the queue entry for one busy key

	// The last call that could wait had to, for keys of several groups. The
	// next one waits in the queue of the first key before it asks for any
	// other: a try for all would take keys from the waiter that has just been
	// handed the first one.
	contended atomic.Bool
}

// NewMulti returns a Multi for the keys, which are sorted.
func NewMulti(t *Target, keys []string) *Multi {
	l := &Multi{Target: t, keys: keys}
	l.whole, l.part = t.Settings.Split()
	l.entrySpec = l.part
	l.entrySpec.MinHold, l.entrySpec.Fencing, l.entrySpec.Replicas = 0, false, 0 // no user holds only one key
	return l
}

// Take acquires the lock. If lasting is true, the hold belongs to the object
// until its release.
func (l *Multi) Take(ctx context.Context, block, lasting bool) (h *lease.Hold, waited bool, err error) {
	if err := l.ready(ctx); err != nil {
		return nil, false, err
	}
	for _, key := range l.keys {
		if block && l.waitsForItself(l.Manager.Held(ctx, key, lockspec.PlainFamily)) {
			return nil, false, l.errSelfWait()
		}
	}
	return l.takeBy(newWait(ctx, l.Manager.Life, l.Target, block), lasting, l.compete)
}

func (l *Multi) compete(w *wait) (*lease.Hold, error) {
	a := &multiAttempt{lock: l, wait: w}
	defer a.end()
	if !w.block {
		return w.acquire(a.try)
	}
	if l.contended.Load() {
		a.split = true // also if the wait ends before the call asks
		a.queueAt(0)
	}
	h, err := w.acquire(a.try)
	l.contended.Store(a.split && w.waited())
	return h, err
}

func (l *Multi) redisKeyOf(n int) string { return l.Manager.RedisKey(l.keys[n]) }

// redisKeys returns the keys of some locks in Redis. With fencing, the keys of
// their counters follow.
func (l *Multi) redisKeys(group []int) (all []string) {
	for _, n := range group {
		all = append(all, l.redisKeyOf(n))
	}
	if l.part.Fencing {
		for _, key := range all[:len(group)] {
			all = append(all, key+script.CounterSuffix)
		}
	}
	return all
}

// cleanup returns a release of the n-th key, which a request may have taken
// under the value.
func (l *Multi) cleanup(n int, value string, d script.Indeterminate) *background.Release {
	return cleanup(l.keys[n], plainProtocol{l.redisKeyOf(n), value}, &l.part, d)
}
