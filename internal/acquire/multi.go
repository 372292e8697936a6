package acquire

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// Multi is how the lock of several keys is acquired.
type Multi struct {
	*Target
	shared

	keys        []string // sorted, each once
	whole, part lockspec.Spec
	place       lockspec.Spec // of the one key that a call waits for
}

// NewMulti returns how the lock of the keys is acquired, which are sorted.
func NewMulti(t *Target, keys []string) *Multi {
	l := &Multi{Target: t, keys: keys}
	l.whole, l.part = t.Settings.Split()
	l.place = l.part
	l.place.MinHold, l.place.Fencing, l.place.Replicas = 0, false, 0 // one key alone is never held by the user
	return l
}

// Take acquires the lock. If it is lasting the hold is the object's.
func (l *Multi) Take(ctx context.Context, block, lasting bool) (*lease.Hold, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	for _, key := range l.keys {
		if block && l.waitsForItself(l.Manager.Held(ctx, key, lockspec.PlainFamily)) {
			return nil, errSelfWait
		}
	}
	return l.takeBy(newWait(ctx, l.Manager.Life, &l.Settings, block), lasting, l.compete)
}

func (l *Multi) compete(w *wait) (*lease.Hold, error) {
	a := &multiAttempt{lock: l, wait: w}
	defer a.end()
	return w.acquire(a.try)
}

// redisKeyOf is where the n-th lock is in Redis.
func (l *Multi) redisKeyOf(n int) string { return l.Manager.RedisKey(l.keys[n]) }

// redisKeys are all of them, with fencing those of their counters too.
func (l *Multi) redisKeys() (all []string) {
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
func (l *Multi) cleanup(n int, value string, d script.Indeterminate) *background.Release {
	release := plainProtocol{l.redisKeyOf(n), value, false}.Release(lease.Levels{}, 0, 0)
	return background.NewRelease(l.keys[n], l.part.Expiry(), l.part.Lease, d, func(time.Time) script.Call { return release })
}
