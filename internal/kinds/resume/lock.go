package resume

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/kinds/plain"
	"github.com/relock-go/relock/internal/kinds/reentrant"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/localwait"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/utils"
)

// Lock acquires a lock that was detached, once.
type Lock struct {
	acquire.Owned
	from *lockspec.Detached
}

// New returns how the lock of the token is acquired. Mode and fencing token are
// those of the detached hold.
func New(t *acquire.Target, from *lockspec.Detached) Lock {
	t.Settings.Fair, t.Settings.Fencing = from.Fair, from.Fence > 0
	return Lock{acquire.NewOwned(t), from}
}

// errUsed is the error of a token that was used, or whose time is over.
var errUsed = errs.Lost("the token was used, or its time is over")

// errUngiven is the error of a fencing token that Redis has not given.
var errUngiven = fmt.Errorf("%w: token: its fencing token is higher than the last one of the lock", errs.ErrInvalid)

// Take acquires the lock for the caller. It makes one attempt.
func (r Lock) Take(ctx context.Context, _, _ bool) (h *lease.Hold, waited bool, err error) {
	if err := r.Ready(ctx); err != nil {
		return nil, false, err
	}
	if r.from.Family == lockspec.PlainFamily {
		h, err = r.plain(ctx)
	} else {
		h, err = r.reentrant(ctx)
	}
	return h, false, driver.ContextErr(ctx, err)
}

func (r Lock) plain(ctx context.Context) (*lease.Hold, error) {
	value, err := r.Manager.Identity.NewValue(&r.Settings)
	if err != nil {
		return nil, err
	}
	next := plain.ProtocolOf(r.RedisKey(), value, r.from.Keep > 0)
	g, err := r.transfer(ctx, next, func(length time.Duration) script.Call {
		from := lockspec.ValueOf(r.from.Hold, r.from.Fair)
		return script.Call{Script: script.Transfer, Key: r.RedisKey(), Args: []any{from, value, length.Milliseconds()}}
	})
	if err != nil {
		return nil, err
	}
	return r.Manager.Grant(ctx, g)
}

func (r Lock) reentrant(ctx context.Context) (*lease.Hold, error) {
	caller, err := r.Owner(ctx)
	if err != nil {
		return nil, err
	}
	id, err := utils.NewID()
	if err != nil {
		return nil, err
	}
	o := r.Manager.Owners.Enter(caller)
	defer o.Exit()
	return o.First(ctx, func() (*lease.Hold, error) {
		next := reentrant.Protocol{RedisKey: r.RedisKey(), Owner: caller.ID, Hold: id}
		g, err := r.transfer(ctx, next, func(length time.Duration) script.Call {
			from := reentrant.Protocol{RedisKey: next.RedisKey, Owner: lockspec.DetachedOwner, Hold: r.from.Hold}
			return from.GiveTo(next, length, r.Manager.Identity.Info(r.Settings.Label))
		})
		if err != nil {
			return nil, err
		}
		return o.Grant(&localwait.Call{Caller: ctx, Ctx: ctx, Settings: g.Settings}, g)
	})
}

// transfer gives the lock to the hold of next. Without a grant, that hold is
// released in the background if it may exist.
func (r Lock) transfer(
	ctx context.Context, next lease.Protocol, request func(length time.Duration) script.Call,
) (*lease.Grant, error) {
	s := r.Settings
	keep, err := r.keep(ctx)
	if err != nil {
		return nil, err
	}
	s.MinHold = keep
	o, d := r.Manager.Ask(ctx, &s, r.withFence(request(s.Expiry())))
	g := &lease.Grant{
		Key: r.Key, Protocol: next, Sent: o.Sent, Settings: &s, Tokens: script.Tokens{Fence: r.from.Fence}, Indeterminate: d,
	}
	if o.Err == nil && o.Reply == int64(script.OK) {
		return g, nil
	}
	if d.Exists() {
		r.Manager.Retrier.Retry(acquire.Cleanup(r.Key, next, &s, d))
	}
	if o.Err != nil {
		return nil, o.Err
	}
	switch o.Reply {
	case int64(script.Ungiven):
		return nil, errUngiven
	case int64(script.Forced):
		return nil, errs.Forced("")
	}
	if err := r.Manager.Notice(ctx, driver.ForLease(s.Lease), r.RedisKey(), r.from.Hold); err != nil {
		return nil, err
	}
	return nil, errUsed
}

// withFence adds the fencing token, if there is one, for the server to check.
func (r Lock) withFence(c script.Call) script.Call {
	if r.from.Fence > 0 {
		c.Script, c.Args = c.Script.Fenced, append(c.Args, r.from.Fence)
	}
	return c
}

// keep returns what is left of the minimum hold. The server counts the time
// since the lock was detached: it is what the key stays less.
func (r Lock) keep(ctx context.Context) (time.Duration, error) {
	if r.from.Keep == 0 {
		return 0, nil
	}
	o := r.Manager.Driver.Send(ctx, driver.ForLease(r.Settings.Lease),
		driver.Request{Cmd: "PTTL", Args: []any{r.RedisKey()}})
	left, err := driver.Int64(o.Reply, o.Err)
	if err != nil {
		return 0, err
	}
	passed := max(0, r.from.Stay-time.Duration(left)*time.Millisecond)
	return max(0, r.from.Keep-passed).Truncate(time.Millisecond), nil
}
