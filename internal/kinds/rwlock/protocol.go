package rwlock

import (
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/script"
)

// protocol enters, renews and releases a hold of a read/write lock.
type protocol struct {
	redisKey, hold string
}

var _ lease.Enterer = protocol{}

func (p protocol) Enter(l lease.Levels, seq int, length time.Duration) script.Call {
	return script.Call{
		Script: script.RWEnter, Key: p.redisKey, Args: []any{p.hold, l.All - l.Writes, l.Writes, seq, length.Milliseconds()},
	}
}

func (p protocol) Renew(length time.Duration) script.Call {
	return script.Call{Script: script.RWRenew, Key: p.redisKey, Args: []any{p.hold, length.Milliseconds()}}
}

func (p protocol) LockKey() string { return p.redisKey }
func (p protocol) HoldID() string  { return p.hold }

// Release does not keep the key: a read/write lock has no minimum hold.
func (p protocol) Release(l lease.Levels, seq int, _ time.Duration) script.Call {
	writes := min(l.Writes, l.All)
	return script.Call{Script: script.RWRelease, Key: p.redisKey, Args: []any{p.hold, l.All - writes, writes, seq}}
}
