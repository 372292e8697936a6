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
// answered, the lease is neither passed on nor extended. See docs/grants.md.
type claim struct {
	*waitqueue.Claim
	once    sync.Once     // closes settled
	settled chan struct{} // closed when it was answered, or the lease has ended
	// Guarded by Lease.mu.
	sent   bool                 // a copy is under way
	doubts script.Indeterminate // copies whose answers never came
}

// errUnclaimed is the error of a request that needs the claim's answer.
var errUnclaimed = fmt.Errorf("the grant by message is not confirmed: %w", driver.ErrTimeout)

// needClaim waits for the claim's answer on behalf of a request that needs it,
// and returns why that cannot be sent. Of a hold that has ended it says
// nothing: the caller finds that itself.
func (l *Lease) needClaim(ctx context.Context, h *Hold) error {
	c := l.unsettled()
	switch {
	case c == nil, l.await(ctx, c, l.client.CommandTimeout/2), h.Err() != nil:
		return nil
	case ctx.Err() != nil:
		return errs.EndOf(ctx, nil)
	}
	return errUnclaimed
}

// awaitClaim waits for the claim's answer on behalf of an Unlock, which begins
// now: for a sixth of the lease and half of the command timeout at most. It
// returns the claim, or nil, and the time after that.
func (l *Lease) awaitClaim(now time.Time) (*claim, time.Time) {
	c := l.unsettled()
	if c == nil {
		return nil, now
	}
	l.await(context.Background(), c, min(l.client.CommandTimeout, l.settings.Lease/3)/2)
	return c, time.Now()
}

// expectClaim makes a new lease that of a grant by message. It is valid while
// the reservation cannot end. Its release names the reservation too.
func (l *Lease) expectClaim(c *waitqueue.Claim) {
	l.validUntil = c.Drawn.Add(c.Length - lockspec.Drift(c.Length))
	l.ending = &ending{successor: c.Reservation}
	l.claim = &claim{Claim: c, settled: make(chan struct{})}
}

// unsettled returns the claim of a grant by message until it is answered, or
// nil.
func (l *Lease) unsettled() *claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claim
}

// requested returns when the grant was requested. That of a message was when
// the name of the waiter was drawn.
func (l *Lease) requested(sent time.Time) time.Time {
	if c := l.unsettled(); c != nil {
		return c.Drawn
	}
	return sent
}

// sendClaim returns the claim if it is still to be sent. A lease that has ended
// sends none.
func (l *Lease) sendClaim() (script.Call, bool) {
	if l.unsettled() == nil || l.check() != nil {
		return script.Call{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.claim == nil || l.over != nil {
		return script.Call{}, false
	}
	l.claim.sent = true
	return l.claim.Call, true
}

// claimLimit returns how long the answer to the claim may take, 0 without one.
func (l *Lease) claimLimit() time.Duration {
	if c := l.unsettled(); c != nil {
		return c.Length / 3
	}
	return 0
}

// handleClaim is Handle for the claim.
func (l *Lease) handleClaim(o driver.Result) (time.Time, bool) {
	l.noteClaim(o)
	if o.Err != nil {
		l.failed(o.Err)
		return time.Now().Add(jitter(l.claimLimit() / 10)), true
	}
	if code, _ := script.ReadGrant(o.Reply); code != script.Ours {
		return time.Now(), l.notOurs()
	}
	l.failing = false
	if l.extendValidity(o.Sent, l.settings.Lease) != nil {
		return time.Time{}, false
	}
	l.confirmClaim()
	return l.checked(o.Sent)
}

// noteClaim notes that a copy of the claim is no longer under way.
func (l *Lease) noteClaim(o driver.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.claim; c != nil {
		c.sent, c.doubts = false, c.doubts.Add(o)
	}
}

// confirmClaim notes that the claim was granted. The lease is as any other from
// now on.
func (l *Lease) confirmClaim() {
	l.mu.Lock()
	c := l.claim
	l.indeterminate, l.ending, l.claim = l.doubts(), nil, nil
	l.mu.Unlock()
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

// doubts returns the requests that may still take the lock; mu must be held.
func (l *Lease) doubts() script.Indeterminate {
	c := l.claim
	if c == nil {
		return l.indeterminate
	}
	d := l.indeterminate.Merge(c.doubts)
	if c.sent {
		d = d.Merge(script.Indeterminate{Last: time.Now()})
	}
	return d
}

// await waits until the claim c was answered or the lease has ended, for limit
// and for half of the validity at most: the caller needs the rest. It reports
// whether the claim is settled.
func (l *Lease) await(ctx context.Context, c *claim, limit time.Duration) bool {
	l.mu.Lock()
	left := time.Until(l.validUntil)
	l.mu.Unlock()
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
