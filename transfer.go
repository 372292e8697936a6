package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/waitqueue"
)

// transfer is a reentrant lock on its way to the next call of the client that waits for it: one request is the release of
// a hold and the acquire of the next. Who unlocks sends it, and the call makes a lease of what the server has granted, in
// its owner's turn.
//
// The request finds the old hold, or the new one when it comes again. So once a copy of it was executed, or a release
// that names both holds, no late copy of it changes anything.
type transfer struct {
	seat   *waitqueue.Waiter
	hold   string        // the next one
	owner  string        // of that
	sent   time.Time     // the copy that was granted
	since  time.Duration // when the lock was granted to the client, after its start
	passes int16         // how often it was given on since
	tokens script.Tokens // of the next hold
}

// choose takes the call out that the lock is transferred to; nil when there is none, or when it is the turn of others. The
// same limits hold as for a plain lock that is passed on, but for the belief, which begins anew; mu is held.
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
	owner := next.Call.Attempt.(*reentrantAttempt).owner.key.id
	return &transfer{seat: next, hold: q.NewHold(), owner: owner, since: l.since, passes: l.passes}, left
}

// transfer asks the server for t. It says no when the lock has to be given back all the same: when the request was refused
// or not answered, and when the call waits no longer. The release then names both holds, as the lock may be either.
func (l *lease) transfer(t *transfer, start time.Time) (done bool, err error) {
	if t == nil {
		return false, nil
	}
	c, s := l.client, t.seat.Call.Settings
	half := min(c.config.CommandTimeout, l.lease/3) / 2
	o, d := c.eval(context.Background(), driver.Limits{Connect: half, Answer: half, End: start.Add(half)},
		l.protocol.(reentrantProtocol).transfer(t, s.Lease, c.identity.Info(s.Label)))
	answered := o.Answered && o.Err == nil
	code, drawn := script.ReadGrant(o.Reply)
	if answered && code == script.Ours && t.deliver(o.Sent, drawn) {
		return true, nil
	}
	t.seat.Return()
	if answered && code != script.Ours {
		err = l.judge(o, 0, true) // had an earlier copy done it, this one would have found the next hold
		l.takeSpared().LeaveWith(ErrLockLost)
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
func (c *Client) stranded() (leases []*lease) {
	for _, grant := range c.queue.InTransit() {
		t := grant.(*transfer)
		l := t.seat.Call.Attempt.(*reentrantAttempt).inherit(t)
		l.takeSpared().LeaveWith(ErrClosed) // else the lock would be reserved for it
		leases = append(leases, l)
	}
	return leases
}

// accept makes the hold that was transferred the owner's. Neither a hold nor an error: the owner has one already.
func (a *reentrantAttempt) accept(ctx context.Context, t *transfer) (*level, error) {
	l := a.inherit(t)
	if !a.owner.turn.takeUntil(ctx) {
		a.giveUp(l, t)
		return nil, driver.ErrAbandoned
	}
	defer a.owner.turn.give()
	if a.owner.lease != nil {
		a.giveUp(l, t)
		return nil, nil
	}
	h, err := a.wait.beginFor(a.owner, l, t.sent)
	if l.isAdopted() { // else Close sees to it
		t.arrived()
	}
	if err != nil {
		l.takeSpared().LeaveWith(err)
	}
	return h, err
}

// refuse gives back what was transferred to a call that has no use for it.
func (a *reentrantAttempt) refuse(t *transfer) { a.giveUp(a.inherit(t), t) }

// inherit makes the lease of a transfer. The request leaves nothing in doubt.
func (a *reentrantAttempt) inherit(t *transfer) *lease {
	p := a.protocol
	p.hold = t.hold
	l := newLease(a.lock.client, a.lock.key, p, t.sent, &a.lock.settings, script.Indeterminate{})
	l.since, l.passes, l.tokens = t.since, t.passes, t.tokens
	return l
}

// giveUp releases the lease of a transfer that was never begun, in the background.
func (a *reentrantAttempt) giveUp(l *lease, t *transfer) {
	l.mu.Lock()
	l.end(ErrNotHeld)
	l.mu.Unlock()
	l.takeSpared().LeaveWith(ErrNotHeld)
	l.client.retrier.Retry(l.cleanup(l.doubt))
	t.arrived()
}
