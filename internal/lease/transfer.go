package lease

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/waitqueue"
)

// Transferrer is the protocol of a kind whose locks can be transferred.
type Transferrer interface {
	Transfer(t *Transfer, lease time.Duration, info string) script.Call
	// HeldBy returns the protocol of another hold of the lock.
	HeldBy(owner, hold string) Protocol
}

// newTransfer removes a waiter from the local wait list, to transfer the lock
// to it. It returns nil if there is none, or if it is the turn of other
// processes. The limits are those of a plain lock that is passed on, except for
// the validity: a transfer begins a new lease. Mu must be held.
func newTransfer(l *Lease, from *Hold, now time.Time) (t *Transfer, left *waitqueue.Entry) {
	s := from.settings
	if !s.Kind.Transfers || s.MinHold > 0 || l.Settings.Fair || s.Replicas > 0 || l.keptUntil().After(now) ||
		l.indeterminate.Exists() {
		return nil, nil
	}
	next, left := l.client.Local.Next(l.protocol.LockKey(), now.Sub(l.Granted()), l.passes, l.client.Limits.HandOffs, s)
	if next == nil {
		return nil, nil
	}
	l.passes++
	owner, hold := next.Call.OwnerID, l.client.Queue.NewHold()
	return &Transfer{
		client: l.client, key: l.Name, Waiter: next, Hold: hold, Owner: owner,
		next: l.protocol.(Transferrer).HeldBy(owner, hold), since: l.Since, passes: l.passes,
	}, left
}

// send sends the request for the lock of l, and reports whether the lock is
// done with, which it is not without a transfer. Otherwise the lock must still
// be released: the request failed or was not answered, or the waiter has left.
// That release names both holds, because either may have the lock. If the
// server refuses it, the hold has ended, and the error is the loss. A release
// follows in the background: what was refused may still be there. It names both
// holds, too.
func (t *Transfer) send(l *Lease, start time.Time) (done bool, err error) {
	if t == nil {
		return false, nil
	}
	c, s := l.client, t.Waiter.Call.Settings
	half := min(c.CommandTimeout, l.Settings.Lease/3) / 2
	o, d := c.Eval(context.Background(), driver.Limits{Connect: half, Answer: half, End: start.Add(half)},
		l.protocol.(Transferrer).Transfer(t, s.Lease, c.Identity.Info(s.Label)))
	answered := o.Answered && o.Err == nil
	code, drawn := script.ReadGrant(o.Reply)
	if answered && code == script.OK && t.deliver(o.Sent, drawn) {
		return true, nil
	}
	t.Waiter.Return()
	l.Mu.Lock()
	l.setSuccessor(t.Hold, d)
	l.Mu.Unlock()
	if !answered || code == script.OK {
		return false, nil
	}
	retained{l}.end(errs.Vanished)
	l.client.Retrier.Retry(releaser{l}.cleanup(d)) // a release knows more than a transfer
	// first is true: after an earlier copy, this one would have found the next
	// hold.
	return true, releaser{l}.judge(o, 0, true)
}

// deliver gives the lock to the waiter. It reports whether the waiter takes it:
// the waiter may have left, or the client may be closing.
func (t *Transfer) deliver(sent time.Time, drawn script.Tokens) bool {
	t.sent, t.tokens = sent, drawn
	return t.Waiter.Deliver(Handed{Transfer: t})
}

// arrived notes that the manager has the lock's lease, or that it was released.
func (t *Transfer) arrived() { t.client.Local.Arrived(Handed{Transfer: t}) }

// unfinished returns the leases of locks whose waiters will no longer take
// them, because the client is closed.
func unfinished(w *LocalWaiters) (leases []*Lease) {
	for _, grant := range w.InTransit() {
		l := grant.Transfer.lease()
		retained{l}.end(errs.ErrClosed) // or the lock would be reserved for it
		leases = append(leases, l)
	}
	return leases
}

// lease returns the lease of a transfer. It has no indeterminate requests.
func (t *Transfer) lease() *Lease {
	settings := t.Waiter.Call.Settings
	l := newLease(t.client, &Grant{Key: t.key, Protocol: t.next, Sent: t.sent, Settings: settings, Tokens: t.tokens})
	l.Since, l.passes = t.since, t.passes
	return l
}

// Accept makes the transferred hold the owner's. It returns neither a hold nor
// an error if the owner already has a lease.
func (o *Owner) Accept(ctx context.Context, t *Transfer) (*Hold, error) {
	l := t.lease()
	if !o.takeUntil(ctx) {
		t.giveUp(l)
		return nil, driver.ErrAbandoned
	}
	defer o.give()
	if o.lease != nil {
		t.giveUp(l)
		return nil, nil
	}
	h, err := o.begin(t.Waiter.Call, l, t.sent)
	if l.isAdopted() { // otherwise Close releases it
		t.arrived()
	}
	if err != nil {
		retained{l}.end(err)
	}
	return h, err
}

// Refuse releases a lock that was transferred to a call that has no use for it.
func (t *Transfer) Refuse() { t.giveUp(t.lease()) }

// Reason returns the last reason that the waiter's line has seen.
func (t *Transfer) Reason() error { return t.Waiter.Line.Answer().Reason() }

// giveUp releases the lease of a transfer that was never begun, in the
// background.
func (t *Transfer) giveUp(l *Lease) {
	l.Mu.Lock()
	l.Finish(errs.ErrNotHeld)
	l.Mu.Unlock()
	retained{l}.end(errs.ErrNotHeld)
	l.client.Retrier.Retry(releaser{l}.cleanup(l.indeterminate))
	t.arrived()
}
