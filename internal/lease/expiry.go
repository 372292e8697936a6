package lease

import (
	"container/heap"
	"sync"
	"time"
)

// expiryTimers is the clock of a client's leases: it declares the loss of each whose belief is over, without asking anybody. One
// timer does for all of them, and a lease that is renewed is not touched: it is looked at when its belief would have ended,
// and again when it will. Where many end at once, as in an outage, all are declared lost before anything else is done about
// any of them.
type expiryTimers struct {
	start time.Time // what the times in the heap count from

	mu      sync.Mutex // taken after lease.mu, never before
	leases  expiryHeap
	timer   *time.Timer   // nil until it is needed
	planned time.Duration // when the timer fires; 0 when it does not
}

func newExpiryTimers() *expiryTimers { return &expiryTimers{start: time.Now()} }

// watch looks at the lease at the end of its belief; lease.mu is held.
func (b *expiryTimers) watch(l *Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.due < 0 {
		l.due = int32(len(b.leases))
		b.leases = append(b.leases, expiryTimer{})
	}
	b.move(l)
}

// again looks at the lease at the end of its belief, which has changed, unless it is being looked at; lease.mu is held.
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

// forget looks at the lease no more; lease.mu is held.
func (b *expiryTimers) forget(l *Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.due >= 0 {
		b.leases.take(int(l.due))
	}
}

// plan sets the timer, unless it fires soon enough. That one fires for nothing is rare, and does no harm: locks that are
// held for a moment then cost no change of the timer each.
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

// fire runs when the timer fires.
func (b *expiryTimers) fire() {
	for _, follow := range endAll(b.due(), (*Lease).expire) {
		follow()
	}
}

// endAll ends leases, and the holds that they are parts of, and returns what is to be done about that: never nil. It calls
// nothing of the user's.
func endAll(leases []*Lease, end func(*Lease) (follow func())) []func() {
	follows := []func(){}
	for _, l := range leases {
		follow := end(l)
		if follow == nil {
			continue
		}
		follows = append(follows, follow)
		if l.memberOf != nil {
			follows = append(follows, l.memberOf.settle())
		}
	}
	return follows
}

// due takes the leases out whose time has come.
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

// close stops the timer.
func (b *expiryTimers) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
	}
}

// expiryTimer is a lease, and when to look at it.
type expiryTimer struct {
	at    time.Duration
	lease *Lease // whose due is the place in the heap
}

// expiryHeap orders leases by their times. Push and Pop are not used: they would allocate.
type expiryHeap []expiryTimer

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(a, b int) bool { return h[a].at < h[b].at }
func (h expiryHeap) Swap(a, b int) {
	h[a], h[b] = h[b], h[a]
	h[a].lease.due, h[b].lease.due = int32(a), int32(b)
}
func (h expiryHeap) Push(any) {}
func (h expiryHeap) Pop() any { return nil }

// take takes one out.
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
