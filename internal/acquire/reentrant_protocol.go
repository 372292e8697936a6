package acquire

import (
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// reentrantProtocol enters, renews and releases the hash of a reentrant lock.
type reentrantProtocol struct{ redisKey, owner, hold string }

func (p reentrantProtocol) acquire(s *lockspec.Spec, info string) script.Call {
	return script.Call{Script: s.Variant(script.ReentrantAcquire), Key: p.redisKey, Args: []any{
		p.owner, p.hold, s.Expiry().Milliseconds(), info,
	}}
}

func (p reentrantProtocol) Enter(l lease.Levels, seq int, length time.Duration) script.Call {
	return script.Call{
		Script: script.ReentrantEnter, Key: p.redisKey, Args: []any{p.owner, p.hold, l.All, seq, length.Milliseconds()},
	}
}

func (p reentrantProtocol) Renew(length time.Duration) script.Call {
	return script.Call{Script: script.ReentrantRenew, Key: p.redisKey, Args: []any{p.hold, length.Milliseconds()}}
}

func (p reentrantProtocol) HeldBy(owner, hold string) lease.Protocol {
	return reentrantProtocol{p.redisKey, owner, hold}
}

func (p reentrantProtocol) LockKey() string { return p.redisKey }
func (p reentrantProtocol) HoldID() string  { return p.hold }

func (p reentrantProtocol) Release(l lease.Levels, seq int, keep time.Duration) script.Call {
	return script.Call{
		Script: script.ReentrantRelease, Key: p.redisKey, Args: []any{p.owner, p.hold, l.All, seq, keep.Milliseconds()},
	}
}

// Detach is reentrant_transfer.lua. A release names the next id.
func (p reentrantProtocol) Detach(
	next string, i lockspec.Identity, s *lockspec.Spec, stay time.Duration,
) (call script.Call, successor string) {
	detached := reentrantProtocol{p.redisKey, lockspec.DetachedOwner, next}
	return p.giveTo(detached, stay, i.Info(s.Label)), next
}

// giveTo is reentrant_transfer.lua without a new fencing token.
func (p reentrantProtocol) giveTo(next reentrantProtocol, length time.Duration, info string) script.Call {
	return script.Call{Script: script.ReentrantTransfer, Key: p.redisKey, Args: []any{
		p.hold, p.owner, next.hold, next.owner, length.Milliseconds(), info,
	}}
}

func (p reentrantProtocol) Transfer(t *lease.Transfer, length time.Duration, info string) script.Call {
	return script.Call{Script: t.Waiter.Call.Settings.Variant(script.ReentrantTransfer), Key: p.redisKey, Args: []any{
		p.hold, p.owner, t.Hold, t.Owner, length.Milliseconds(), info,
	}}
}
