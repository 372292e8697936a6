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
	start time.Time // the origin of the times in the heap

	mu      sync.Mutex // taken after Renewal.mu, never before it
	grants  expiryHeap
	timer   *time.Timer   // nil until it is first needed
	planned time.Duration // when the timer fires; 0 if it is not set
}

func newExpiryTimers(start time.Time) *expiryTimers { return &expiryTimers{start: start} }

// watch examines the grant when it expires; Renewal.mu must be held.
func (t *expiryTimers) watch(r *Renewal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.due < 0 {
		r.due = int32(len(t.grants))
		t.grants = append(t.grants, expiryTimer{})
	}
	t.move(r)
}

// again is watch for a grant whose valid until has changed. It does nothing if
// the grant is being examined; Renewal.mu must be held.
func (t *expiryTimers) again(r *Renewal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.due >= 0 {
		t.move(r)
	}
}

func (t *expiryTimers) move(r *Renewal) {
	t.grants[r.due] = expiryTimer{r.validUntil.Sub(t.start), r}
	heap.Fix(&t.grants, int(r.due))
	t.plan()
}

// forget stops watching the grant, which has ended.
func (t *expiryTimers) forget(r *Renewal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.due >= 0 {
		t.grants.take(int(r.due))
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
	wait := time.Until(t.start.Add(first))
	if t.timer == nil {
		t.timer = time.AfterFunc(wait, t.fire)
		return
	}
	t.timer.Reset(wait)
}

// expire is called by the expiry timer. It marks the grant lost and returns the
// follow-up work. If the grant has already ended or was extended meanwhile, it
// returns nil.
func (r *Renewal) expire() (follow func()) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	switch {
	case r.over != nil:
		return nil
	case time.Until(r.validUntil) > 0:
		r.of.Books().expiry.watch(r)
		return nil
	}
	return r.LoseLocked(r.of.Expired())
}

// fire marks all expired grants lost before it does the follow-up work.
func (t *expiryTimers) fire() {
	for _, follow := range endAll(t.due(), (*Renewal).expire) {
		follow()
	}
}

// endAll ends grants, and the groups that have too few members left. It returns
// the follow-up work, never nil. It calls no code of the user.
func endAll(grants []*Renewal, end func(*Renewal) (follow func())) []func() {
	follows := []func(){}
	for _, r := range grants {
		if follow := end(r); follow != nil {
			follows = append(follows, follow, r.of.Moved())
		}
	}
	return follows
}

// due removes and returns the grants that are to be examined now.
func (t *expiryTimers) due() (all []*Renewal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for now := time.Since(t.start); len(t.grants) > 0 && t.grants[0].at <= now; {
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
	grant *Renewal // its due is the index in the heap
}

// expiryHeap orders grants by time. It does not use Push and Pop, because they
// would allocate.
type expiryHeap []expiryTimer

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(a, b int) bool { return h[a].at < h[b].at }
func (h expiryHeap) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].grant.due, h[b].grant.due = int32(a), int32(b)
}
func (h expiryHeap) Push(any) {}
func (h expiryHeap) Pop() any { return nil }

// take removes the element i.
func (h *expiryHeap) take(i int) {
	last := len(*h) - 1
	(*h)[i].grant.due = -1
	if i != last {
		(*h)[i] = (*h)[last]
		(*h)[i].grant.due = int32(i)
	}
	(*h)[last] = expiryTimer{}
	*h = (*h)[:last]
	if i != last {
		heap.Fix(h, i)
	}
}
