package plain

import (
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// Protocol renews and releases the string of a plain lock.
type Protocol struct{ RedisKey, Value string }

var _ lease.Detacher = Protocol{}

// keptProtocol is that of a lock whose release may have to keep the key. It is
// a separate type, because each held lock has a protocol in memory.
type keptProtocol struct{ Protocol }

// ProtocolOf returns the protocol of a hold. mayKeep reports whether a
// release may have to keep the key.
func ProtocolOf(redisKey, value string, mayKeep bool) lease.Protocol {
	p := Protocol{redisKey, value}
	if mayKeep {
		return keptProtocol{p}
	}
	return p
}

// LockKey returns the key of the lock in Redis.
func (p Protocol) LockKey() string { return p.RedisKey }

// HoldID returns the id of the hold there.
func (p Protocol) HoldID() string { return lockspec.HoldOf(p.Value) }

// Renew makes the lease last for length from now.
func (p Protocol) Renew(length time.Duration) script.Call {
	return script.Call{Script: script.Renew, Key: p.RedisKey, Args: []any{p.Value, length.Milliseconds()}}
}

// Detach is transfer.lua. A release names the next value.
func (p Protocol) Detach(
	next string, i lockspec.Identity, s *lockspec.Spec, stay time.Duration,
) (call script.Call, successor string) {
	value := i.Value(next, s)
	return script.Call{Script: script.Transfer, Key: p.RedisKey, Args: []any{p.Value, value, stay.Milliseconds()}}, value
}

// Release is release.lua. In front of it stands release_alone.lua, which frees
// a lock that nobody waits for. Otherwise release of queue.lua hands it off.
func (p Protocol) Release(_ lease.Levels, _ int, keep time.Duration) script.Call {
	return p.release(keep, "")
}

func (p keptProtocol) Release(_ lease.Levels, _ int, keep time.Duration) script.Call {
	return p.release(keep, lockspec.KeptValue(p.Value))
}

// release frees the key, or keeps it with the value kept; "" if it never is.
func (p Protocol) release(keep time.Duration, kept string) script.Call {
	return script.Call{Script: script.Release, Key: p.RedisKey, Args: []any{p.Value, keep.Milliseconds(), kept}}
}
