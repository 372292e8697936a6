package lease

import (
	"context"
	"sync"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// gathering sends the releases of the members of a MultiLock together. Each
// member unlocks on its own goroutine. The last one that comes sends what all
// have brought, and each gets its answer.
type gathering struct {
	client *client

	mu      sync.Mutex
	awaited map[*Lease]struct{} // the members that have not come yet
	limit   driver.Limits
	calls   []script.Call
	answers []chan released // by call
}

// released is the answer to a release.
type released struct {
	result        driver.Result
	indeterminate script.Indeterminate
}

func newGathering(c *client, members []member) *gathering {
	g := &gathering{client: c, awaited: make(map[*Lease]struct{}, len(members))}
	for _, one := range members {
		g.awaited[one.lease] = struct{}{}
	}
	return g
}

// send sends the release of a member together with those of the others. It
// reports whether it did: nothing waits for a member that is not awaited.
func (g *gathering) send(l *Lease, limit driver.Limits, release script.Call) (r released, sent bool) {
	answer := make(chan released, 1)
	g.mu.Lock()
	_, sent = g.awaited[l]
	if sent {
		g.limit, g.calls, g.answers = limit, append(g.calls, release), append(g.answers, answer)
	}
	g.mu.Unlock()
	if !sent {
		return r, false
	}
	g.leave(l)
	return <-answer, true
}

// leave is called when a member has come, or has unlocked without a release.
func (g *gathering) leave(l *Lease) {
	g.mu.Lock()
	delete(g.awaited, l)
	ready := len(g.awaited) == 0
	calls, answers := g.calls, g.answers
	if ready {
		g.calls, g.answers = nil, nil
	}
	g.mu.Unlock()
	if !ready || len(calls) == 0 {
		return
	}
	results, left := script.RunAll(context.Background(), g.client.Driver, g.limit, calls)
	for i, answer := range answers {
		answer <- released{results[i], left[i]}
	}
}

// unlockTogether unlocks all members of a MultiLock. It returns the channel of
// the results, and their number.
func (g *Group) unlockTogether() (all <-chan result, n int) {
	those := g.joined()
	with := newGathering(g.client, those)
	g.gathering.Store(with)
	results := make(chan result, len(those))
	for _, one := range those {
		run := func() {
			err := one.hold.Unlock()
			with.leave(one.lease)
			results <- result{one.n, err}
		}
		if !one.lease.client.Tasks.Start(run) {
			with.leave(one.lease) // the client is closed: none waits for this one
			run()
		}
	}
	return results, len(those)
}
