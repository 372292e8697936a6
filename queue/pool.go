package queue

import (
	"sync"
	"time"
)

// pool has the workers of one call of Process, and the runs in their hands. A
// worker that is not needed waits for the next run.
type pool struct {
	handle func(*run) // on a worker
	limit  time.Duration

	group   sync.WaitGroup
	next    chan *run // for workers that wait; has room for all
	mu      sync.Mutex
	closed  bool // next is closed: a worker does not wait
	waiting int  // workers that wait, or are about to
	running map[*run]struct{}
	alarm   alarm
}

// newPool returns a pool for up to so many workers, which handle runs that are
// examined after the limit.
func newPool(workers int, limit time.Duration, handle func(*run)) *pool {
	p := &pool{handle: handle, limit: limit, next: make(chan *run, workers), running: map[*run]struct{}{}}
	p.alarm.fire = p.check
	return p
}

// close ends the workers that wait.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	close(p.next)
}

// begin gives a delivery to a worker that waits, or starts another one. A new
// goroutine takes longer: its stack must grow.
func (p *pool) begin(r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[r] = struct{}{}
	p.alarm.set(r.start.Add(p.limit))
	if p.waiting > 0 && !p.closed {
		p.waiting--
		p.next <- r
		return
	}
	p.group.Go(func() {
		for r := r; r != nil; r = <-p.next {
			p.work(r)
		}
	})
}

// work handles one delivery. The worker then waits, unless its function has
// ended the goroutine.
func (p *pool) work(r *run) {
	waits := 0
	defer func() { p.end(r, waits) }()
	p.handle(r)
	waits = 1
}

// end returns the slot of a run. waiting is how many workers wait after it.
func (p *pool) end(r *run, waiting int) {
	p.mu.Lock()
	delete(p.running, r)
	p.waiting += waiting
	p.mu.Unlock()
	if r.ended != nil {
		close(r.ended)
	}
	r.slot <- struct{}{}
}

// check examines all runs, and sets the alarm for the first that is due next.
func (p *pool) check() {
	var next time.Time
	for _, r := range p.checked() {
		if again := r.expire(time.Now()); next.IsZero() || !again.IsZero() && again.Before(next) {
			next = again
		}
	}
	if !next.IsZero() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.alarm.set(next)
	}
}

// checked returns the runs that the alarm concerns. One that begins later sets
// the alarm itself.
func (p *pool) checked() []*run {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alarm.at = time.Time{}
	all := make([]*run, 0, len(p.running))
	for r := range p.running {
		all = append(all, r)
	}
	return all
}

// stopAlarm ends the alarm for good.
func (p *pool) stopAlarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alarm.stop()
}
