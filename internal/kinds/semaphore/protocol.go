package semaphore

import (
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/script"
)

// protocol renews and releases a permit.
type protocol struct{ redisKey, hold string }

func (p protocol) Renew(length time.Duration) script.Call {
	return script.Call{Script: script.SemaphoreRenew, Key: p.redisKey, Args: []any{p.hold, length.Milliseconds()}}
}

func (p protocol) LockKey() string { return p.redisKey }
func (p protocol) HoldID() string  { return p.hold }

// Release does not say how long the permit stays: the server has noted it with
// the grant, so that no clock of a client counts.
func (p protocol) Release(lease.Levels, int, time.Duration) script.Call {
	return script.Call{Script: script.SemaphoreRelease, Key: p.redisKey, Args: []any{p.hold}}
}
