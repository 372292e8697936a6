package lease

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/waitqueue"
)

// Transfer is a reentrant lock on its way to the next call of the client that
// waits for it: one request is the release of a hold and the acquire of the
// next. Who unlocks sends it, and the call makes a lease of what the server has
// granted, in its owner's turn.
//
// The request finds the old hold, or the new one when it comes again. So once a
// copy of it was executed, or a release that names both holds, no late copy of
// it changes anything.
type Transfer struct {
	client *Manager
	key    string // as the user named it
	Seat   *waitqueue.Waiter
	Hold   string        // the next one
	Owner  string        // of that
	sent   time.Time     // the copy that was granted
	since  time.Duration // when the lock was granted to the client, after its start
	passes int16         // how often it was given on since
	tokens script.Tokens // of the next hold
}

// heir is a waiting call that a lock can be transferred to.
type heir interface {
	OwnerID() string
	// HeldAs is the protocol of its hold, by the hold's id.
	HeldAs(hold string) Protocol
}

// transferrer is the protocol of a kind whose locks are transferred.
type transferrer interface {
	Transfer(t *Transfer, lease time.Duration, info string) script.Call
}

// choose takes the call out that the lock is transferred to; nil when there is
// none, or when it is the turn of others. The same limits hold as for a plain
// lock that is passed on, but for the belief, which begins anew; mu is held.
func (l *Lease) choose(from *Hold) (t *Transfer, left *waitqueue.Entry) {
	s, q := from.settings, l.client.Queue
	if !s.Kind.Transfers || s.MinHold > 0 || s.Fair || s.Replicas > 0 || time.Until(l.keep) > 0 || l.doubt.Exists() {
		return nil, nil
	}
	next, left := q.Next(l.protocol.LockKey(), l.granted(), l.passes, s)
	if next == nil {
		return nil, nil
	}
	l.passes++
	owner := next.Call.Attempt.(heir).OwnerID()
	return &Transfer{client: l.client, key: l.key, Seat: next, Hold: q.NewHold(), Owner: owner, since: l.since, passes: l.passes}, left
}

// transfer asks the server for t. It says no when the lock has to be given back
// all the same: when the request was refused or not answered, and when the call
// waits no longer. The release then names both holds, as the lock may be
// either.
func (l *Lease) transfer(t *Transfer, start time.Time) (done bool, err error) {
	if t == nil {
		return false, nil
	}
	c, s := l.client, t.Seat.Call.Settings
	half := min(c.CommandTimeout, l.lease/3) / 2
	o, d := c.Eval(context.Background(), driver.Limits{Connect: half, Answer: half, End: start.Add(half)},
		l.protocol.(transferrer).Transfer(t, s.Lease, c.Identity.Info(s.Label)))
	answered := o.Answered && o.Err == nil
	code, drawn := script.ReadGrant(o.Reply)
	if answered && code == script.Ours && t.deliver(o.Sent, drawn) {
		return true, nil
	}
	t.Seat.Return()
	if answered && code != script.Ours {
		err = l.judge(o, 0, true) // had an earlier copy done it, this one would have found the next hold
		l.takeRetained().LeaveWith(errs.ErrLockLost)
		return true, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending, l.doubt, l.undo = &ending{heir: t.Hold}, d, nil
	return false, nil
}

// deliver gives the call the lock. It reports false if that has left, or the
// client is closing.
func (t *Transfer) deliver(sent time.Time, drawn script.Tokens) bool {
	t.sent, t.tokens = sent, drawn
	return t.Seat.Deliver(t)
}

// arrived says that the lock is in the client's books, or was given back.
func (t *Transfer) arrived() { t.Seat.Line.Queue.Arrived(t) }

// stranded returns the leases of locks whose calls will not take them any more,
// as the client is closed.
func (m *Manager) stranded() (leases []*Lease) {
	for _, grant := range m.Queue.InTransit() {
		l := grant.(*Transfer).lease()
		l.takeRetained().LeaveWith(errs.ErrClosed) // else the lock would be reserved for it
		leases = append(leases, l)
	}
	return leases
}

// lease makes the lease of a transfer. The request leaves nothing in doubt.
func (t *Transfer) lease() *Lease {
	call := t.Seat.Call
	p := call.Attempt.(heir).HeldAs(t.Hold)
	l := newLease(t.client, &Grant{Key: t.key, Protocol: p, Sent: t.sent, Settings: call.Settings, Tokens: t.tokens})
	l.since, l.passes = t.since, t.passes
	return l
}

// Accept makes the hold that was transferred the owner's. Neither a hold nor an
// error: the owner has one already.
func (o *Owner) Accept(ctx context.Context, t *Transfer) (*Hold, error) {
	l := t.lease()
	if !o.turn.takeUntil(ctx) {
		l.giveUp(t)
		return nil, driver.ErrAbandoned
	}
	defer o.turn.give()
	if o.lease != nil {
		l.giveUp(t)
		return nil, nil
	}
	h, err := o.begin(t.Seat.Call, l, t.sent)
	if l.isAdopted() { // else Close sees to it
		t.arrived()
	}
	if err != nil {
		l.takeRetained().LeaveWith(err)
	}
	return h, err
}

// Refuse gives back what was transferred to a call that has no use for it.
func (t *Transfer) Refuse() { t.lease().giveUp(t) }

// Reason is the last reason that the line has seen.
func (t *Transfer) Reason() error { return t.Seat.Line.Reason() }

// giveUp releases the lease of a transfer that was never begun, in the
// background.
func (l *Lease) giveUp(t *Transfer) {
	l.mu.Lock()
	l.end(errs.ErrNotHeld)
	l.mu.Unlock()
	l.takeRetained().LeaveWith(errs.ErrNotHeld)
	l.client.Retrier.Retry(l.cleanup(l.doubt))
	t.arrived()
}
