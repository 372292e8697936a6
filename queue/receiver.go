package queue

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/script"
)

// receiver takes tasks for the callers of one Queue. It has one receive under
// way at a time, and numbers them: a copy of an earlier one takes nothing, and
// the next one returns what an unanswered one took.
type receiver struct {
	queue     *Queue
	name      string // "<client id>:<n>"
	keys      []string
	wake      chan struct{} // has a value if a task may be due
	turn      chan struct{} // held while a receive is under way
	heartbeat time.Time     // of the last heartbeat; guarded by turn

	mu       sync.Mutex
	callers  int    // that wait, or receive
	listens  bool   // messages are heard
	last     uint64 // number of the last receive
	answered uint64 // number of the last one that was answered
}

func newReceiver(q *Queue) *receiver {
	name := q.engine.Queue.NewHold()
	return &receiver{
		queue: q, name: name, keys: script.TaskReceive.On(q.redis, name),
		turn: make(chan struct{}, 1), wake: make(chan struct{}, 1),
	}
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
		r.queue.engine.Queue.ListenForTasks(r.queue.redis, r.name, r.notify)
	}
}

// leave undoes enter. A caller that may have left something behind returns it.
func (r *receiver) leave(idle bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.callers--
	if idle && (r.callers == 0 || r.last > r.answered) {
		r.stopLocked()
	}
	if r.callers > 0 {
		// A message may have been meant for the caller that leaves, and its
		// receive may have ended that the receiver is idle.
		r.notify()
		return
	}
	r.listens = false
	r.queue.engine.Queue.ListenForTasks(r.queue.redis, r.name, nil)
}

// stopLocked marks the receiver as no longer idle. That also returns what
// an unanswered receive took, and notifies another receiver of what is due.
// The caller that has the turn does the same: its number is higher than that
// of the caller that leaves.
func (r *receiver) stopLocked() {
	if r.queue.engine.Life.Err() != nil {
		return
	}
	select {
	case r.turn <- struct{}{}:
	default:
		return
	}
	stop, _ := r.requestLocked(0, leaves, 0)
	job := background.NewRelease(r.queue.name, r.queue.set.lease, 0, script.Indeterminate{}, func(time.Time) script.Call { return stop })
	job.BestEffort = true // its leases end by themselves
	r.queue.engine.Retrier.Retry(job)
	<-r.turn
}

// notify wakes a caller that waits.
func (r *receiver) notify() {
	select {
	case r.wake <- struct{}{}:
	default: // one is pending
	}
}

// request returns the next receive, and its number.
func (r *receiver) request(want, then, heartbeat int) (script.Call, uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requestLocked(want, then, heartbeat)
}

func (r *receiver) requestLocked(want, then, heartbeat int) (script.Call, uint64) {
	s := &r.queue.set
	r.last++
	return script.Call{Script: script.TaskReceive.Script, Together: r.keys, Args: []any{
		r.name, r.last, r.answered, want, s.lease.Milliseconds(), s.attempts, s.letters, milliseconds(s.age), heartbeat, then,
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
	next       time.Duration // until something is due; negative if that is unknown
}

// receive takes up to want tasks.
func (r *receiver) receive(ctx context.Context, want, then int) (received, error) {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return received{}, errs.EndOf(ctx, nil)
	}
	defer func() { <-r.turn }()
	r.queue.engine.CheckSuspended(time.Now())
	heartbeat := 0
	if then != leaves && time.Since(r.heartbeat) >= pollPeriod*9/10 {
		heartbeat = 1
	}
	call, number := r.request(want, then, heartbeat)
	o, unknown := script.Run(ctx, r.queue.engine.Driver, driver.ForLease(r.queue.set.lease), call, nil)
	if o.Err != nil {
		return received{}, driver.Ended(ctx, o.Err)
	}
	answer, err := readAnswer(o.Reply)
	if err != nil {
		return received{}, err // unheard: the next receive returns what this one took
	}
	r.hear(number)
	if heartbeat == 1 && !unknown.Exists() {
		r.heartbeat = o.Sent
		r.queue.engine.Queue.Heartbeat(r.queue.redis, o.Sent, answer.heard)
	}
	// The answer to a second copy has the deliveries only.
	got := received{again: answer.code == script.More || unknown.Exists(), next: answer.next}
	for _, t := range answer.taken {
		if d := r.queue.deliver(ctx, o.Sent, &t); d != nil {
			got.deliveries = append(got.deliveries, d)
		} else {
			got.again = true // in its place
		}
	}
	if len(answer.taken) == want && r.isShared() {
		r.notify() // the receiver is no longer idle, on behalf of others too
	}
	return got, nil
}

// isShared reports whether several callers receive.
func (r *receiver) isShared() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.callers > 1
}

// answer is what a receive script answers.
type answer struct {
	code, heard int64
	next        time.Duration
	taken       []taken
}

// taken is one delivery in an answer.
type taken struct {
	id             string
	fence, attempt int64
	record         []byte
}

func readAnswer(reply any) (a answer, err error) {
	values, err := driver.Values(reply, nil)
	if err != nil {
		return a, err
	}
	var next int64
	values, err = driver.Scan(values, &a.code, &next, &a.heard)
	a.next = time.Duration(next) * time.Microsecond
	for len(values) > 0 && err == nil {
		var t taken
		values, err = driver.Scan(values, &t.id, &t.fence, &t.attempt, &t.record)
		a.taken = append(a.taken, t)
	}
	return a, err
}

// pause returns how long an idle receiver waits without a message.
func (r *receiver) pause(next time.Duration) time.Duration {
	pause := pollPeriod - rand.N(pollPeriod/20)
	if !r.queue.engine.Queue.Reached(r.queue.redis) {
		pause = unheard + rand.N(unheard/5)
	}
	if next >= 0 {
		pause = min(pause, next+time.Millisecond/10)
	}
	return pause
}

// sleep waits until a task may be due. It returns an error if ctx or the client
// has ended.
func (r *receiver) sleep(ctx context.Context, next time.Duration) error {
	return r.wait(ctx, r.pause(next), r.wake)
}

// wait waits for the pause, or until wake has a value. It returns an error if
// ctx or the client has ended.
func (r *receiver) wait(ctx context.Context, pause time.Duration, wake <-chan struct{}) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-wake:
	case <-timer.C:
	case <-ctx.Done():
		return errs.EndOf(ctx, nil)
	case <-r.queue.engine.Life.Done():
		return errs.ErrClosed
	}
	return nil
}
