package relock

import (
	"context"
	"slices"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/waitqueue"
)

// acquire is the call of one who reads or writes, by the settings.
func (l *RWLock) acquire(ctx context.Context, s *lockspec.Spec, block bool) (*level, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	id, err := l.ownerID(ctx, lockspec.RWFamily)
	if err != nil {
		return nil, err
	}
	w := newWait(ctx, l.client.life, s, block)
	defer w.cancel()
	o := l.client.enter(ownerOf{l.key, id, lockspec.RWFamily})
	defer l.client.exit(o)
	line := l.client.queue.Enter(l.key, l.redisKey())
	defer line.Exit()
	a := &rwAttempt{lock: l, wait: w, owner: o}
	a.queued = waitqueue.NewEntry(line, s, !block, a.body)
	w.queued = a.queued
	o.join(&w.Call)
	defer o.part(&w.Call)
	defer a.queued.Leave()
	return w.acquire(a.try)
}

// rwAttempt is the wait of one call for a read/write lock.
type rwAttempt struct {
	lock   *RWLock
	wait   *wait
	owner  *owner
	queued *waitqueue.Entry
}

// try makes one attempt in the owner's turn: the first level, or one more of the lease that the owner has.
func (a *rwAttempt) try(ctx context.Context) (*level, error) {
	if !a.owner.turn.takeUntil(ctx) {
		return nil, driver.ErrAbandoned
	}
	defer a.owner.turn.give()
	if l := a.owner.lease; l != nil {
		return l.reenter(ctx, &a.wait.Call)
	}
	return a.first(ctx)
}

// body is what the lock stores under a hold.
func (a *rwAttempt) body(string) (owner, info string) {
	return a.owner.key.id, a.lock.client.identity.RWInfo(a.wait.Settings.Label)
}

// first asks for a hold, in the queue's order.
func (a *rwAttempt) first(ctx context.Context) (*level, error) {
	sent, err := a.queued.Attempt(ctx)
	if err != nil {
		return nil, err
	}
	g := a.queued.Granted()
	p := rwProtocol{redisKey: a.lock.redisKey(), hold: g.Hold}
	l := newLease(a.lock.client.manager, a.lock.key, p, sent, a.wait.Settings, g.Doubt)
	l.undo, l.tokens = g.Undo, g.Tokens
	return a.owner.begin(&a.wait.Call, l, sent)
}

// newestThat picks the newest level that writes, or that reads; nil when there is none.
func newestThat(write bool) func(*lease) *level {
	return func(l *lease) *level {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, h := range slices.Backward(l.levels) {
			if h.settings.Kind.Writes == write {
				return h
			}
		}
		return nil
	}
}
