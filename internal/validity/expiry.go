package validity

import (
	"container/heap"
	"sync"
	"time"
)

// expiryTimers declares the grants of a client lost when they are no longer
// valid, without a request. One timer serves all of them. A renewal does not
// touch it: a grant is examined when it would have expired. If it was renewed,
// it is examined again at its new time. If many grants expire together, as in
// an outage, all are marked lost before the follow-up work for any of them.
type expiryTimers struct {
	clock // of the times in the heap

	mu      sync.Mutex // taken after that of a grant, never before it
	grants  expiryHeap
	timer   *time.Timer   // nil until it is first needed
	planned time.Duration // when the timer fires; 0 if it is not set
}

// followUps are what is to be done after grants were marked lost. All that end
// together are marked first, because a follow-up may call code of the user.
type followUps []func()

func (f followUps) run() {
	for _, follow := range f {
		follow()
	}
}

// timed is a grant that is examined when it would have expired.
type timed interface {
	// expire marks the grant lost if it has expired, and returns the follow-up
	// work. Otherwise it has the grant watched again, unless that has ended.
	expire() followUps
	// timer returns the grant's index in the heap, or -1 if it is not there.
	// The mutex of the timers guards it.
	timer() *int32
}

// watch examines the grant when it expires, at until; the mutex of the grant
// must be held.
func (t *expiryTimers) watch(g timed, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if due := g.timer(); *due < 0 {
		*due = int32(len(t.grants))
		t.grants = append(t.grants, expiryTimer{})
	}
	t.move(g, until)
}

// again is watch for a grant whose valid until has changed. It does nothing if
// the grant is being examined; the mutex of the grant must be held.
func (t *expiryTimers) again(g timed, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if *g.timer() >= 0 {
		t.move(g, until)
	}
}

func (t *expiryTimers) move(g timed, until time.Time) {
	due := int(*g.timer())
	t.grants[due] = expiryTimer{t.Count(until), g}
	heap.Fix(&t.grants, due)
	t.plan()
}

// forget stops watching the grant, which has ended.
func (t *expiryTimers) forget(g timed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if due := *g.timer(); due >= 0 {
		t.grants.take(int(due))
	}
}

// plan sets the timer, unless it fires soon enough already. A timer that fires
// for nothing is rare and does no harm. In return, a lock that is held for a
// moment costs no change of the timer.
func (t *expiryTimers) plan() {
	if len(t.grants) == 0 {
		return
	}
	first := t.grants[0].at
	if t.planned != 0 && t.planned <= first {
		return
	}
	t.planned = max(first, 1)
	wait := time.Until(t.At(first))
	if t.timer == nil {
		t.timer = time.AfterFunc(wait, t.fire)
		return
	}
	t.timer.Reset(wait)
}

// fire marks all expired grants lost before it does the follow-up work.
func (t *expiryTimers) fire() {
	var follow followUps
	for _, g := range t.due() {
		follow = append(follow, g.expire()...)
	}
	follow.run()
}

// due removes and returns the grants that are to be examined now.
func (t *expiryTimers) due() (all []timed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for now := t.now(); len(t.grants) > 0 && t.grants[0].at <= now; {
		all = append(all, t.grants[0].grant)
		t.grants.take(0)
	}
	t.planned = 0
	t.plan()
	return all
}

func (t *expiryTimers) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
	}
}

// expiryTimer is a grant and the time at which to examine it.
type expiryTimer struct {
	at    time.Duration
	grant timed
}

// expiryHeap orders grants by time. It does not use Push and Pop, because they
// would allocate.
type expiryHeap []expiryTimer

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(a, b int) bool { return h[a].at < h[b].at }
func (h expiryHeap) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	*h[a].grant.timer(), *h[b].grant.timer() = int32(a), int32(b)
}
func (h expiryHeap) Push(any) {}
func (h expiryHeap) Pop() any { return nil }

// take removes the element i.
func (h *expiryHeap) take(i int) {
	last := len(*h) - 1
	*(*h)[i].grant.timer() = -1
	if i != last {
		(*h)[i] = (*h)[last]
		*(*h)[i].grant.timer() = int32(i)
	}
	(*h)[last] = expiryTimer{}
	*h = (*h)[:last]
	if i != last {
		heap.Fix(h, i)
	}
}
