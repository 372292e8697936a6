package queue

import (
	"sync"
	"time"

	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// What becomes of a task.
const (
	verbAck     = "a"
	verbNack    = "n"
	verbDead    = "d"
	verbRelease = "r"
	verbBehind  = "b" // released, and behind a lock
)

// protocol renews and settles one delivery.
type protocol struct {
	queue *Queue
	id    string
	fence int64
	name  string // the fence and the token of the receiver

	mu       sync.Mutex
	verb     string // "" until it is settled
	argument any
}

// choose sets what becomes of the task, and reports whether it was not set
// before.
func (p *protocol) choose(verb string, argument any) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.verb != "" {
		return false
	}
	p.verb, p.argument = verb, argument
	return true
}

// isSettled reports whether choose was called.
func (p *protocol) isSettled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.verb != ""
}

// Renew returns the request that lengthens the lease.
func (p *protocol) Renew(length time.Duration) script.Call {
	return script.Call{
		Script: script.TaskRenew.Script, Together: p.queue.renewKeys,
		Args: []any{p.id, p.name, length.Milliseconds()},
	}
}

// Release returns the settle. Only Unlock asks for it, after choose.
func (p *protocol) Release(lease.Levels, int, time.Duration) script.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.queue.set
	return script.Call{Script: script.TaskSettle.Script, Together: p.queue.settler.keys, Args: []any{
		milliseconds(s.unique), s.letters, milliseconds(s.age), min(s.inFlight, 1), p.id, p.name, p.verb, p.argument,
	}}
}

// Settle sends the settle, together with others.
func (p *protocol) Settle(limit driver.Limits, release script.Call) (driver.Result, script.Indeterminate) {
	return p.queue.settler.settle(limit, release)
}

// LockKey returns a key of the queue, to whose server renewals go.
func (p *protocol) LockKey() string { return p.queue.renewKeys[0] }

// HoldID is empty: a delivery is no lock, and nobody ends it by force.
func (p *protocol) HoldID() string { return "" }
