package lease

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// Group combines several grants into one hold: of all keys of a MultiLock, or
// of nodes of a RedLock. Each member is a separate lease, with its own
// validity, renewal and release. The hold has one more lease, without a key in
// Redis. It is valid while at least need of its members are. It has no timer:
// its validity ends with that of a member, and each member that ends notifies
// the group. A lost member does not come back.
//
// The mutex of the group's lease comes before those of its members. So a member
// holds neither when it notifies the group of a change.
type Group struct {
	lease *Lease
	keys  []string // of a MultiLock, by the number of the member; nil for a RedLock
	need  int
	limit time.Duration                // the largest lease that is allowed; 0 if there is none
	named func(n int, err error) error // adds the name of the member that failed

	// The reason of the member that ended last. A goroutine that finds the end
	// of the hold takes it from here.
	why atomic.Pointer[error]
	// True once a caller got the hold.
	returned atomic.Bool
	// True once it was logged that the hold is old.
	old atomic.Bool
	// What sends the releases of a MultiLock together, from its Unlock on.
	gathering atomic.Pointer[gathering]
	// True if the releases of a RedLock notify waiters: those of a hold, and
	// those of a call that left.
	notifies atomic.Bool

	// Guarded by lease.mu.
	members []member
	open    bool // the hold was granted
}

// member is one lease of a group.
type member struct {
	n    int // the number of the key or the node
	hold *Hold
}

// IsQuorum reports whether the hold is that of a RedLock.
func (h *Hold) IsQuorum() bool { return h.lease.group != nil && h.lease.group.keys == nil }

// IsOf reports whether the client has the lease of the hold, or of one of its
// members.
func (h *Hold) IsOf(m *Manager) bool {
	if h.lease.group == nil {
		return h.lease.client == m
	}
	return slices.ContainsFunc(h.lease.group.joined(), func(one member) bool { return one.hold.lease.client == m })
}

// NewGroup returns a group without members. Its hold is valid while need
// members are.
func NewGroup(m *Manager, key string, keys []string, need int, s *lockspec.Spec, named func(int, error) error) *Group {
	b := &Group{keys: keys, need: need, limit: s.MaxLease, named: named}
	b.lease = newLease(m, &Grant{Key: key, Sent: time.Now(), Settings: s})
	b.lease.group = b
	return b
}

// Add makes a grant of the client m a member. If it cannot, the grant is
// released, unless the client was closed.
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
	_ = h.Unlock() // the retrier repeats it if it fails
	return errs.ErrNotHeld
}

// node returns the number of the node that has the lease of a member, and
// reports whether there is one: not for a MultiLock, nor for a member that has
// not joined.
func (b *Group) node(l *Lease) (n int, ok bool) {
	if b == nil || b.keys != nil {
		return 0, false
	}
	for _, one := range b.joined() {
		if one.hold.lease == l {
			return one.n, true
		}
	}
	return 0, false
}

// SetFence sets the token of the hold. It is called before Grant.
func (b *Group) SetFence(token int64) { b.lease.tokens.Fence = token }

// Fence returns the token of the hold.
func (b *Group) Fence() int64 { return b.lease.tokens.Fence }

// NotifyWaiters sets whether a release notifies the waiters of the node.
func (b *Group) NotifyWaiters(notify bool) { b.notifies.Store(notify) }

// NotifiesWaiters reports whether a release notifies the waiters of the node.
func (b *Group) NotifiesWaiters() bool { return b.notifies.Load() }

// join adds a member unless the hold has ended. It reports whether it did.
func (b *Group) join(one member) bool {
	l := b.lease
	l.mu.Lock()
	joined := l.over == nil
	if joined {
		b.members = append(b.members, one)
	}
	l.mu.Unlock()
	b.revalidate()
	return joined
}

// Grant returns the hold of the members that have joined. If they are too few,
// or too few of them are still valid, it fails and releases all of them.
func (b *Group) Grant(ctx context.Context, start time.Time, s *lockspec.Spec) (*Hold, error) {
	l := b.lease
	l.mu.Lock()
	b.open = true
	l.validUntil = b.until()
	l.mu.Unlock()
	h, err := l.push(ctx, start, s)
	return h, tooLate(err)
}

// until returns the time until which the hold is valid: need members are valid
// up to then. It returns zero if fewer are live; lease.mu must be held.
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

// revalidate updates the hold's validity from that of its members. If too few
// are valid, the hold ends.
func (b *Group) revalidate() { b.recompute()() }

// recompute is reckon, but returns the follow-up work of the hold's end.
func (b *Group) recompute() (follow func()) {
	l := b.lease
	l.mu.Lock()
	defer l.mu.Unlock()
	if !b.open || l.over != nil {
		return func() {}
	}
	// A grant or a renewal after the end of the validity revives nothing.
	// Others may have had the lock, even if no timer has reported the end yet.
	if until := b.until(); !until.IsZero() && time.Until(l.validUntil) > 0 {
		l.validUntil = until
		return func() {}
	}
	return l.loseLocked(b.expired())
}

// expired returns why too few members are valid: the reason of the member that
// ended last. That is one whose end only the clock shows yet, if there is any.
// lease.mu must be held.
func (b *Group) expired() error {
	for now, i := time.Now(), 0; i < len(b.members); i++ {
		if why := b.members[i].hold.lease.overdue(now); why != nil {
			return why
		}
	}
	if why := b.why.Load(); why != nil {
		return *why
	}
	return errs.ErrLockLost
}

// lost handles the end of a member. It logs the loss if the hold goes on.
func (b *Group) lost(l *Lease, why error) {
	b.revalidate()
	b.lease.mu.Lock()
	goesOn := b.open && b.lease.over == nil
	b.lease.mu.Unlock()
	if goesOn {
		l.client.Logger.Warn("relock: a member of a hold was lost", l.about("reason", why.Error())...)
	}
}

// lose ends what is left of a lost hold: each member is released in the
// background.
func (b *Group) lose(why error) {
	for _, one := range b.joined() {
		l := one.hold.lease
		if why == errs.ErrClosed && l.client.Life.Err() == nil { //nolint:errorlint // our own sentinel
			l.lose(errs.Lost("another of its clients was closed"))
			continue
		}
		l.lose(why)
	}
	if why != errs.ErrClosed { //nolint:errorlint // our own sentinel
		b.lease.client.Logger.Warn("relock: lock lost", b.lease.about("reason", why.Error())...)
	}
}

// Abandon ends a hold that was never granted. It waits up to straggle for its
// releases, so that the next round finds its nodes free. A member that joins
// from now on is released immediately.
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

func (b *Group) joined() []member {
	b.lease.mu.Lock()
	defer b.lease.mu.Unlock()
	return slices.Clone(b.members)
}
