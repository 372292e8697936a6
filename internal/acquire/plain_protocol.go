package acquire

import (
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// plainProtocol renews and releases the string of a plain lock.
type plainProtocol struct{ redisKey, value string }

// keptProtocol is that of a lock whose release may have to keep the key. It is
// a separate type, because each held lock has a protocol in memory.
type keptProtocol struct{ plainProtocol }

// protocolOf returns the protocol of a hold. mayKeep reports whether a release
// may have to keep the key.
func protocolOf(redisKey, value string, mayKeep bool) lease.Protocol {
	p := plainProtocol{redisKey, value}
	if mayKeep {
		return keptProtocol{p}
	}
	return p
}

func (p plainProtocol) LockKey() string { return p.redisKey }
func (p plainProtocol) HoldID() string  { return lockspec.HoldOf(p.value) }

func (p plainProtocol) Renew(length time.Duration) script.Call {
	return script.Call{Script: script.Renew, Key: p.redisKey, Args: []any{p.value, length.Milliseconds()}}
}

// Detach is transfer.lua. A release names the next value.
func (p plainProtocol) Detach(
	next string, i lockspec.Identity, s *lockspec.Spec, stay time.Duration,
) (call script.Call, successor string) {
	value := i.Value(next, s)
	return script.Call{Script: script.Transfer, Key: p.redisKey, Args: []any{p.value, value, stay.Milliseconds()}}, value
}

// Release is release.lua. In front of it stands release_alone.lua, which frees
// a lock that nobody waits for. Otherwise give_back of queue.lua hands it on.
func (p plainProtocol) Release(_ lease.Levels, _ int, keep time.Duration) script.Call {
	return p.release(keep, "")
}

func (p keptProtocol) Release(_ lease.Levels, _ int, keep time.Duration) script.Call {
	return p.release(keep, lockspec.KeptValue(p.value))
}

// release frees the key, or keeps it with the value kept; "" if it never is.
func (p plainProtocol) release(keep time.Duration, kept string) script.Call {
	return script.Call{Script: script.Release, Key: p.redisKey, Args: []any{p.value, keep.Milliseconds(), kept}}
}
