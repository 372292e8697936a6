package redlock

import (
	"time"

	"github.com/relock-go/relock/internal/kinds/plain"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/script"
)

// protocol releases a member of a RedLock on its node. The release notifies
// a waiter if the hold had a quorum, or if its call left.
type protocol struct {
	plain.Protocol
	minHold bool
	whole   *lease.Group
}

func (p protocol) Release(l lease.Levels, seq int, keep time.Duration) script.Call {
	s := p.alone().Release(l, seq, keep)
	if p.whole.NotifiesWaiters() {
		s.Script = script.RedLockRelease
	}
	return s
}

// alone returns the protocol whose release notifies nobody.
func (p protocol) alone() lease.Protocol { return plain.ProtocolOf(p.RedisKey, p.Value, p.minHold) }
