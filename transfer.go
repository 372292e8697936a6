package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/waitqueue"
)

// transfer is a reentrant lock on its way to the next call of the client that
// waits for it: one request is the release of a hold and the acquire of the
// next. Who unlocks sends it, and the call makes a lease of what the server has
// granted, in its owner's turn.
//
// The request finds the old hold, or the new one when it comes again. So once a
// copy of it was executed, or a release that names both holds, no late copy of
// it changes anything.
type transfer struct {
	client *manager
	key    string // as the user named it
	seat   *waitqueue.Waiter
	hold   string        // the next one
	owner  string        // of that
	sent   time.Time     // the copy that was granted
	since  time.Duration // when the lock was granted to the client, after its start
	passes int16         // how often it was given on since
	tokens script.Tokens // of the next hold
}

// heir is a waiting call that a lock can be transferred to.
type heir interface {
	ownerID() string
	// heldAs is the protocol of its hold, by the hold's id.
	heldAs(hold string) protocol
}

// transferrer is the protocol of a kind whose locks are transferred.
type transferrer interface {
	transfer(t *transfer, lease time.Duration, info string) script.Call
}

// choose takes the call out that the lock is transferred to; nil when there is
// none, or when it is the turn of others. The same limits hold as for a plain
// lock that is passed on, but for the belief, which begins anew; mu is held.
func (l *lease) choose(from *level) (t *transfer, left *waitqueue.Entry) {
	s, q := from.settings, l.client.queue
	if !s.Kind.Transfers || s.MinHold > 0 || s.Fair || s.Replicas > 0 || time.Until(l.keep) > 0 || l.doubt.Exists() {
		return nil, nil
	}
	next, left := q.Next(l.protocol.lockKey(), l.granted(), l.passes, s)
	if next == nil {
		return nil, nil
	}
	l.passes++
	owner := next.Call.Attempt.(heir).ownerID()
	return &transfer{client: l.client, key: l.key, seat: next, hold: q.NewHold(), owner: owner, since: l.since, passes: l.passes}, left
}

// transfer asks the server for t. It says no when the lock has to be given back
// all the same: when the request was refused or not answered, and when the call
// waits no longer. The release then names both holds, as the lock may be
// either.
func (l *lease) transfer(t *transfer, start time.Time) (done bool, err error) {
	if t == nil {
		return false, nil
	}
	c, s := l.client, t.seat.Call.Settings
	half := min(c.commandTimeout, l.lease/3) / 2
	o, d := c.eval(context.Background(), driver.Limits{Connect: half, Answer: half, End: start.Add(half)},
		l.protocol.(transferrer).transfer(t, s.Lease, c.identity.Info(s.Label)))
	answered := o.Answered && o.Err == nil
	code, drawn := script.ReadGrant(o.Reply)
	if answered && code == script.Ours && t.deliver(o.Sent, drawn) {
		return true, nil
	}
	t.seat.Return()
	if answered && code != script.Ours {
		err = l.judge(o, 0, true) // had an earlier copy done it, this one would have found the next hold
		l.takeSpared().LeaveWith(errs.ErrLockLost)
		return true, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending, l.doubt, l.undo = &ending{heir: t.hold}, d, nil
	return false, nil
}

// deliver gives the call the lock. It reports false if that has left, or the
// client is closing.
func (t *transfer) deliver(sent time.Time, drawn script.Tokens) bool {
	t.sent, t.tokens = sent, drawn
	return t.seat.Deliver(t)
}

// arrived says that the lock is in the client's books, or was given back.
func (t *transfer) arrived() { t.seat.Line.Queue.Arrived(t) }

// stranded returns the leases of locks whose calls will not take them any more,
// as the client is closed.
func (m *manager) stranded() (leases []*lease) {
	for _, grant := range m.queue.InTransit() {
		l := grant.(*transfer).lease()
		l.takeSpared().LeaveWith(errs.ErrClosed) // else the lock would be reserved for it
		leases = append(leases, l)
	}
	return leases
}

// lease makes the lease of a transfer. The request leaves nothing in doubt.
func (t *transfer) lease() *lease {
	call := t.seat.Call
	p := call.Attempt.(heir).heldAs(t.hold)
	l := newLease(t.client, &grant{key: t.key, protocol: p, sent: t.sent, settings: call.Settings, tokens: t.tokens})
	l.since, l.passes = t.since, t.passes
	return l
}

// accept makes the hold that was transferred the owner's. Neither a hold nor an
// error: the owner has one already.
func (o *owner) accept(ctx context.Context, t *transfer) (*level, error) {
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
	h, err := o.begin(t.seat.Call, l, t.sent)
	if l.isAdopted() { // else Close sees to it
		t.arrived()
	}
	if err != nil {
		l.takeSpared().LeaveWith(err)
	}
	return h, err
}

// refuse gives back what was transferred to a call that has no use for it.
func (t *transfer) refuse() { t.lease().giveUp(t) }

// reason is the last reason that the line has seen.
func (t *transfer) reason() error { return t.seat.Line.Reason() }

// giveUp releases the lease of a transfer that was never begun, in the
// background.
func (l *lease) giveUp(t *transfer) {
	l.mu.Lock()
	l.end(errs.ErrNotHeld)
	l.mu.Unlock()
	l.takeSpared().LeaveWith(errs.ErrNotHeld)
	l.client.retrier.Retry(l.cleanup(l.doubt))
	t.arrived()
}
