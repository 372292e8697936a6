package plain

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/waitqueue"
)

// attempt is one call for a plain lock. Its first attempt is SET NX, which is
// sent once. A value without an answer goes to the release retrier, and
// never counts as a grant. All later attempts are scripts with another value:
// acquire, or those of the queue if the call waits or the lock is fair.
type attempt struct {
	*acquire.Target
	wait *acquire.Wait

	first         string               // value of SET NX, "" before it is sent; the script may replace it
	value         string               // value of the script, "" before it is sent
	indeterminate script.Indeterminate // of the script
}

// Try makes one attempt.
func (a *attempt) Try(ctx context.Context) (*lease.Hold, error) {
	if a.wait.Queued != nil {
		return a.queue(ctx)
	}
	if a.first == "" && a.canFastPath() {
		h, next, err := a.setNX(ctx)
		if !next {
			return h, err
		}
	}
	return a.script(ctx)
}

// body returns what the lock stores for a hold.
func (a *attempt) body(hold string) (value, info string) {
	return a.Manager.Identity.Value(hold, &a.Settings), ""
}

// queue makes an attempt in the order of the queue. While the keys of an unfair
// lock are not together, it overtakes the queue.
func (a *attempt) queue(ctx context.Context) (*lease.Hold, error) {
	s := a.wait.Queued.Settings // as requested: the entry may be inherited
	g, err := a.wait.Queued.Attempt(ctx)
	if acquire.Overtakes(err, &a.Settings) {
		return a.overtake(ctx)
	}
	if err != nil {
		return nil, err
	}
	p := ProtocolOf(a.RedisKey(), g.Body, s.MinHold > 0)
	return a.Manager.Grant(a.wait.Caller, lease.Queued(&g, a.Key, p, s))
}

// canFastPath reports whether SET NX may take the lock.
func (a *attempt) canFastPath() bool {
	return !a.Settings.Fair && !a.Settings.Fencing && a.Settings.Replicas == 0
}

// fastPath makes the first attempt of a call that may wait, before the call
// joins a line: the lock is usually uncontended. It reports whether the call is
// done.
func (a *attempt) fastPath() (h *lease.Hold, done bool, err error) {
	h, next, err := a.setNX(a.wait.Ctx)
	switch {
	case next && err == nil:
		a.wait.Note(errs.ErrLockAcquiredByOthers) // until the queue has a better reason
		return nil, false, nil
	case next:
		a.wait.Note(err)
		return nil, false, nil
	case err == nil:
		return h, true, nil
	}
	return a.wait.FailedFast(err)
}

// setNX is the fast path. It reports whether the script comes next in the same
// attempt. It does so if the key is taken, to find out by what, or if the
// connection broke.
func (a *attempt) setNX(ctx context.Context) (h *lease.Hold, next bool, err error) {
	value, err := a.Manager.Identity.NewValue(&a.Settings)
	if err != nil {
		return nil, false, err
	}
	a.Manager.CheckSuspended(time.Now())
	o := a.Manager.Driver.Send(ctx, driver.ForLease(a.Settings.Lease),
		driver.SetNX(a.RedisKey(), value, a.Settings.Expiry()))
	if o.Sent.IsZero() {
		return nil, false, o.Err
	}
	a.first = value
	if d := (script.Indeterminate{}).Add(o); d.Exists() {
		a.Manager.Retrier.Retry(a.cleanup(value, d))
	}
	switch {
	case o.Err != nil:
		return nil, o.Broke() && ctx.Err() == nil, o.Err
	case o.Reply == nil:
		return nil, true, nil
	case o.Reply != "OK":
		// Whatever this reply means, the key may be taken.
		a.Manager.Retrier.Retry(a.cleanup(value, script.Indeterminate{Error: true}))
		return nil, false, a.Settings.KeyConflict(nil)
	}
	h, err = a.grant(value, o.Sent, script.Tokens{}, script.Indeterminate{})
	return h, false, err
}

// overtake takes the key without the queue. A value that the key may have
// without an answer is released: the queue does not know it.
func (a *attempt) overtake(ctx context.Context) (*lease.Hold, error) {
	h, err := a.script(ctx)
	if err != nil {
		a.finish()
	}
	return h, err
}

// script takes the key if it is free, or has the value of the SET NX.
func (a *attempt) script(ctx context.Context) (*lease.Hold, error) {
	if a.value == "" {
		value, err := a.Manager.Identity.NewValue(&a.Settings)
		if err != nil {
			return nil, err
		}
		a.value = value
	}
	o, d := a.Manager.Ask(ctx, &a.Settings, script.Call{
		Script: a.Settings.Variant(script.Acquire), Key: a.RedisKey(),
		Args: []any{a.value, a.first, a.Settings.Expiry().Milliseconds()},
	})
	a.indeterminate = a.indeterminate.Merge(d)
	if o.Err != nil {
		return nil, o.Err
	}
	code, t := script.ReadGrant(o.Reply)
	if err := a.wait.Refusal(code, o.Reply, 1); err != nil {
		return nil, err
	}
	return a.grant(a.value, o.Sent, t, a.indeterminate)
}

// Entry uses an inherited entry as it is: the value that the entry stores names
// the client, not the call.
func (a *attempt) Entry(l *waitqueue.Line, left *waitqueue.Entry) *waitqueue.Entry {
	if left != nil {
		return left
	}
	w := waitqueue.NewEntry(l, &a.Settings, false, a.body)
	if a.first != "" {
		w.Earlier = lockspec.HoldOf(a.first)
	}
	return w
}

// grant makes the lease, which handles its own release from then on. If the
// lease is not valid any more, the old value is being released, and the wait
// goes on with a new one.
func (a *attempt) grant(
	value string, sent time.Time, t script.Tokens, d script.Indeterminate,
) (*lease.Hold, error) {
	p := ProtocolOf(a.RedisKey(), value, a.Settings.MinHold > 0)
	a.first, a.value, a.indeterminate = value, "", script.Indeterminate{}
	return a.Manager.Grant(a.wait.Caller,
		&lease.Grant{Key: a.Key, Protocol: p, Sent: sent, Settings: &a.Settings, Tokens: t, Indeterminate: d})
}

// finish releases the script's value after attempts that got no grant, if one
// of these scripts may still be executed. A later attempt draws another value.
func (a *attempt) finish() {
	if a.indeterminate.Exists() {
		a.Manager.Retrier.Retry(a.cleanup(a.value, a.indeterminate))
		a.value, a.indeterminate = "", script.Indeterminate{}
	}
}

func (a *attempt) cleanup(value string, d script.Indeterminate) *background.Release {
	return acquire.Cleanup(a.Key, Protocol{RedisKey: a.RedisKey(), Value: value}, &a.Settings, d)
}
