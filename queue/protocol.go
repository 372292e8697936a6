package queue

import (
	"context"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/validity"
)

// What becomes of a task.
const (
	verbAck     = "a"
	verbNack    = "n"
	verbDead    = "d"
	verbRelease = "r"
	verbBehind  = "b" // released, and behind a lock
)

// protocol is the lease of one delivery: it is valid and renewed as the lease
// of a lock is. Only Settle sends something at its end. The function of a
// delivery that was lost, or that Close ends, may still be running.
type protocol struct {
	validity.Renewal
	queue   *base
	settler *settler
	id      string
	fence   int64
	name    string // the fence and the token of the receiver

	mu       sync.Mutex // taken after that of the Renewal
	verb     string     // "" until it is settled
	argument any
	ends     holds.Contexts
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

// Books returns the books of the client.
func (p *protocol) Books() *validity.Books { return p.queue.engine.Books }

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

// settlement returns the settle. It is asked for after choose only.
func (p *protocol) settlement() script.Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.queue.set
	return script.Call{Script: script.TaskSettle.Script, Together: p.queue.settleKeys, Args: []any{
		milliseconds(s.unique), s.letters, milliseconds(s.age), min(s.inFlight, 1), p.id, p.name, p.verb, p.argument,
	}}
}

// LockKey returns a key of the queue, to whose server renewals go.
func (p *protocol) LockKey() string { return p.queue.renewKeys[0] }

// CancelWith calls cancel when the lease ends, or immediately if it has ended.
func (p *protocol) CancelWith(cancel context.CancelCauseFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends.Add(cancel)
}

// Ended ends the contexts when the lease has ended.
func (p *protocol) Ended(why error) (follow func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends.End(why)
	return p.Leave
}

// Settle ends the lease in this process first. Then it sends what becomes of
// the task, together with other settles.
func (p *protocol) Settle() error {
	start := time.Now()
	if over := p.End(errs.ErrNotHeld); over != nil {
		return errs.NotHeld(over)
	}
	send := func(limit driver.Limits) (driver.Result, script.Indeterminate) {
		return p.settler.settle(limit, p.settlement())
	}
	e := p.queue.engine
	o, first, err := e.Retrier.Confirm(start, min(e.CommandTimeout, p.queue.spec.Lease/3), send, p.retried)
	if err != nil {
		return err
	}
	lost, err := p.Judge(o, first)
	if lost {
		return errs.NotHeld(errs.Vanished)
	}
	return err
}

// retried returns the settle for the retrier.
func (p *protocol) retried() *background.Release {
	settle := func(time.Time) script.Call { return p.settlement() }
	return background.NewRelease(p.queue.name+"/"+p.id, p.queue.set.lease, p.queue.set.lease,
		script.Indeterminate{}, settle)
}
