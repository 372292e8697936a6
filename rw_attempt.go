package relock

import (
	"context"
	"slices"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/script"
)

// acquire is the call of one who reads or writes, by the settings.
func (l *RWLock) acquire(ctx context.Context, s *lockSettings, block bool) (*level, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	id, err := l.ownerID(ctx, rwKind)
	if err != nil {
		return nil, err
	}
	w := l.client.newWait(ctx, s, block)
	defer w.cancel()
	o := l.client.enter(ownerOf{l.key, id, rwKind})
	defer l.client.exit(o)
	line := l.client.queue.enter(l.key, l.redisKey())
	defer line.exit()
	a := &rwAttempt{lock: l, wait: w, owner: o}
	kind := byte(sharedWait)
	if s.write {
		kind = writeWait
	}
	a.queued = newQueued(line, kind, s, !block, a.body)
	w.queued = a.queued
	o.join(w)
	defer o.part(w)
	defer a.queued.leave()
	return w.acquire(a.try)
}

// rwAttempt is the wait of one call for a read/write lock.
type rwAttempt struct {
	lock   *RWLock
	wait   *wait
	owner  *owner
	queued *queued
}

// try makes one attempt in the owner's turn: the first level, or one more of the lease that the owner has.
func (a *rwAttempt) try(ctx context.Context) (*level, error) {
	if !a.owner.turn.takeUntil(ctx) {
		return nil, driver.ErrAbandoned
	}
	defer a.owner.turn.give()
	if l := a.owner.lease; l != nil {
		return a.reenter(ctx, l)
	}
	return a.first(ctx)
}

// body is what the lock stores under a hold.
func (a *rwAttempt) body(string) (owner, info string) {
	return a.owner.key.id, a.lock.client.identity.rwInfo(a.wait.settings.label)
}

// first asks for a hold, in the queue's order.
func (a *rwAttempt) first(ctx context.Context) (*level, error) {
	sent, err := a.queued.attempt(ctx)
	if err != nil {
		return nil, err
	}
	g := a.queued.granted()
	p := rwProtocol{redisKey: a.lock.redisKey(), hold: g.hold}
	l := newLease(a.lock.client, a.lock.key, p, sent, a.wait.settings, g.doubt)
	l.undo, l.tokens = g.undo, g.tokens
	return a.wait.beginFor(a.owner, l, sent)
}

// reenter goes one level deeper, without queueing. When it cannot know whether the server did, the levels are put right
// in the background.
func (a *rwAttempt) reenter(ctx context.Context, l *lease) (*level, error) {
	c, s := a.lock.client, a.wait.settings
	if err := l.allows(s); err != nil {
		return nil, err
	}
	deeper, err := a.deeper(l)
	if err != nil {
		return nil, err
	}
	o, d := l.ask(ctx, s, deeper)
	switch {
	case o.Err != nil:
		if d.Exists() { // also for want of replicas: else one who reads could keep others out like one who writes
			c.retrier.Retry(l.cleanup(script.Indeterminate{}))
		}
		return nil, o.Err
	case o.Reply == int64(script.Shared):
		return nil, ErrUpgrade
	case o.Reply != int64(script.Ours):
		return nil, l.refused()
	}
	if err := l.believe(o.Sent, s.lease); err != nil {
		return nil, lostLevel(err)
	}
	return l.push(a.wait.caller, o.Sent, s)
}

// deeper is the request for one level more. It fails when the hold has ended meanwhile.
func (a *rwAttempt) deeper(l *lease) (script.Call, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return script.Call{}, lostLevel(l.over)
	}
	l.seq++
	l.length = max(l.length, a.wait.settings.asked()) // whether it is answered or not
	writes := int(l.writes)
	reads := l.live - writes
	if a.wait.settings.write {
		writes++
	} else {
		reads++
	}
	return l.protocol.(rwProtocol).enter(reads, writes, l.seq, a.wait.settings.asked()), nil
}

// newestThat picks the newest level that writes, or that reads; nil when there is none.
func newestThat(write bool) func(*lease) *level {
	return func(l *lease) *level {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, h := range slices.Backward(l.levels) {
			if h.settings.write == write {
				return h
			}
		}
		return nil
	}
}
