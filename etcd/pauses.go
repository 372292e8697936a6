package etcdlock

import (
	"context"
	"math/rand/v2"
	"time"
)

// sleep pauses for d, unless ctx is cancelled first. It reports whether d has
// passed.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pauses are the pauses between attempts. They grow while a server answers with
// errors or not at all.
type pauses struct{ last time.Duration }

const (
	firstPause = 10 * time.Millisecond
	maxPause   = 800 * time.Millisecond
)

func (p *pauses) next() time.Duration {
	p.last = max(firstPause, min(2*p.last, maxPause))
	return p.last + rand.N(p.last/5)
}
