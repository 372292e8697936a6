package lease

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// Group is the grants that make one hold together: of all keys of a MultiLock, or of nodes of a RedLock. Each is a
// lease of its own, with its own belief, renewal and clean-up. The hold is one more lease, without a key in Redis: it is
// believed in while as many of its parts are as it needs. It has no timer: when its belief ends, that of a part does, and
// each part that ends tells it. A part that is lost does not come back.
//
// The whole's mutex comes before those of its parts, which tell it of a change when they hold none.
type Group struct {
	lease *Lease
	keys  []string // of a MultiLock, by the number of the part; nil where parts are nodes
	need  int
	limit time.Duration                // the largest lease that is allowed; 0: none
	named func(n int, err error) error // says which part has failed

	why      atomic.Pointer[error] // of the part that ended last; whoever finds the hold's end has it from here
	returned atomic.Bool           // somebody got the hold
	notifies atomic.Bool           // of a RedLock: waiters are notified of its end, or of that of a call that left

	// Guarded by lease.mu.
	members []member
	open    bool // the whole was granted
}

// member is one of them.
type member struct {
	n    int // of the key or the node
	hold *Hold
}

// IsQuorum reports whether the hold is a RedLock's.
func (h *Hold) IsQuorum() bool { return h.lease.group != nil && h.lease.group.keys == nil }

// IsOf reports whether the client has the lease of the hold, or of a part.
func (h *Hold) IsOf(m *Manager) bool {
	if h.lease.group == nil {
		return h.lease.client == m
	}
	return slices.ContainsFunc(h.lease.group.joined(), func(one member) bool { return one.hold.lease.client == m })
}

// NewGroup begins a hold that needs so many parts.
func NewGroup(m *Manager, key string, keys []string, need int, s *lockspec.Spec, named func(int, error) error) *Group {
	b := &Group{keys: keys, need: need, limit: s.MaxLease, named: named}
	b.lease = newLease(m, &Grant{Key: key, Sent: time.Now(), Settings: s})
	b.lease.group = b
	return b
}

// Add makes a part of what the client was granted. If it cannot, that is
// released.
func (b *Group) Add(ctx context.Context, n int, m *Manager, g *Grant) error {
	l := newLease(m, g)
	l.memberOf = b
	h, err := l.begin(ctx, g.Sent, g.Settings)
	if err != nil {
		return err
	}
	if b.join(member{n, h}) {
		return nil
	}
	_ = h.Unlock() // one that fails is repeated
	return errs.ErrNotHeld
}

// SetFence sets the token of the hold, before it is granted.
func (b *Group) SetFence(token int64) { b.lease.tokens.Fence = token }

// Fence returns the token of the hold.
func (b *Group) Fence() int64 { return b.lease.tokens.Fence }

// NotifyWaiters sets whether a release notifies the waiters of the node.
func (b *Group) NotifyWaiters(notify bool) { b.notifies.Store(notify) }

// NotifiesWaiters reports whether it does.
func (b *Group) NotifiesWaiters() bool { return b.notifies.Load() }

// join adds a part, unless the hold is over.
func (b *Group) join(one member) bool {
	l := b.lease
	l.mu.Lock()
	joined := l.over == nil
	if joined {
		b.members = append(b.members, one)
	}
	l.mu.Unlock()
	b.reckon()
	return joined
}

// Grant makes the hold of the parts that are there. It fails when they are not enough, or not any more; then all of them
// are given back.
func (b *Group) Grant(ctx context.Context, start time.Time, s *lockspec.Spec) (*Hold, error) {
	l := b.lease
	l.mu.Lock()
	b.open = true
	l.validUntil = b.until()
	l.mu.Unlock()
	h, err := l.push(ctx, start, s)
	return h, tooLate(err)
}

// until is when the belief in the hold ends: as many parts as it needs are believed in until then. lease.mu is held.
func (b *Group) until() time.Time {
	var ends []time.Time
	for _, one := range b.members {
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
func (b *Group) reckon() { b.settle()() }

// settle is reckon, and returns what is to be done about the hold's end.
func (b *Group) settle() (follow func()) {
	l := b.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if !b.open || l.over != nil {
		return func() {}
	}
	// A grant or a renewal that comes after the end revives nothing, though no timer has told of it yet: others had the lock, maybe.
	if until := b.until(); !until.IsZero() && time.Until(l.validUntil) > 0 {
		l.validUntil = until
		return func() {}
	}
	if why := b.why.Load(); why != nil {
		return l.loseLocked(*why)
	}
	return l.loseLocked(errs.ErrLockLost)
}

// lost tells of the end of a part before the hold's.
func (b *Group) lost(l *Lease, why error) {
	b.reckon()
	b.lease.mu.Lock()
	goesOn := b.open && b.lease.over == nil
	b.lease.mu.Unlock()
	if goesOn {
		l.client.Logger.Warn("relock: a part of a hold was lost", "key", l.key, "reason", why.Error())
	}
}

// lose ends what is left of a hold that was lost: each part is given back in the background.
func (b *Group) lose(why error) {
	for _, one := range b.joined() {
		l := one.hold.lease
		if why == errs.ErrClosed && l.client.Life.Err() == nil { //nolint:errorlint // our own sentinel
			l.lose(errs.ErrLockLost) // another client was closed
			continue
		}
		l.lose(why)
	}
	if why != errs.ErrClosed { //nolint:errorlint // our own sentinel
		b.lease.client.Logger.Warn("relock: lock lost", "key", b.lease.key, "reason", why.Error())
	}
}

// Abandon ends a hold that was never granted, and waits for a moment until it is given back: the next round then finds its
// nodes free. What joins it from now on is given back at once.
func (b *Group) Abandon() {
	b.lease.mu.Lock()
	b.lease.end(errs.ErrNotHeld)
	b.lease.mu.Unlock()
	given, n := b.each(maxAtOnce, (*Hold).Unlock)
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

// joined returns the parts that have joined.
func (b *Group) joined() []member {
	b.lease.mu.Lock()
	defer b.lease.mu.Unlock()
	return slices.Clone(b.members)
}
