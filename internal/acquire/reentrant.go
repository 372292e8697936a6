package acquire

import (
	"context"
	"errors"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/waitqueue"
	"github.com/relock-go/relock/utils"
)

// Reentrant acquires a reentrant lock.
type Reentrant struct{ owned }

// NewReentrant returns how the lock is acquired.
func NewReentrant(t *Target) Reentrant { return Reentrant{owned{t}} }

// Take acquires the lock for the caller's owner, or goes one level deeper.
func (l Reentrant) Take(ctx context.Context, block, _ bool) (h *lease.Hold, waited bool, err error) {
	return l.attempt(ctx, block, func(w *wait, o *lease.Owner, id string) (*lease.Hold, error) {
		a := &reentrantAttempt{
			Target: l.Target, wait: w, owner: o, protocol: reentrantProtocol{redisKey: l.RedisKey(), owner: id},
		}
		defer a.finish()
		switch {
		case l.Settings.Fair:
			return a.queueUp(block)
		case block:
			return a.waitLocally()
		}
		return w.acquire(a.try)
	})
}

// Depth returns how many levels the caller's owner has.
func (l Reentrant) Depth(ctx context.Context) int {
	o, err := l.Owner(ctx)
	if err != nil {
		return 0
	}
	return l.Manager.Depth(ctx, o)
}

// queueUp acquires a fair lock in the order of the queue.
func (a *reentrantAttempt) queueUp(block bool) (*lease.Hold, error) {
	line := a.Manager.Queue.Enter(a.Key, a.protocol.redisKey)
	defer line.Exit()
	a.queued = waitqueue.NewEntry(line, &a.Settings, !block, a.body)
	defer a.queued.Leave()
	a.wait.queued = a.queued
	a.owner.Join(&a.wait.Call)
	defer a.owner.Leave(&a.wait.Call)
	return a.wait.acquire(a.try)
}

// fastPath makes the first attempt of a call that may wait, before the call
// joins a line: the lock is usually uncontended, or the owner has it. It
// reports whether the call is done. What it sent without an answer is released.
func (a *reentrantAttempt) fastPath() (h *lease.Hold, done bool, err error) {
	w := a.wait
	h, err = a.try(w.Ctx)
	a.finish()
	switch {
	case err == nil:
		return h, true, nil
	case errors.Is(err, errs.ErrLockAcquiredByOthers):
		w.note(err) // until the queue has a better reason
		return nil, false, nil
	}
	return w.failedFast(err)
}

// waitLocally goes one level deeper whenever the owner has the lock. Otherwise
// it waits in the client's line.
func (a *reentrantAttempt) waitLocally() (*lease.Hold, error) {
	w := a.wait
	if !a.Manager.Queue.Uses(a.protocol.redisKey) {
		if h, done, err := a.fastPath(); done {
			return h, err
		}
	}
	if h, err := w.acquire(a.deeper); h != nil || err != nil {
		return h, err
	}
	a.owner.Join(&w.Call)
	defer a.owner.Leave(&w.Call)
	line := a.Manager.Queue.Enter(a.Key, a.protocol.redisKey)
	defer line.Exit()
	for {
		if h, err := w.acquire(a.deeper); h != nil || err != nil {
			return h, err
		}
		if h, err := w.waitLocally(line, a); h != nil || err != nil {
			return h, err
		}
	}
}

// entry makes an inherited entry take the lock for this call's owner.
func (a *reentrantAttempt) entry(l *waitqueue.Line, left *waitqueue.Entry) *waitqueue.Entry {
	if a.queued = left; left == nil {
		a.queued = waitqueue.NewEntry(l, &a.Settings, false, a.body)
	} else {
		left.Rebind(a.body)
	}
	return a.queued
}

// reentrantAttempt is one call for a reentrant lock.
type reentrantAttempt struct {
	*Target
	wait     *wait
	owner    *lease.Owner
	protocol reentrantProtocol // of the hold that this call would make
	// The call's queue entry. It is nil if the call does not wait and may
	// overtake waiters.
	queued *waitqueue.Entry

	indeterminate script.Indeterminate // of the requests that would make that hold
}

// try makes one attempt under the owner mutex: for the first level, or for one
// more of the lease that the owner has.
func (a *reentrantAttempt) try(ctx context.Context) (*lease.Hold, error) {
	request := a.first
	if a.queued != nil {
		request = a.queue
	}
	return a.owner.Try(ctx, &a.wait.Call, request)
}

// deeper goes one level deeper if the owner has the lock. It returns neither a
// hold nor an error if the owner does not have it.
func (a *reentrantAttempt) deeper(ctx context.Context) (*lease.Hold, error) {
	return a.owner.Try(ctx, &a.wait.Call, nil)
}

// body returns what the lock stores for a hold.
func (a *reentrantAttempt) body(string) (owner, info string) {
	return a.protocol.owner, a.Manager.Identity.Info(a.Settings.Label)
}

// queue requests a hold in the order of the queue. While the keys of an unfair
// lock are not together, it overtakes the queue.
func (a *reentrantAttempt) queue(ctx context.Context) (*lease.Hold, error) {
	sent, err := a.queued.Attempt(ctx)
	if overtakes(err, &a.Settings) {
		return a.overtake(ctx)
	}
	if err != nil {
		return nil, err
	}
	g := a.queued.Granted()
	p := a.protocol.HeldBy(a.protocol.owner, g.Hold)
	return a.owner.Grant(&a.wait.Call, lease.Queued(&g, a.Key, p, sent, &a.Settings))
}

// overtake requests the hold without the queue. A hold that the owner may have
// without an answer is released: the queue does not know it.
func (a *reentrantAttempt) overtake(ctx context.Context) (*lease.Hold, error) {
	h, err := a.first(ctx)
	if err != nil {
		a.finish()
	}
	return h, err
}

// first requests the hold without a queue. The hold ID is drawn once for the
// wait. If the hold is no longer valid when the answer comes, that ID is being
// released. The wait then goes on with a new ID.
func (a *reentrantAttempt) first(ctx context.Context) (*lease.Hold, error) {
	s := &a.Settings
	if a.protocol.hold == "" {
		id, err := utils.NewID()
		if err != nil {
			return nil, err
		}
		a.protocol.hold = id
	}
	o, d := a.Manager.Ask(ctx, s, a.protocol.acquire(s, a.Manager.Identity.Info(s.Label)))
	a.indeterminate = a.indeterminate.Merge(d)
	if o.Err != nil {
		return nil, o.Err
	}
	code, t := script.ReadGrant(o.Reply)
	if err := a.wait.refusal(code, o.Reply, 1); err != nil {
		return nil, err
	}
	g := &lease.Grant{
		Key: a.Key, Protocol: a.protocol, Sent: o.Sent, Settings: s, Tokens: t, Indeterminate: a.indeterminate,
	}
	a.protocol.hold, a.indeterminate = "", script.Indeterminate{} // the lease handles its own release
	return a.owner.Grant(&a.wait.Call, g)
}

// finish releases the hold ID after attempts that got no grant, if one of these
// requests may still be executed. A later attempt draws another ID.
func (a *reentrantAttempt) finish() {
	if !a.indeterminate.Exists() {
		return
	}
	a.Manager.Retrier.Retry(cleanup(a.Key, a.protocol, &a.Settings, a.indeterminate))
	a.protocol.hold, a.indeterminate = "", script.Indeterminate{}
}
