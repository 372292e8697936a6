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
	s := p.releaseAlone(l, seq, keep)
	if p.whole.NotifiesWaiters() {
		s.Script = script.RedLockRelease
	}
	return s
}

// releaseAlone is Release that notifies nobody.
func (p redProtocol) releaseAlone(l lease.Levels, seq int, keep time.Duration) script.Call {
	return protocolOf(p.redisKey, p.value, p.minHold).Release(l, seq, keep)
}
