package acquire

import (
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/script"
)

// redProtocol is how a node's part of a RedLock is released: with a message to those who wait, if the lock was had.
type redProtocol struct {
	plainProtocol
	whole *lease.Group
}

func (p redProtocol) Release(l lease.Levels, seq int, keep time.Duration) script.Call {
	s := p.plainProtocol.Release(l, seq, keep)
	if p.whole.NotifiesWaiters() {
		s.Script = script.RedLockRelease
	}
	return s
}
