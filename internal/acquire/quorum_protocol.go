package acquire

import (
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/script"
)

// redProtocol releases a member of a RedLock on its node. The release notifies
// a waiter if the hold had a quorum, or if its call left.
type redProtocol struct {
	plainProtocol
	minHold bool
	whole   *lease.Group
}

func (p redProtocol) Release(l lease.Levels, seq int, keep time.Duration) script.Call {
	s := p.alone().Release(l, seq, keep)
	if p.whole.NotifiesWaiters() {
		s.Script = script.RedLockRelease
	}
	return s
}

// alone returns the protocol whose release notifies nobody.
func (p redProtocol) alone() lease.Protocol { return protocolOf(p.redisKey, p.value, p.minHold) }
