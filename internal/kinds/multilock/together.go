package multilock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/kinds/plain"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// all returns the numbers of all keys.
func (l *Lock) all() []int {
	numbers := make([]int, len(l.keys))
	for n := range numbers {
		numbers[n] = n
	}
	return numbers
}

// groups returns the keys in groups that one script can take: those of one tag
// on a Cluster, else those of one server. A server takes keys of other servers,
// too, unless they form a Cluster.
func (l *Lock) groups(ctx context.Context) ([][]int, error) {
	d := l.Manager.Driver
	if _, one := d.(driver.Node); one {
		return [][]int{l.all()}, nil
	}
	if s, routed := d.(interface{ Sharded() bool }); routed && s.Sharded() {
		return groupBy(l, func(key string) (string, error) { return driver.TagOf(key), nil })
	}
	return groupBy(l, func(key string) (driver.Node, error) { return d.Home(ctx, key) })
}

// groupBy returns the keys in groups that have the same place. The groups and
// their keys are in order.
func groupBy[P comparable](l *Lock, placeOf func(redisKey string) (P, error)) (groups [][]int, err error) {
	at := make(map[P]int, len(l.keys))
	for n := range l.keys {
		place, err := placeOf(l.redisKeyOf(n))
		if err != nil {
			return nil, err
		}
		i, known := at[place]
		if !known {
			i = len(groups)
			at[place] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], n)
	}
	return groups, nil
}

// mayAskAtOnce reports whether a try asks for all groups together. The first
// try of a call does, and each try that was handed a key, until the call keeps
// keys: what such a try takes in vain is released before the call waits. A
// request that waits for replicas occupies a connection of the pool, so one
// comes after another then.
func (a *attempt) mayAskAtOnce(keep time.Duration) bool {
	return (a.first == "" || a.got != nil) && keep == 0 && a.lock.part.Replicas == 0
}

// parallel requests all groups together. If one is refused, the keys of the
// others are taken, and are to be released.
func (a *attempt) parallel(ctx context.Context, groups [][]int, value string, t *tried) {
	calls := make([]script.Call, len(groups))
	for i, group := range groups {
		if len(group) == 1 {
			_, calls[i] = a.acquireOne(group[0], value, 0)
		} else {
			calls[i] = a.acquire(group, value, 0)
		}
	}
	a.first = value
	results, left := a.lock.Manager.AskAll(ctx, &a.lock.part, calls)
	t.busy = len(a.lock.keys)
	for i, group := range groups {
		busy, err := a.readGroup(ctx, group, results[i], left[i], value, t)
		if err != nil && busy < t.busy {
			t.busy, t.err = busy, err
		}
	}
	if t.err == nil {
		t.busy, t.err = 0, a.raise(ctx, t)
	}
}

// readGroup reads the answer for a group. It returns the key that the error is
// about.
func (a *attempt) readGroup(
	ctx context.Context, group []int, o driver.Result, d script.Indeterminate, value string, t *tried,
) (busy int, err error) {
	switch {
	case len(group) == 1:
		busy, err = group[0], a.readOne(group[0], o, d, t)
		t.resolved = t.resolved || err == nil && busy == a.at
	case driver.IsCrossSlot(o.Err): // nothing was executed
		a.lock.Manager.OneByOne.Store(true)
		got, err := a.askInOrder(ctx, group, value, 0, t)
		return group[min(got, len(group)-1)], err
	default:
		r := a.read(group, o, d, t)
		a.noteHanded(group, r, t)
		busy, err = r.busy, r.err
	}
	for _, n := range group {
		t.taken[n] = err == nil
	}
	return busy, err
}

// hasCollided reports whether the first try of a call that does not wait got
// some keys, and was refused others. Another call may have asked at the same
// moment, and may have got those.
func (a *attempt) hasCollided(value string, t *tried) bool {
	return value == a.first && !a.wait.Block && errors.Is(t.err, errs.ErrLockAcquiredByOthers) &&
		slices.Contains(t.taken, true)
}

// releaseTaken releases the keys that a try took in vain, and waits for that:
// the next try asks for them in order, and so may other calls. What is not
// confirmed is left to the retrier.
func (a *attempt) releaseTaken(ctx context.Context, value string, t *tried) {
	l := a.lock
	var at []int
	var calls []script.Call
	for n, taken := range t.taken {
		if taken {
			at = append(at, n)
			p := plain.Protocol{RedisKey: l.redisKeyOf(n), Value: value}
			calls = append(calls, p.Release(lease.Levels{}, 0, 0))
		}
	}
	results, _ := l.Manager.AskAll(ctx, &l.part, calls)
	for i, n := range at {
		t.taken[n] = results[i].Err != nil
		if script.MayGoOn(results[i].Reply) {
			l.Manager.Retrier.PassOn(calls[i])
		}
	}
}
