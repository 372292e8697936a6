package queue

import (
	"context"
	"crypto/rand"
	"strconv"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// receiver takes tasks for the callers of one Queue. It has one receive under
// way at a time, and numbers them: a copy of an earlier one takes nothing, and
// the next one returns what an unanswered one took.
type receiver struct {
	queue     *base
	settler   *settler // of its deliveries
	name      string   // "<client id>:<n>"
	token     string   // drawn at random, beside the fences of its deliveries
	keys      []string
	wake      signal        // a task may be due
	clock     *clock        // of the callers that wait
	turn      chan struct{} // held while a receive is under way
	heartbeat time.Time     // of the last heartbeat; guarded by turn
	pace      pace          // of its answers; guarded by turn

	mu       sync.Mutex
	callers  int    // that wait, or receive
	listens  bool   // messages are heard
	last     uint64 // number of the last receive
	answered uint64 // number of the last one that was answered
}

// newReceiver returns a receiver with this name. Its deliveries go to s.
func newReceiver(s *settler, name string, wake signal) *receiver {
	q := s.queue
	return &receiver{
		queue: q, settler: s, name: name, token: rand.Text()[:8], keys: script.TaskReceive.On(q.redis, name),
		turn: make(chan struct{}, 1), wake: wake, clock: newClock(q, wake), pace: newPace(),
	}
}

// ask is what a caller wants of a receive.
type ask struct {
	want, then int
	lock       string // whose tasks it takes; "" for those that are due

	heartbeat, suspects bool // set by receive
}

// flags returns the two digits of the request.
func (a *ask) flags() string {
	flags := [2]byte{'0', '0'}
	for i, set := range [...]bool{a.heartbeat, a.suspects} {
		if set {
			flags[i] = '1'
		}
	}
	return string(flags[:])
}

// How a receiver goes on after a receive.
const (
	leaves    = 0 // it does not wait
	waits     = 1 // it waits if it gets nothing
	continues = 2 // it waits if it gets fewer than it wants
)

// enter notes that a caller is about to receive, and whether it may wait.
func (r *receiver) enter(waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.callers++
	if waits && !r.listens {
		r.listens = true
		r.queue.engine.Queue.ListenForTasks(r.queue.redis, r.name, r.wake.notify)
	}
}

// leave undoes enter. A caller that may have left something behind returns it
// before it returns itself: nothing of it is left for a worker that Close ends.
func (r *receiver) leave(idle bool) {
	r.mu.Lock()
	r.callers--
	stops := idle && (r.callers == 0 || r.last > r.answered)
	r.unlistenLocked()
	r.mu.Unlock()
	if stops {
		r.stop()
	}
}

// unlistenLocked ends the messages with the last caller. Otherwise it wakes
// another one: a message may have been meant for the caller that leaves, and
// its receive may have ended that the receiver is idle.
func (r *receiver) unlistenLocked() {
	if r.callers > 0 {
		r.wake.notify()
		return
	}
	r.listens = false
	r.queue.engine.Queue.ListenForTasks(r.queue.redis, r.name, nil)
}

// stop marks the receiver as no longer idle. That also returns what an
// unanswered receive took, and notifies another receiver of what is due. It
// takes no longer than one command may; unanswered, the retrier goes on. The
// caller that has the turn does the same: its number is higher than that of the
// caller that leaves.
func (r *receiver) stop() {
	e := r.queue.engine
	if e.Life.Err() != nil {
		return
	}
	select {
	case r.turn <- struct{}{}:
	default:
		return
	}
	defer func() { <-r.turn }()
	stop, number := r.request(&ask{then: leaves})
	limit := driver.Limits{End: time.Now().Add(e.CommandTimeout)}
	o, _ := script.Run(context.Background(), e.Driver, limit, stop, nil)
	if o.Err == nil {
		if answer, err := readAnswer(o.Reply); err == nil {
			r.hear(number)
			r.queue.logDead(answer.dead)
			return
		}
	}
	job := background.NewRelease(r.queue.name, r.queue.set.lease,
		0, script.Indeterminate{}, func(time.Time) script.Call { return stop })
	job.BestEffort = true // its leases end by themselves
	e.Retrier.Retry(job)
}

// request returns the next receive, and its number.
func (r *receiver) request(a *ask) (script.Call, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.queue.set
	r.last++
	return script.Call{Script: script.TaskReceive.Script, Together: r.keys, Args: []any{
		r.name, r.last, r.answered, a.want, s.lease.Milliseconds(), s.fatal,
		s.letters, milliseconds(s.age), a.flags(), a.then, s.inFlight,
		r.pace.bytes, a.lock, r.token + "/" + r.queue.engine.Identity.Taker(s.label),
	}}, r.last
}

// hear notes that the receive with this number was answered.
func (r *receiver) hear(number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answered = max(r.answered, number)
}

// received is the answer to a receive.
type received struct {
	deliveries []*Delivery
	again      bool          // there is more to do immediately
	noRoom     bool          // WithMaxInFlight leaves none for a task of the lock
	next       time.Duration // until something is due; negative if that is unknown
}

// receive takes up to as many tasks as are wanted.
func (r *receiver) receive(ctx context.Context, a ask) (received, error) {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return received{}, errs.EndOf(ctx, nil)
	}
	defer func() { <-r.turn }()
	r.queue.engine.CheckSuspended(time.Now())
	a.heartbeat = a.then != leaves && time.Since(r.heartbeat) >= pollPeriod*9/10
	a.suspects = r.queue.engine.Suspect.Free()
	call, number := r.request(&a)
	limit := r.pace.limits(r.queue.set.lease)
	o, unknown := script.Run(ctx, r.queue.engine.Driver, limit, call, nil)
	took := time.Since(o.Sent)
	if o.Err != nil {
		if ctx.Err() == nil && o.Unanswered() {
			r.pace.missed()
		}
		return received{}, driver.ContextErr(ctx, o.Err)
	}
	answer, err := readAnswer(o.Reply)
	if err != nil {
		return received{}, err // unheard: the next receive returns what this one took
	}
	r.hear(number)
	r.queue.logDead(answer.dead)
	r.pace.came(answer.size(), took, min(limit.Answer, r.queue.engine.CommandTimeout))
	if a.heartbeat && !unknown.Exists() {
		r.heartbeat = o.Sent
		r.queue.engine.Queue.Heartbeat(r.queue.redis, o.Sent, answer.heard)
	}
	// The answer to a second copy has the deliveries only.
	got := received{
		again: answer.code == script.ScanLimit || unknown.Exists(), noRoom: answer.code == script.Full, next: answer.next,
	}
	for _, t := range answer.taken {
		if d := r.deliver(ctx, o.Sent, &t); d != nil && r.mayRun(d) {
			got.deliveries = append(got.deliveries, d)
		} else {
			got.again = true // in its place
		}
	}
	if len(answer.taken) == a.want && r.isShared() {
		r.wake.notify() // the receiver is no longer idle, on behalf of others too
	}
	return got, nil
}

// deliver makes a Delivery of t. The receive request was sent at sent. It
// returns nil if the lease has ended already.
func (r *receiver) deliver(ctx context.Context, sent time.Time, t *taken) *Delivery {
	q, name := r.queue, strconv.FormatInt(t.fence, 10)+"@"+r.token
	p := &protocol{queue: q, settler: r.settler, id: t.id, fence: t.fence, name: name}
	if err := p.Begin(p, q.name+"/"+t.id, sent, &q.spec); err != nil {
		return nil // the lease ends by itself
	}
	d := &Delivery{
		Attempt: t.attempt, Interruptions: t.interrupted,
		queue: q, lease: p, protocol: p, start: time.Now(), values: ctx,
	}
	d.Task, d.EnqueuedAt, d.damage = readRecord(t.id, t.record)
	if d.damage != nil {
		d.ID, d.EnqueuedAt = t.id, d.start
	}
	return d
}

// mayRun reports whether a delivery may be run now. One task behind a lock may
// be a suspect too many: that is released.
func (r *receiver) mayRun(d *Delivery) bool {
	if d.Interruptions == 0 || r.queue.engine.Suspect.Take(d.isHarmless) {
		return true
	}
	d.reported = true // to nobody, as it was not announced
	// If this fails, its lease ends.
	_ = d.settle("release", verbRelease, milliseconds(busyPause), Released, nil)
	return false
}

// isShared reports whether several callers receive.
func (r *receiver) isShared() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.callers > 1
}
