package reentrant

import (
	"context"
	"errors"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/waitqueue"
	"github.com/relock-go/relock/utils"
)

// Lock acquires a reentrant lock.
type Lock struct{ acquire.Owned }

// New returns how the lock is acquired.
func New(t *acquire.Target) Lock { return Lock{acquire.NewOwned(t)} }

// Take acquires the lock for the caller's owner, or goes one level deeper.
func (l Lock) Take(ctx context.Context, block, _ bool) (h *lease.Hold, waited bool, err error) {
	return l.Run(ctx, block, func(w *acquire.Wait) (*lease.Hold, error) {
		a := newAttempt(l.Target, w)
		defer a.finish()
		switch {
		case l.Settings.Fair:
			return a.queueUp()
		case block:
			return a.waitLocally()
		}
		return w.Acquire(a.Try)
	})
}

// Depth returns how many levels the caller's owner has.
func (l Lock) Depth(ctx context.Context) int {
	o, err := l.Owner(ctx)
	if err != nil {
		return 0
	}
	return l.Manager.Owners.Depth(ctx, o)
}

// queueUp acquires a fair lock in the order of the queue.
func (a *attempt) queueUp() (*lease.Hold, error) {
	line := a.Manager.Queue.Enter(a.Key, a.protocol.RedisKey)
	defer line.Exit()
	a.wait.Owner.Join(&a.wait.Call)
	defer a.wait.Owner.Leave(&a.wait.Call)
	return a.wait.QueueUp(line, a.body, a.Try)
}

// fastPath makes the first attempt of a call that may wait, before the call
// joins a line: the lock is usually uncontended, or the owner has it. It
// reports whether the call is done. What it sent without an answer is released.
func (a *attempt) fastPath() (h *lease.Hold, done bool, err error) {
	w := a.wait
	h, err = a.Try(w.Ctx)
	a.finish()
	switch {
	case err == nil:
		return h, true, nil
	case errors.Is(err, errs.ErrLockAcquiredByOthers):
		w.Note(err) // until the queue has a better reason
		return nil, false, nil
	}
	return w.FailedFast(err)
}

// waitLocally goes one level deeper whenever the owner has the lock. Otherwise
// it waits in the client's line.
func (a *attempt) waitLocally() (*lease.Hold, error) {
	w := a.wait
	if !a.Manager.Queue.Uses(a.protocol.RedisKey) {
		if h, done, err := a.fastPath(); done {
			return h, err
		}
	}
	if h, err := w.Acquire(a.deeper); h != nil || err != nil {
		return h, err
	}
	a.wait.Owner.Join(&w.Call)
	defer a.wait.Owner.Leave(&w.Call)
	line := a.Manager.Queue.Enter(a.Key, a.protocol.RedisKey)
	defer line.Exit()
	for {
		if h, err := w.Acquire(a.deeper); h != nil || err != nil {
			return h, err
		}
		if h, err := w.WaitLocally(line, a); h != nil || err != nil {
			return h, err
		}
	}
}

// Entry makes an inherited entry take the lock for this call's owner.
func (a *attempt) Entry(l *waitqueue.Line, left *waitqueue.Entry) *waitqueue.Entry {
	if left == nil {
		return waitqueue.NewEntry(l, &a.Settings, false, a.body)
	}
	left.Rebind(a.body)
	return left
}

// attempt is one call for a reentrant lock.
type attempt struct {
	*acquire.Target
	wait     *acquire.Wait
	protocol Protocol // of the hold that this call would make

	indeterminate script.Indeterminate // of the requests that would make that hold
}

func newAttempt(t *acquire.Target, w *acquire.Wait) *attempt {
	p := Protocol{RedisKey: t.RedisKey(), Owner: w.OwnerID}
	return &attempt{Target: t, wait: w, protocol: p}
}

// Try makes one attempt under the owner mutex: for the first level, or for one
// more of the lease that the owner has.
func (a *attempt) Try(ctx context.Context) (*lease.Hold, error) {
	request := a.first
	if a.wait.Queued != nil {
		request = a.queue
	}
	return a.wait.Owner.Try(ctx, &a.wait.Call, request)
}

// deeper goes one level deeper if the owner has the lock. It returns neither a
// hold nor an error if the owner does not have it.
func (a *attempt) deeper(ctx context.Context) (*lease.Hold, error) {
	return a.wait.Owner.Try(ctx, &a.wait.Call, nil)
}

// body returns what the lock stores for a hold.
func (a *attempt) body(string) (owner, info string) {
	return a.protocol.Owner, a.Manager.Identity.Info(a.Settings.Label)
}

// queue requests a hold in the order of the queue. While the keys of an unfair
// lock are not together, it overtakes the queue.
func (a *attempt) queue(ctx context.Context) (*lease.Hold, error) {
	g, err := a.wait.Queued.Attempt(ctx)
	if acquire.Overtakes(err, &a.Settings) {
		return a.overtake(ctx)
	}
	if err != nil {
		return nil, err
	}
	p := a.protocol.HeldBy(a.protocol.Owner, g.Hold)
	return a.wait.Owner.Grant(&a.wait.Call, lease.Queued(&g, a.Key, p, &a.Settings))
}

// overtake requests the hold without the queue. A hold that the owner may have
// without an answer is released: the queue does not know it.
func (a *attempt) overtake(ctx context.Context) (*lease.Hold, error) {
	h, err := a.first(ctx)
	if err != nil {
		a.finish()
	}
	return h, err
}

// first requests the hold without a queue. The hold ID is drawn once for the
// wait. If the hold is no longer valid when the answer comes, that ID is being
// released. The wait then goes on with a new ID.
func (a *attempt) first(ctx context.Context) (*lease.Hold, error) {
	s := &a.Settings
	if a.protocol.Hold == "" {
		id, err := utils.NewID()
		if err != nil {
			return nil, err
		}
		a.protocol.Hold = id
	}
	o, d := a.Manager.Ask(ctx, s, a.protocol.acquire(s, a.Manager.Identity.Info(s.Label)))
	a.indeterminate = a.indeterminate.Merge(d)
	if o.Err != nil {
		return nil, o.Err
	}
	code, t := script.ReadGrant(o.Reply)
	if err := a.wait.Refusal(code, o.Reply, 1); err != nil {
		return nil, err
	}
	g := &lease.Grant{
		Key: a.Key, Protocol: a.protocol, Sent: o.Sent, Settings: s, Tokens: t, Indeterminate: a.indeterminate,
	}
	a.protocol.Hold, a.indeterminate = "", script.Indeterminate{} // the lease handles its own release
	return a.wait.Owner.Grant(&a.wait.Call, g)
}

// finish releases the hold ID after attempts that got no grant, if one of these
// requests may still be executed. A later attempt draws another ID.
func (a *attempt) finish() {
	if !a.indeterminate.Exists() {
		return
	}
	a.Manager.Retrier.Retry(acquire.Cleanup(a.Key, a.protocol, &a.Settings, a.indeterminate))
	a.protocol.Hold, a.indeterminate = "", script.Indeterminate{}
}
