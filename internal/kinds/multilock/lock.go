package multilock

import (
	"context"
	"sync/atomic"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/kinds/plain"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// Lock acquires a MultiLock: the locks of several keys, all or none.
type Lock struct {
	acquire.Shared

	keys        []string      // sorted, without duplicates
	whole, part lockspec.Spec // of the group, and of its members
	entrySpec   lockspec.Spec // of the queue entry for one busy key

	// The last call that could wait had to, for keys of several groups. The
	// next one waits in the queue of the first key before it asks for any
	// other: a try for all would take keys from the waiter that has just been
	// handed the first one.
	contended atomic.Bool
}

// New returns a Lock for the keys, which are sorted.
func New(t *acquire.Target, keys []string) *Lock {
	l := &Lock{Shared: acquire.NewShared(t), keys: keys}
	l.whole, l.part = t.Settings.Split()
	l.entrySpec = l.part
	l.entrySpec.MinHold, l.entrySpec.Fencing, l.entrySpec.Replicas = 0, false, 0 // no user holds only one key
	return l
}

// Take acquires the lock. If lasting is true, the hold belongs to the object
// until its release.
func (l *Lock) Take(ctx context.Context, block, lasting bool) (h *lease.Hold, waited bool, err error) {
	if err := l.Ready(ctx); err != nil {
		return nil, false, err
	}
	if block {
		if err := l.checkSelfWait(ctx); err != nil {
			return nil, false, err
		}
	}
	return l.Run(acquire.NewWait(ctx, l.Target, block), lasting, l.compete)
}

// checkSelfWait returns an error if the call would wait for a hold of one of
// its keys that ctx carries.
func (l *Lock) checkSelfWait(ctx context.Context) error {
	for _, key := range l.keys {
		if err := l.CheckSelfWait(l.Manager.Held(ctx, key, lockspec.PlainFamily)); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lock) compete(w *acquire.Wait) (*lease.Hold, error) {
	a := &attempt{lock: l, wait: w}
	defer a.end()
	if !w.Block {
		return w.Acquire(a.try)
	}
	if l.contended.Load() {
		a.split = true // also if the wait ends before the call asks
		a.queueAt(0)
	}
	h, err := w.Acquire(a.try)
	l.contended.Store(a.split && w.Waited())
	return h, err
}

func (l *Lock) redisKeyOf(n int) string { return l.Manager.RedisKey(l.keys[n]) }

// redisKeys returns the keys of some locks in Redis. With fencing, the keys of
// their counters follow.
func (l *Lock) redisKeys(group []int) (all []string) {
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
func (l *Lock) cleanup(n int, value string, d script.Indeterminate) *background.Release {
	return acquire.Cleanup(l.keys[n], plain.Protocol{RedisKey: l.redisKeyOf(n), Value: value}, &l.part, d)
}
