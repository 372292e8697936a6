package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/waitqueue"
)

// claim is the claim of a lease that a message has granted. It is the first
// renewal: it makes the reservation the hold, with the whole lease. Until it is
// answered, the lease is neither passed on nor extended. See
// docs/internals/grants.md.
type claim struct {
	*waitqueue.Claim
	once    sync.Once     // closes settled
	settled chan struct{} // closed when it was answered, or the lease has ended
	// Guarded by Lease.Mu.
	sent   bool                 // a copy is under way
	doubts script.Indeterminate // copies whose answers never came
}

// byMessage is a lease as far as the claim of its grant goes. If no message has
// granted the lease, or the claim is settled, there is nothing to do.
type byMessage struct{ *Lease }

// errUnclaimed is the error of a request that needs the claim's answer.
var errUnclaimed = fmt.Errorf("the grant by message is not confirmed: %w", driver.ErrTimeout)

// need waits for the claim's answer on behalf of a request that needs it, and
// returns why that cannot be sent. It returns nil for a hold that has ended;
// the caller checks that.
func (l byMessage) need(ctx context.Context, h *Hold) error {
	c := l.pending()
	switch {
	case c == nil, l.await(ctx, c, l.client.CommandTimeout/2), h.Err() != nil:
		return nil
	case ctx.Err() != nil:
		return errs.EndOf(ctx, nil)
	}
	return errUnclaimed
}

// awaitFor waits for the claim's answer on behalf of an Unlock, which begins
// now: for a sixth of the lease and half of the command timeout at most. It
// returns the claim, or nil, and the time after that.
func (l byMessage) awaitFor(now time.Time) (*claim, time.Time) {
	c := l.pending()
	if c == nil {
		return nil, now
	}
	l.await(context.Background(), c, min(l.client.CommandTimeout, l.Settings.Lease/3)/2)
	return c, time.Now()
}

// expect makes a new lease that of a grant by message. It is valid while the
// reservation cannot end. Its release names the reservation too.
func (l byMessage) expect(c *waitqueue.Claim) {
	l.SetUntil(c.Drawn.Add(c.Length - lockspec.Drift(c.Length)))
	l.ending = &ending{successor: c.Reservation}
	l.claim = &claim{Claim: c, settled: make(chan struct{})}
}

// pending returns the claim of a grant by message until it is answered, or nil.
func (l byMessage) pending() *claim {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.claim
}

// requested returns when the grant was requested. That of a message was when
// the name of the waiter was drawn.
func (l byMessage) requested(sent time.Time) time.Time {
	if c := l.pending(); c != nil {
		return c.Drawn
	}
	return sent
}

// next returns the claim if it is still to be sent. A lease that has ended
// sends none.
func (l byMessage) next() (script.Call, bool) {
	if l.pending() == nil || l.Check() != nil {
		return script.Call{}, false
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if l.claim == nil || l.Over() != nil {
		return script.Call{}, false
	}
	l.claim.sent = true
	return l.claim.Call, true
}

// limit returns how long the answer to the claim may take, 0 without one.
func (l byMessage) limit() time.Duration {
	if c := l.pending(); c != nil {
		return c.Length / 3
	}
	return 0
}

// handle is Handle for the claim.
func (l byMessage) handle(o driver.Result) (time.Time, bool) {
	l.note(o)
	if o.Err != nil {
		return l.Retry(o.Err, l.limit()/10)
	}
	if code, _ := script.ReadGrant(o.Reply); code != script.OK {
		return l.Refused(code)
	}
	if l.Renewed(o.Sent, l.Settings.Lease) != nil {
		return time.Time{}, false
	}
	l.confirm()
	return l.Checked(o.Sent)
}

// note notes that a copy of the claim is no longer under way.
func (l byMessage) note(o driver.Result) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if c := l.claim; c != nil {
		c.sent, c.doubts = false, c.doubts.Add(o)
	}
}

// confirm notes that the claim was granted. The lease is as any other from
// now on.
func (l byMessage) confirm() {
	l.Mu.Lock()
	c := l.claim
	l.indeterminate, l.ending, l.claim = l.doubts(), nil, nil
	l.Mu.Unlock()
	c.forget()
	c.settle()
}

// settle ends the waits for the answer to the claim, which may be nil.
func (c *claim) settle() {
	if c != nil {
		c.once.Do(func() { close(c.settled) })
	}
}

// forget makes the queue forget the hold of the claim, which may be nil. From
// then on, a poll that finds its reservation cancels it.
func (c *claim) forget() {
	if c != nil {
		c.Settled()
	}
}

// await waits until the claim c was answered or the lease has ended, for limit
// and for half of the validity at most: the caller needs the rest. It reports
// whether the claim is settled.
func (l byMessage) await(ctx context.Context, c *claim, limit time.Duration) bool {
	l.Mu.Lock()
	left := time.Until(l.Until())
	l.Mu.Unlock()
	timer := time.NewTimer(min(limit, left/2))
	defer timer.Stop()
	select {
	case <-c.settled:
		return true
	case <-timer.C:
	case <-ctx.Done():
	case <-l.client.Life.Done():
	}
	return false
}

// waiter returns the name of the waiter whose grant is not claimed yet, or "".
// That waiter may take the lock later as a hold of the same id, but then not by
// that grant.
func (l byMessage) waiter() string {
	if c := l.pending(); c != nil {
		return lockspec.ReservedFor(c.Reservation)
	}
	return ""
}
