package relock

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// bundle is the grants that make one hold together: of all keys of a MultiLock, or of nodes of a RedLock. Each is a
// lease of its own, with its own belief, renewal and clean-up. The hold is one more lease, without a key in Redis: it is
// believed in while as many of its parts are as it needs. It has no timer: when its belief ends, that of a part does, and
// each part that ends tells it. A part that is lost does not come back.
//
// The whole's mutex comes before those of its parts, which tell it of a change when they hold none.
type bundle struct {
	whole *lease
	keys  []string // of a MultiLock, by the number of the part; nil where parts are nodes
	need  int
	limit time.Duration                // the largest lease that is allowed; 0: none
	named func(n int, err error) error // says which part has failed

	why   atomic.Pointer[error] // of the part that ended last; whoever finds the hold's end has it from here
	won   atomic.Bool           // somebody got the hold
	tells atomic.Bool           // of a RedLock: waiters are notified of its end, or of that of a call that left

	// Guarded by whole.mu.
	all  []part
	open bool // the whole was granted
}

// part is one of them.
type part struct {
	n    int // of the key or the node
	hold *level
}

// isQuorum reports whether the hold is a RedLock's.
func (h *level) isQuorum() bool { return h.lease.parts != nil && h.lease.parts.keys == nil }

// isOf reports whether the client has the lease of the hold, or of a part.
func (h *level) isOf(m *manager) bool {
	if h.lease.parts == nil {
		return h.lease.client == m
	}
	return slices.ContainsFunc(h.lease.parts.there(), func(one part) bool { return one.hold.lease.client == m })
}

// newBundle begins a hold that needs so many parts.
func newBundle(m *manager, key string, keys []string, need int, s *lockspec.Spec, named func(int, error) error) *bundle {
	b := &bundle{keys: keys, need: need, limit: s.MaxLease, named: named}
	b.whole = newLease(m, &grant{key: key, sent: time.Now(), settings: s})
	b.whole.parts = b
	return b
}

// add makes a part of what the client was granted. If it cannot, that is
// released.
func (b *bundle) add(ctx context.Context, n int, m *manager, g *grant) error {
	l := newLease(m, g)
	l.whole = b
	h, err := l.begin(ctx, g.sent, g.settings)
	if err != nil {
		return err
	}
	if b.join(part{n, h}) {
		return nil
	}
	_ = h.unlock() // one that fails is repeated
	return errs.ErrNotHeld
}

// setFence sets the token of the hold, before it is granted.
func (b *bundle) setFence(token int64) { b.whole.tokens.Fence = token }

// fence returns the token of the hold.
func (b *bundle) fence() int64 { return b.whole.tokens.Fence }

// NotifyWaiters sets whether a release notifies the waiters of the node.
func (b *bundle) NotifyWaiters(notify bool) { b.tells.Store(notify) }

// NotifiesWaiters reports whether it does.
func (b *bundle) NotifiesWaiters() bool { return b.tells.Load() }

// join adds a part, unless the hold is over.
func (b *bundle) join(one part) bool {
	l := b.whole
	l.mu.Lock()
	joined := l.over == nil
	if joined {
		b.all = append(b.all, one)
	}
	l.mu.Unlock()
	b.reckon()
	return joined
}

// grant makes the hold of the parts that are there. It fails when they are not enough, or not any more; then all of them
// are given back.
func (b *bundle) grant(ctx context.Context, start time.Time, s *lockspec.Spec) (*level, error) {
	l := b.whole
	l.mu.Lock()
	b.open = true
	l.until = b.until()
	l.mu.Unlock()
	h, err := l.push(ctx, start, s)
	return h, tooLate(err)
}

// until is when the belief in the hold ends: as many parts as it needs are believed in until then. whole.mu is held.
func (b *bundle) until() time.Time {
	var ends []time.Time
	for _, one := range b.all {
		if end := one.hold.lease.ends(); !end.IsZero() {
			ends = append(ends, end)
		}
	}
	if len(ends) < b.need {
		return time.Time{}
	}
	slices.SortFunc(ends, func(a, b time.Time) int { return b.Compare(a) })
	return ends[b.need-1]
}

// reckon goes by what the parts are believed in now. Too few of them end the hold.
func (b *bundle) reckon() { b.settle()() }

// settle is reckon, and returns what is to be done about the hold's end.
func (b *bundle) settle() (follow func()) {
	l := b.whole
	l.mu.Lock()
	defer l.mu.Unlock()
	if !b.open || l.over != nil {
		return func() {}
	}
	// A grant or a renewal that comes after the end revives nothing, though no timer has told of it yet: others had the lock, maybe.
	if until := b.until(); !until.IsZero() && time.Until(l.until) > 0 {
		l.until = until
		return func() {}
	}
	if why := b.why.Load(); why != nil {
		return l.loseLocked(*why)
	}
	return l.loseLocked(errs.ErrLockLost)
}

// lost tells of the end of a part before the hold's.
func (b *bundle) lost(l *lease, why error) {
	b.reckon()
	b.whole.mu.Lock()
	goesOn := b.open && b.whole.over == nil
	b.whole.mu.Unlock()
	if goesOn {
		l.client.logger.Warn("relock: a part of a hold was lost", "key", l.key, "reason", why.Error())
	}
}

// lose ends what is left of a hold that was lost: each part is given back in the background.
func (b *bundle) lose(why error) {
	for _, one := range b.there() {
		l := one.hold.lease
		if why == errs.ErrClosed && l.client.life.Err() == nil { //nolint:errorlint // our own sentinel
			l.lose(errs.ErrLockLost) // another client was closed
			continue
		}
		l.lose(why)
	}
	if why != errs.ErrClosed { //nolint:errorlint // our own sentinel
		b.whole.client.logger.Warn("relock: lock lost", "key", b.whole.key, "reason", why.Error())
	}
}

// abandon ends a hold that was never granted, and waits for a moment until it is given back: the next round then finds its
// nodes free. What joins it from now on is given back at once.
func (b *bundle) abandon() {
	b.whole.mu.Lock()
	b.whole.end(errs.ErrNotHeld)
	b.whole.mu.Unlock()
	given, n := b.each(maxAtOnce, (*level).unlock)
	end := time.NewTimer(straggle)
	defer end.Stop()
	for range n {
		select {
		case <-given:
		case <-end.C:
			return
		}
	}
}

// there returns the parts that have joined.
func (b *bundle) there() []part {
	b.whole.mu.Lock()
	defer b.whole.mu.Unlock()
	return slices.Clone(b.all)
}
