package relock

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/utils"
)

// ReentrantLock is a lock that its owner can take again: one hash in Redis with the owner's count.
//
// The owner is, in this order: the hold that ctx carries, [ContextWithOwner], [WithOwner], the goroutine. The
// hold belongs to the owner, not to the object: packages of one program that each make their own object of
// the same name and client share it. It ends with the Unlock of the outermost level; a level that is unlocked
// neither frees nor shortens what is around it.
type ReentrantLock struct {
	handle
}

const reentrantOptions = ^option(0)

// NewReentrantLock returns the reentrant lock of this name on client. It is cheap, does no I/O and needs no
// closing. Names are 1 to 1024 bytes and do not start with a closing brace.
//
// By default Lock makes one attempt, a hold is renewed until its outermost Unlock, and the goroutine is the
// owner.
func NewReentrantLock(key string, client *Client, opts ...LockOption) *ReentrantLock {
	return &ReentrantLock{handle: newHandle(key, client, opts, reentrantOptions)}
}

// Validate reports all mistakes in the key and the options, in an error that matches [ErrInvalid].
func (l *ReentrantLock) Validate() error { return l.safe().validate() }

// Lock takes the lock, or goes one level deeper: in one attempt, or with [WithBlock] as soon as it can, until
// ctx ends. A level inside a hold that was lost is [ErrLockLost], until the hold's outermost Unlock.
func (l *ReentrantLock) Lock(ctx context.Context) error {
	l = l.safe()
	_, err := l.acquire(ctx, l.settings.block)
	return wrap("lock", l.key, err)
}

// TryLock takes the lock, or goes one level deeper, in one attempt, also with [WithBlock].
func (l *ReentrantLock) TryLock(ctx context.Context) error {
	l = l.safe()
	_, err := l.acquire(ctx, false)
	return wrap("lock", l.key, err)
}

// Unlock leaves the owner's newest level, whichever object of this name and client took it; [ErrNotHeld] when
// the owner has none. See [Hold] for its other errors.
func (l *ReentrantLock) Unlock(ctx context.Context) error {
	l = l.safe()
	return wrap("unlock", l.key, l.unlockNewest(ctx))
}

// Do runs fn while holding the lock. Its context ends with ctx and when the hold is lost, and carries the
// hold: goroutines that use it share the owner.
//
// If fn was not run, the error is an [*Error] with Op "lock". Else it is fn's own, joined with [ErrLockLost]
// when the hold was lost before the end. A release that is not confirmed is logged. If fn panics, the lock is
// unlocked.
func (l *ReentrantLock) Do(ctx context.Context, fn func(context.Context) error) error {
	l = l.safe()
	return l.do(ctx, l.settings.block, fn, l.acquire, (*level).unlock)
}

// TryDo is Do with one attempt to get the lock.
func (l *ReentrantLock) TryDo(ctx context.Context, fn func(context.Context) error) error {
	l = l.safe()
	return l.do(ctx, false, fn, l.acquire, (*level).unlock)
}

// Acquire is Lock for callers that want the [Hold], here one level.
func (l *ReentrantLock) Acquire(ctx context.Context) (Hold, error) {
	l = l.safe()
	return l.hold(ctx, l.settings.block, l.acquire)
}

// TryAcquire is TryLock for callers that want the [Hold], here one level.
func (l *ReentrantLock) TryAcquire(ctx context.Context) (Hold, error) {
	l = l.safe()
	return l.hold(ctx, false, l.acquire)
}

func (l *ReentrantLock) safe() *ReentrantLock {
	if l == nil {
		return &ReentrantLock{}
	}
	return l
}

func (l *ReentrantLock) acquire(ctx context.Context, block bool) (*level, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	id, err := l.ownerID(ctx)
	if err != nil {
		return nil, err
	}
	w := l.client.newWait(ctx, &l.settings, block)
	defer w.cancel()
	o := l.client.enter(ownerOf{l.key, id})
	defer l.client.exit(o)
	a := &reentrantAttempt{lock: l, owner: o, caller: ctx, protocol: reentrantProtocol{redisKey: l.redisKey(), owner: id}}
	if block || l.settings.fair {
		a.queued = newQueued(l.client.queue.enter(l.key, a.protocol.redisKey), 'r', &l.settings, !block, a.body)
		w.queued = a.queued
		o.join(a.queued)
		defer o.part(a.queued)
	}
	defer a.finish()
	return w.acquire(a.try)
}

func (l *ReentrantLock) unlockNewest(ctx context.Context) error {
	if err := l.mistaken(ctx); err != nil {
		return err
	}
	id, err := l.ownerID(ctx)
	if err != nil {
		return err
	}
	o := l.client.enter(ownerOf{l.key, id})
	defer l.client.exit(o)
	o.turn.take()
	defer o.turn.give()
	if o.lease == nil {
		return ErrNotHeld
	}
	return o.lease.newest().unlockInTurn()
}

// reentrantProtocol enters, renews and releases the hash of a reentrant lock.
type reentrantProtocol struct{ redisKey, owner, hold string }

func (p reentrantProtocol) acquire(lease time.Duration, info string) scripted {
	return scripted{reentrantAcquireScript, p.redisKey, []any{p.owner, p.hold, lease.Milliseconds(), info}}
}

func (p reentrantProtocol) enter(levels, seq int, lease time.Duration) scripted {
	return scripted{reentrantEnterScript, p.redisKey, []any{p.owner, p.hold, levels, seq, lease.Milliseconds()}}
}

func (p reentrantProtocol) renew(lease time.Duration) scripted {
	return scripted{reentrantRenewScript, p.redisKey, []any{p.hold, lease.Milliseconds()}}
}

func (p reentrantProtocol) release(levels, seq int, keep time.Duration) scripted {
	return scripted{reentrantReleaseScript, p.redisKey, []any{p.owner, p.hold, levels, seq, keep.Milliseconds()}}
}

// reentrantAttempt is the wait of one call for a reentrant lock.
type reentrantAttempt struct {
	lock     *ReentrantLock
	owner    *owner
	caller   context.Context
	protocol reentrantProtocol // of the hold that this call would make
	queued   *queued           // the place in the queue; nil when the call does not wait and may overtake

	doubt doubt // about the requests that would make it
}

// try makes one attempt in the owner's turn: the first level, or one more of the lease that the owner has.
func (a *reentrantAttempt) try(ctx context.Context) (*level, error) {
	if !a.owner.turn.takeUntil(ctx) {
		return nil, errLeft
	}
	defer a.owner.turn.give()
	if l := a.owner.lease; l != nil {
		return a.reenter(ctx, l)
	}
	if a.queued != nil {
		return a.queue(ctx)
	}
	return a.first(ctx)
}

// body is what the lock stores under a hold.
func (a *reentrantAttempt) body(string) (owner, info string) {
	return a.owner.key.id, a.lock.client.identity.info(a.lock.settings.label)
}

// queue asks for a hold in the queue's order.
func (a *reentrantAttempt) queue(ctx context.Context) (*level, error) {
	sent, err := a.queued.attempt(ctx)
	if err != nil {
		return nil, err
	}
	g := a.queued.granted()
	p := a.protocol
	p.hold = g.hold
	l := newLease(a.lock.client, a.lock.key, p, sent, &a.lock.settings, g.doubt)
	l.undo = g.undo
	return a.begin(l, sent)
}

// first makes the hold. Its id is drawn once for the wait; should the belief be over when the answer comes,
// the wait goes on with a new one: the old one is being released.
func (a *reentrantAttempt) first(ctx context.Context) (*level, error) {
	c, s := a.lock.client, &a.lock.settings
	if a.protocol.hold == "" {
		id, err := utils.NewID()
		if err != nil {
			return nil, err
		}
		a.protocol.hold = id
	}
	o, d := c.eval(ctx, ofLease(s.lease), a.protocol.acquire(s.asked(), c.identity.info(s.label)))
	a.doubt = a.doubt.merge(d)
	switch {
	case o.err != nil:
		return nil, o.err
	case o.reply == int64(answerOther):
		return nil, ErrLockAcquiredByOthers
	case o.reply != int64(answerOurs):
		return nil, ErrKeyConflict
	}
	l := newLease(c, a.lock.key, a.protocol, o.sent, s, a.doubt)
	a.protocol.hold, a.doubt = "", doubt{} // the lease cleans up after itself
	return a.begin(l, o.sent)
}

// begin makes a lease the owner's. Whoever waits as the same owner goes one level deeper instead.
func (a *reentrantAttempt) begin(l *lease, sent time.Time) (*level, error) {
	l.owner, l.turn = a.owner, a.owner.turn
	h, err := l.begin(a.caller, sent, &a.lock.settings)
	if err == nil {
		a.owner.lease = l
		a.lock.client.enter(a.owner.key) // until the last level is dropped
		a.owner.wakeOthers(a.queued)
	}
	return h, err
}

// reenter goes one level deeper. When it cannot know whether the server did, the count is put right in the
// background.
func (a *reentrantAttempt) reenter(ctx context.Context, l *lease) (*level, error) {
	if err := l.check(); err != nil {
		return nil, lostLevel(err)
	}
	c, s := a.lock.client, &a.lock.settings
	l.mu.Lock()
	l.seq++
	want, seq := l.live+1, l.seq
	l.length = max(l.length, s.asked()) // whether it is answered or not
	l.mu.Unlock()
	o, d := c.eval(ctx, ofLease(s.lease), l.protocol.(reentrantProtocol).enter(want, seq, s.asked()))
	switch {
	case o.err != nil:
		if d.exists() {
			c.clean(l.cleanup(doubt{}))
		}
		return nil, o.err
	case o.reply != int64(answerOurs):
		l.lose(ErrLockLost)
		return nil, ErrLockLost
	}
	if err := l.believe(o.sent, s.lease); err != nil {
		return nil, lostLevel(err)
	}
	return l.push(a.caller, o.sent, s)
}

// lostLevel is why a level cannot be added to a lease that is over but not yet unlocked to the last level.
func lostLevel(over error) error {
	if errors.Is(over, ErrNotHeld) {
		return ErrLockLost // the outer level was ended by its maximum hold, the others are unlocked
	}
	return over
}

// finish cleans up after a wait that ended without a grant of its own while its request may still be
// executed.
func (a *reentrantAttempt) finish() {
	if a.queued != nil {
		a.queued.leave()
	}
	if !a.doubt.exists() {
		return
	}
	s, release := &a.lock.settings, a.protocol.release(0, 2, 0)
	a.lock.client.clean(newCleanup(a.lock.key, s.asked(), s.lease, a.doubt, func(time.Time) scripted { return release }))
}
