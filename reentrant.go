package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/waitqueue"
	"github.com/relock-go/relock/utils"
)

// ReentrantLock is a lock that its owner can take again: one hash in Redis with the owner's count.
//
// The owner is, in this order: the hold that ctx carries, [ContextWithOwner], [WithOwner], the goroutine. The
// hold belongs to the owner, not to the object: packages of one program that each make their own object of
// the same name and client share it. It ends with the Unlock of the outermost level; a level that is unlocked
// neither frees nor shortens what is around it.
//
// A Lock inside a hold that was lost returns [ErrLockLost] until the hold's
// outermost Unlock.
type ReentrantLock struct {
	base
}

// NewReentrantLock returns the reentrant lock of this name on client. It is cheap, does no I/O and needs no
// closing. Names are 1 to 1024 bytes and do not start with a closing brace.
//
// By default Lock makes one attempt, a hold is renewed until its outermost Unlock, and the goroutine is the
// owner.
func NewReentrantLock(key string, client *Client, opts ...LockOption) *ReentrantLock {
	l := &ReentrantLock{base{handle: newHandle(key, client, opts, lockspec.Reentrant)}}
	l.how = l
	return l
}

// HoldCount returns how many levels the caller holds, by this client: 0 when it holds none, or has lost them. It asks nobody,
// and waits for a call of the same owner that is under way, as long as ctx allows; 0 then, and for a lock that
// [ReentrantLock.Validate] finds fault with.
func (l *ReentrantLock) HoldCount(ctx context.Context) int {
	if l.mistaken(ctx) != nil {
		return 0
	}
	o, err := l.owner(ctx)
	if err != nil {
		return 0
	}
	return l.client.engine.Depth(ctx, o)
}

// release leaves the owner's newest level.
func (l *ReentrantLock) release(ctx context.Context) error {
	return l.unlockNewest(ctx)
}

func (l *ReentrantLock) unlock(h *lease.Hold) error { return h.Unlock() }

// take acquires the lock or goes one level deeper, in either case for the owner.
func (l *ReentrantLock) take(ctx context.Context, block, _ bool) (*lease.Hold, error) {
	if err := l.ready(ctx); err != nil {
		return nil, err
	}
	caller, err := l.owner(ctx)
	if err != nil {
		return nil, err
	}
	w := newWait(ctx, l.client.engine.Life, &l.settings, block)
	defer w.cancel()
	o := l.client.engine.Enter(caller)
	defer l.client.engine.Exit(o)
	a := &reentrantAttempt{lock: l, wait: w, owner: o, protocol: reentrantProtocol{redisKey: l.redisKey(), owner: caller.ID}}
	w.Attempt = a
	defer a.finish()
	switch {
	case l.settings.Fair:
		return a.queueUp(block)
	case block:
		return a.sit()
	}
	return w.acquire(a.try)
}

// queueUp asks in the order of a fair lock.
func (a *reentrantAttempt) queueUp(block bool) (*lease.Hold, error) {
	line := a.lock.client.engine.Queue.Enter(a.lock.key, a.protocol.redisKey)
	defer line.Exit()
	a.queued = waitqueue.NewEntry(line, &a.lock.settings, !block, a.body)
	defer a.queued.Leave()
	a.wait.queued = a.queued
	a.owner.Join(&a.wait.Call)
	defer a.owner.Leave(&a.wait.Call)
	return a.wait.acquire(a.try)
}

// sit goes one level deeper whenever the owner has the lock, and else waits in the client's line.
func (a *reentrantAttempt) sit() (*lease.Hold, error) {
	w := a.wait
	if h, err := w.acquire(a.deeper); h != nil || err != nil {
		return h, err // as mostly, when levels are nested
	}
	a.owner.Join(&w.Call)
	defer a.owner.Leave(&w.Call)
	line := a.lock.client.engine.Queue.Enter(a.lock.key, a.protocol.redisKey)
	defer line.Exit()
	for {
		if h, err := w.acquire(a.deeper); h != nil || err != nil {
			return h, err
		}
		if h, err := w.sit(line, a); h != nil || err != nil {
			return h, err
		}
	}
}

// stand is on a place that takes the lock for this call's owner.
func (a *reentrantAttempt) stand(l *waitqueue.Line, left *waitqueue.Entry) *waitqueue.Entry {
	if a.queued = left; left == nil {
		a.queued = waitqueue.NewEntry(l, &a.lock.settings, false, a.body)
	} else {
		left.Rebind(a.body)
	}
	return a.queued
}

// reentrantProtocol enters, renews and releases the hash of a reentrant lock.
type reentrantProtocol struct{ redisKey, owner, hold string }

func (p reentrantProtocol) acquire(s *lockspec.Spec, info string) script.Call {
	return script.Call{Script: s.Variant(script.ReentrantAcquire), Key: p.redisKey, Args: []any{p.owner, p.hold, s.Expiry().Milliseconds(), info}}
}

func (p reentrantProtocol) Enter(l lease.Levels, seq int, length time.Duration) script.Call {
	return script.Call{Script: script.ReentrantEnter, Key: p.redisKey, Args: []any{p.owner, p.hold, l.All, seq, length.Milliseconds()}}
}

func (p reentrantProtocol) Renew(length time.Duration) script.Call {
	return script.Call{Script: script.ReentrantRenew, Key: p.redisKey, Args: []any{p.hold, length.Milliseconds()}}
}

func (p reentrantProtocol) LockKey() string { return p.redisKey }
func (p reentrantProtocol) HoldID() string  { return p.hold }

func (p reentrantProtocol) Release(l lease.Levels, seq int, keep time.Duration) script.Call {
	return script.Call{Script: script.ReentrantRelease, Key: p.redisKey, Args: []any{p.owner, p.hold, l.All, seq, keep.Milliseconds()}}
}

func (p reentrantProtocol) Transfer(t *lease.Transfer, length time.Duration, info string) script.Call {
	return script.Call{Script: t.Seat.Call.Settings.Variant(script.ReentrantTransfer), Key: p.redisKey, Args: []any{p.hold, p.owner, t.Hold, t.Owner, length.Milliseconds(), info}}
}

// reentrantAttempt is the wait of one call for a reentrant lock.
type reentrantAttempt struct {
	lock     *ReentrantLock
	wait     *wait
	owner    *lease.Owner
	protocol reentrantProtocol // of the hold that this call would make
	queued   *waitqueue.Entry  // the place in the queue; nil when the call does not wait and may overtake

	doubt script.Indeterminate // about the requests that would make it
}

// try makes one attempt in the owner's turn: the first level, or one more of the lease that the owner has.
func (a *reentrantAttempt) try(ctx context.Context) (*lease.Hold, error) {
	if a.queued != nil {
		return a.owner.Try(ctx, &a.wait.Call, a.queue)
	}
	return a.owner.Try(ctx, &a.wait.Call, a.first)
}

// deeper goes one level deeper when the owner has the lock. Neither a hold nor an error: it has not.
func (a *reentrantAttempt) deeper(ctx context.Context) (*lease.Hold, error) {
	return a.owner.Try(ctx, &a.wait.Call, nil)
}

func (a *reentrantAttempt) OwnerID() string { return a.protocol.owner }

// HeldAs is how the hold of the call is stored.
func (a *reentrantAttempt) HeldAs(hold string) lease.Protocol {
	p := a.protocol
	p.hold = hold
	return p
}

// body is what the lock stores under a hold.
func (a *reentrantAttempt) body(string) (owner, info string) {
	return a.protocol.owner, a.lock.client.engine.Identity.Info(a.lock.settings.Label)
}

// queue asks for a hold in the queue's order.
func (a *reentrantAttempt) queue(ctx context.Context) (*lease.Hold, error) {
	sent, err := a.queued.Attempt(ctx)
	if err != nil {
		return nil, err
	}
	g := a.queued.Granted()
	return a.owner.Grant(&a.wait.Call, lease.Queued(&g, a.lock.key, a.HeldAs(g.Hold), sent, &a.lock.settings))
}

// first makes the hold. Its id is drawn once for the wait; should the belief be over when the answer comes,
// the wait goes on with a new one: the old one is being released.
func (a *reentrantAttempt) first(ctx context.Context) (*lease.Hold, error) {
	c, s := a.lock.client, &a.lock.settings
	if a.protocol.hold == "" {
		id, err := utils.NewID()
		if err != nil {
			return nil, err
		}
		a.protocol.hold = id
	}
	o, d := c.engine.Ask(ctx, s, a.protocol.acquire(s, c.engine.Identity.Info(s.Label)))
	a.doubt = a.doubt.Merge(d)
	if o.Err != nil {
		return nil, o.Err
	}
	code, t := script.ReadGrant(o.Reply)
	switch code {
	case script.Ours:
	case script.Other:
		return nil, ErrLockAcquiredByOthers
	default:
		return nil, ErrKeyConflict
	}
	g := &lease.Grant{Key: a.lock.key, Protocol: a.protocol, Sent: o.Sent, Settings: s, Tokens: t, Doubt: a.doubt}
	a.protocol.hold, a.doubt = "", script.Indeterminate{} // the lease cleans up after itself
	return a.owner.Grant(&a.wait.Call, g)
}

// finish cleans up after a wait that ended without a grant of its own while its request may still be
// executed.
func (a *reentrantAttempt) finish() {
	if !a.doubt.Exists() {
		return
	}
	s, release := &a.lock.settings, a.protocol.Release(lease.Levels{}, 2, 0)
	a.lock.client.engine.Retrier.Retry(background.NewRelease(a.lock.key, s.Expiry(), s.Lease, a.doubt, func(time.Time) script.Call { return release }))
}
