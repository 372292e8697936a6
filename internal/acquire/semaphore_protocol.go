package acquire

import (
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/script"
)

// semaphoreProtocol renews and releases a permit.
type semaphoreProtocol struct{ redisKey, hold string }

func (p semaphoreProtocol) Renew(length time.Duration) script.Call {
	return script.Call{Script: script.SemaphoreRenew, Key: p.redisKey, Args: []any{p.hold, length.Milliseconds()}}
}

func (p semaphoreProtocol) LockKey() string { return p.redisKey }
func (p semaphoreProtocol) HoldID() string  { return p.hold }

// Release does not say how long the permit stays: the server has noted it with
// the grant, so that no clock of a client counts.
func (p semaphoreProtocol) Release(lease.Levels, int, time.Duration) script.Call {
	return script.Call{Script: script.SemaphoreRelease, Key: p.redisKey, Args: []any{p.hold}}
}
