package reentrant

import (
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// Protocol enters, renews and releases the hash of a reentrant lock.
type Protocol struct{ RedisKey, Owner, Hold string }

var (
	_ lease.Enterer     = Protocol{}
	_ lease.Transferrer = Protocol{}
	_ lease.Detacher    = Protocol{}
)

func (p Protocol) acquire(s *lockspec.Spec, info string) script.Call {
	return script.Call{Script: s.Variant(script.ReentrantAcquire), Key: p.RedisKey, Args: []any{
		p.Owner, p.Hold, s.Expiry().Milliseconds(), info,
	}}
}

// Enter sets the levels to l.
func (p Protocol) Enter(l lease.Levels, seq int, length time.Duration) script.Call {
	return script.Call{
		Script: script.ReentrantEnter, Key: p.RedisKey, Args: []any{p.Owner, p.Hold, l.All, seq, length.Milliseconds()},
	}
}

// Renew makes the lease last for length from now.
func (p Protocol) Renew(length time.Duration) script.Call {
	return script.Call{Script: script.ReentrantRenew, Key: p.RedisKey, Args: []any{p.Hold, length.Milliseconds()}}
}

// HeldBy returns the protocol of another hold of the lock.
func (p Protocol) HeldBy(owner, hold string) lease.Protocol {
	return Protocol{p.RedisKey, owner, hold}
}

// LockKey returns the key of the lock in Redis.
func (p Protocol) LockKey() string { return p.RedisKey }

// HoldID returns the id of the hold there.
func (p Protocol) HoldID() string { return p.Hold }

// Release sets the levels to l. If none are left, it releases the key, but not
// before keep has passed.
func (p Protocol) Release(l lease.Levels, seq int, keep time.Duration) script.Call {
	return script.Call{
		Script: script.ReentrantRelease, Key: p.RedisKey, Args: []any{p.Owner, p.Hold, l.All, seq, keep.Milliseconds()},
	}
}

// Detach is reentrant_transfer.lua. A release names the next id.
func (p Protocol) Detach(
	next string, i lockspec.Identity, s *lockspec.Spec, stay time.Duration,
) (call script.Call, successor string) {
	detached := Protocol{p.RedisKey, lockspec.DetachedOwner, next}
	return p.GiveTo(detached, stay, i.Info(s.Label)), next
}

// GiveTo is reentrant_transfer.lua without a new fencing token.
func (p Protocol) GiveTo(next Protocol, length time.Duration, info string) script.Call {
	return script.Call{Script: script.ReentrantTransfer, Key: p.RedisKey, Args: []any{
		p.Hold, p.Owner, next.Hold, next.Owner, length.Milliseconds(), info,
	}}
}

// Transfer gives the lock to a waiter of this process.
func (p Protocol) Transfer(t *lease.Transfer, length time.Duration, info string) script.Call {
	return script.Call{Script: t.Waiter.Call.Settings.Variant(script.ReentrantTransfer), Key: p.RedisKey, Args: []any{
		p.Hold, p.Owner, t.Hold, t.Owner, length.Milliseconds(), info,
	}}
}
