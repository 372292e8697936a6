package acquire

import (
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/script"
)

// rwProtocol enters, renews and releases a hold of a read/write lock.
type rwProtocol struct {
	redisKey, hold string
}

func (p rwProtocol) Enter(l lease.Levels, seq int, length time.Duration) script.Call {
	return script.Call{
		Script: script.RWEnter, Key: p.redisKey, Args: []any{p.hold, l.All - l.Writes, l.Writes, seq, length.Milliseconds()},
	}
}

func (p rwProtocol) Renew(length time.Duration) script.Call {
	return script.Call{Script: script.RWRenew, Key: p.redisKey, Args: []any{p.hold, length.Milliseconds()}}
}

func (p rwProtocol) LockKey() string { return p.redisKey }
func (p rwProtocol) HoldID() string  { return p.hold }

// Release does not keep the key: a read/write lock has no minimum hold.
func (p rwProtocol) Release(l lease.Levels, seq int, _ time.Duration) script.Call {
	writes := min(l.Writes, l.All)
	return script.Call{Script: script.RWRelease, Key: p.redisKey, Args: []any{p.hold, l.All - writes, writes, seq}}
}
