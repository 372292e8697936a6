package etcdlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
)

// firstLimit limits a request until that is known to be too short for the link.
// The next request may go to another member, so a longer one costs a caller
// more if a member hangs.
const firstLimit = 3 * time.Second

// pace is what the requests of a Locker have measured: how long an answer
// takes, and how long one request may take.
type pace struct {
	longest time.Duration // of a limit

	mu      sync.Mutex
	most    time.Duration // the limit of a request
	took    time.Duration // until an answer came; it follows faster answers slowly
	changed time.Time     // when a request was last answered, or most doubled
}

func newPace(longest time.Duration) *pace {
	return &pace{longest: longest, most: min(firstLimit, longest)}
}

// limit returns how long one request may take.
func (p *pace) limit() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most
}

// try returns how long the first attempts of a call may take that has d for all
// of them. The next attempt may meet a member that answers.
func (p *pace) try(d time.Duration) time.Duration {
	return min(d, max(d/3, p.times(2)))
}

// times returns n times as long as an answer takes.
func (p *pace) times(n time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return n * p.took
}

// note takes the result of a request that was sent at sent, and had limit for
// its answer. An error that the server has sent says nothing.
func (p *pace) note(sent time.Time, limit time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Since(sent)
	switch {
	case err == nil:
		p.took, p.changed = max(took, p.took/2), time.Now()
		p.most = min(p.longest, max(firstLimit, min(p.most, 4*p.took)))
	case took >= limit && limit > p.took && 4*limit >= 3*p.most && isLate(err) && sent.After(p.changed):
		// Nothing was answered meanwhile, so the link may be slower than known.
		// A request with much less time than most does not show that.
		p.most, p.changed = min(2*p.most, p.longest), time.Now()
	}
}

func isLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || codeOf(err) == codes.DeadlineExceeded
}
