package queue

import (
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
)

// How many bytes of records an answer may bring: mostBytes over a fast link.
// One that may bring fewer than leastBytes brings one record.
const (
	mostBytes  = 4 << 20
	leastBytes = 64 << 10
)

// pace is how many bytes an answer may bring, so that it comes in time over
// this link. An answer that is too long for its limit is requested again, and
// would never come.
type pace struct{ bytes int }

func newPace() pace { return pace{mostBytes} }

// isOne reports whether an answer brings one record only.
func (p *pace) isOne() bool { return p.bytes == 1 }

// missed notes that an answer has not come in time. It reports whether fewer
// bytes can be requested.
func (p *pace) missed() bool {
	if p.isOne() {
		return false
	}
	p.set(p.bytes / 4)
	return true
}

// came notes how long an answer took that had a time limit. One that took more
// than half of that was almost too long. One that was fast may be longer.
func (p *pace) came(bytes int, took, limit time.Duration) {
	switch {
	case took > limit/2 && bytes >= leastBytes:
		p.set(min(p.bytes, int(float64(bytes)*float64(limit/2)/float64(took))))
	case took <= limit/4 && bytes >= p.bytes/2:
		p.set(max(2*p.bytes, 2*bytes, leastBytes))
	}
}

func (p *pace) set(bytes int) {
	if p.bytes = min(bytes, mostBytes); p.bytes < leastBytes {
		p.bytes = 1
	}
}

// limits returns the limits of a receive under this lease, which the client's
// own timeouts shorten. There is nothing smaller than one record, so that has
// more of the lease.
func (p *pace) limits(lease time.Duration) driver.Limits {
	limit := driver.ForLease(lease)
	if p.isOne() {
		limit.Answer *= 2
	}
	return limit
}
