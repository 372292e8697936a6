package lease

import (
	"container/heap"
	"sync"
	"time"
)

// expiryTimers declares the leases of a client lost when they are no longer
// valid, without a request. One timer serves all of them. A renewal does not
// touch it: a lease is examined when it would have expired. If it was renewed,
// it is examined again at its new time. If many leases expire together, as in
// an outage, all are marked lost before the follow-up work for any of them.
type expiryTimers struct {
	start time.Time // the origin of the times in the heap

	mu      sync.Mutex // taken after Lease.mu, never before it
	leases  expiryHeap
	timer   *time.Timer   // nil until it is first needed
	planned time.Duration // when the timer fires; 0 if it is not set
}

func newExpiryTimers() *expiryTimers { return &expiryTimers{start: time.Now()} }

// watch examines the lease when it expires; Lease.mu must be held.
func (b *expiryTimers) watch(l *Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.due < 0 {
		l.due = int32(len(b.leases))
		b.leases = append(b.leases, expiryTimer{})
	}
	b.move(l)
}

// again is watch for a lease whose valid until has changed. It does nothing if
// the lease is being examined; Lease.mu must be held.
func (b *expiryTimers) again(l *Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.due >= 0 {
		b.move(l)
	}
}

func (b *expiryTimers) move(l *Lease) {
	b.leases[l.due] = expiryTimer{l.validUntil.Sub(b.start), l}
	heap.Fix(&b.leases, int(l.due))
	b.plan()
}

// forget stops watching the lease; Lease.mu must be held.
func (b *expiryTimers) forget(l *Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.due >= 0 {
		b.leases.take(int(l.due))
	}
}

// plan sets the timer, unless it fires soon enough already. A timer that fires
// for nothing is rare and does no harm. In return, a lock that is held for a
// moment costs no change of the timer.
func (b *expiryTimers) plan() {
	if len(b.leases) == 0 {
		return
	}
	first := b.leases[0].at
	if b.planned != 0 && b.planned <= first {
		return
	}
	b.planned = max(first, 1)
	wait := time.Until(b.start.Add(first))
	if b.timer == nil {
		b.timer = time.AfterFunc(wait, b.fire)
		return
	}
	b.timer.Reset(wait)
}

// fire marks all expired leases lost before it does the follow-up work.
func (b *expiryTimers) fire() {
	for _, follow := range endAll(b.due(), (*Lease).expire) {
		follow()
	}
}

// endAll ends leases, and the groups that have too few members left. It returns
// the follow-up work, never nil. It calls no code of the user.
func endAll(leases []*Lease, end func(*Lease) (follow func())) []func() {
	follows := []func(){}
	for _, l := range leases {
		follow := end(l)
		if follow == nil {
			continue
		}
		follows = append(follows, follow)
		if l.memberOf != nil {
			follows = append(follows, l.memberOf.recompute())
		}
	}
	return follows
}

// due removes and returns the leases that are to be examined now.
func (b *expiryTimers) due() (leases []*Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for now := time.Since(b.start); len(b.leases) > 0 && b.leases[0].at <= now; {
		leases = append(leases, b.leases[0].lease)
		b.leases.take(0)
	}
	b.planned = 0
	b.plan()
	return leases
}

func (b *expiryTimers) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
	}
}

// expiryTimer is a lease and the time at which to examine it.
type expiryTimer struct {
	at    time.Duration
	lease *Lease // its due is the index in the heap
}

// expiryHeap orders leases by time. It does not use Push and Pop, because they
// would allocate.
type expiryHeap []expiryTimer

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(a, b int) bool { return h[a].at < h[b].at }
func (h expiryHeap) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].lease.due, h[b].lease.due = int32(a), int32(b)
}
func (h expiryHeap) Push(any) {}
func (h expiryHeap) Pop() any { return nil }

// take removes the element i.
func (h *expiryHeap) take(i int) {
	last := len(*h) - 1
	(*h)[i].lease.due = -1
	if i != last {
		(*h)[i] = (*h)[last]
		(*h)[i].lease.due = int32(i)
	}
	(*h)[last] = expiryTimer{}
	*h = (*h)[:last]
	if i != last {
		heap.Fix(h, i)
	}
}
