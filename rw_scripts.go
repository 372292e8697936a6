package relock

import (
	"time"

	"github.com/relock-go/relock/internal/script"
)

// rwProtocol enters, renews and releases a hold of a read/write lock.
type rwProtocol struct {
	redisKey, hold string
}

func (p rwProtocol) enter(l levels, seq int, length time.Duration) script.Call {
	return script.Call{Script: script.RWEnter, Key: p.redisKey, Args: []any{p.hold, l.all - l.writes, l.writes, seq, length.Milliseconds()}}
}

func (p rwProtocol) renew(length time.Duration) script.Call {
	return script.Call{Script: script.RWRenew, Key: p.redisKey, Args: []any{p.hold, length.Milliseconds()}}
}

func (p rwProtocol) lockKey() string { return p.redisKey }
func (p rwProtocol) holdID() string  { return p.hold }

// release does not keep the key: a read/write lock has no minimum hold.
func (p rwProtocol) release(l levels, seq int, _ time.Duration) script.Call {
	writes := min(l.writes, l.all)
	return script.Call{Script: script.RWRelease, Key: p.redisKey, Args: []any{p.hold, l.all - writes, writes, seq}}
}
