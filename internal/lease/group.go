package lease

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/holds"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/validity"
)

// Group is several holds that make one: of all keys of a MultiLock, or of nodes
// of a RedLock. Each member is a separate lease, with its own validity, renewal
// and release. The group has a validity too, without a key in Redis. It is
// valid while at least need of its members are. It has no timer: its validity
// ends with that of a member, and each member that ends notifies the group. A
// lost member does not come back.
//
// The mutex of the group comes before those of its members. So a member holds
// neither when it notifies the group of a change.
type Group struct {
	validity.Validity
	client *client
	keys   []string // of a MultiLock, by the number of the member; nil for a RedLock
	need   int
	named  func(n int, err error) error // adds the name of the member that failed
	fence  int64                        // the token of the hold; set before Grant

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

	// Guarded by Mu.
	members []member
	open    bool // the hold was granted
	hold    Hold // of the user; without a grant before Grant
}

// member is one hold of a group, and its lease.
type member struct {
	n     int // the number of the key or the node
	lease *Lease
	hold  *Hold
}

// NewGroup returns a group without members. Its hold is valid while need
// members are.
func NewGroup(m *Manager, key string, keys []string, need int, s *lockspec.Spec, named func(int, error) error) *Group {
	g := &Group{client: m.client, keys: keys, need: need, named: named}
	g.Init(g, key, time.Now(), s)
	return g
}

// Add makes a grant of the client m a member. If it cannot, the grant is
// released, unless the client was closed.
func (g *Group) Add(ctx context.Context, n int, m *Manager, one *Grant) error {
	l := newLease(m.client, one)
	l.of = g
	h, err := l.begin(ctx, one.Sent, one.Settings)
	if err != nil {
		return err
	}
	if g.join(member{n, l, h}) {
		return nil
	}
	_ = h.Unlock() // the retrier repeats it if it fails
	return errs.ErrNotHeld
}

// SetFence sets the token of the hold. It is called before Grant.
func (g *Group) SetFence(token int64) { g.fence = token }

// Fence returns the token of the hold.
func (g *Group) Fence() int64 { return g.fence }

// NotifyWaiters sets whether a release notifies the waiters of the node.
func (g *Group) NotifyWaiters(notify bool) { g.notifies.Store(notify) }

// NotifiesWaiters reports whether a release notifies the waiters of the node.
func (g *Group) NotifiesWaiters() bool { return g.notifies.Load() }

// join adds a member unless the hold has ended. It reports whether it did.
func (g *Group) join(one member) bool {
	g.Mu.Lock()
	joined := g.Over() == nil
	if joined {
		g.members = append(g.members, one)
	}
	g.Mu.Unlock()
	g.recompute()()
	return joined
}

// Grant returns the hold of the members that have joined. If they are too few,
// or too few of them are still valid, it fails and releases all of them.
func (g *Group) Grant(ctx context.Context, start time.Time, s *lockspec.Spec) (*Hold, error) {
	g.Mu.Lock()
	g.open = true
	g.SetUntil(g.until())
	g.Mu.Unlock()
	now := time.Now()
	g.checkSuspended(now)
	g.Mu.Lock()
	over, h := g.Over(), &g.hold
	if over == nil {
		h.begin(ctx, g, start, now, s, g.fence)
	}
	g.Mu.Unlock()
	if over != nil {
		return nil, tooLate(over)
	}
	h.tick(now)
	g.Mu.Lock()
	defer g.Mu.Unlock()
	if err := h.refusal(); err != nil {
		return nil, tooLate(err)
	}
	g.returned.Store(true)
	return h, nil
}

// until returns the time until which the hold is valid: need members are valid
// up to then. It returns zero if fewer are live; Mu must be held.
func (g *Group) until() time.Time {
	var ends []time.Time
	for _, one := range g.members {
		if end := one.lease.ValidUntil(); !end.IsZero() {
			ends = append(ends, end)
		}
	}
	if len(ends) < g.need {
		return time.Time{}
	}
	slices.SortFunc(ends, func(a, b time.Time) int { return b.Compare(a) })
	return ends[g.need-1]
}

// recompute updates the hold's validity from that of its members. If too few
// are valid, the hold ends. It returns what is to be done about that.
func (g *Group) recompute() (follow func()) {
	g.Mu.Lock()
	defer g.Mu.Unlock()
	if !g.open || g.Over() != nil {
		return validity.Nothing
	}
	// A grant or a renewal after the end of the validity revives nothing.
	// Others may have had the lock, even if no timer has reported the end yet.
	if until := g.until(); !until.IsZero() && time.Until(g.Until()) > 0 {
		g.SetUntil(until)
		return validity.Nothing
	}
	return g.LoseLocked(g.Expired())
}

// Expired returns why too few members are valid: the reason of the member that
// ended last. That is one whose end only the clock shows yet, if there is any.
// Mu must be held.
func (g *Group) Expired() error {
	for now, i := time.Now(), 0; i < len(g.members); i++ {
		if why := g.members[i].lease.Overdue(now); why != nil {
			return why
		}
	}
	if why := g.why.Load(); why != nil {
		return *why
	}
	return errs.ErrLockLost
}

// Ended ends the hold of a group that was lost; Mu must be held. Each member is
// released in the background.
func (g *Group) Ended(why error) (follow func()) {
	var report *holds.Report
	if g.hold.grant != nil && g.hold.ends.Err() == nil {
		report = g.hold.report
		g.hold.end(time.Now(), why)
	}
	return func() {
		defer report.Done("hold", why)
		for _, one := range g.joined() {
			l := one.lease
			if why == errs.ErrClosed && l.client.Life.Err() == nil { //nolint:errorlint // our own sentinel
				l.Lose(errs.Lost("another of its clients was closed"))
				continue
			}
			l.Lose(why)
		}
		if why != errs.ErrClosed { //nolint:errorlint // our own sentinel
			g.client.Logger.Warn("relock: lock lost", g.About("reason", why.Error())...)
		}
	}
}

// Books returns the books of the client.
func (g *Group) Books() *validity.Books { return g.client.Books }

// Moved does nothing: a group is no member.
func (g *Group) Moved() (follow func()) { return validity.Nothing }

// Abandon ends a hold that was never granted. It waits up to straggle for its
// releases, so that the next round finds its nodes free. A member that joins
// from now on is released immediately.
func (g *Group) Abandon() {
	g.Mu.Lock()
	g.Finish(errs.ErrNotHeld)
	g.Mu.Unlock()
	given, n := g.each(maxAtOnce, (*Hold).Unlock)
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

func (g *Group) joined() []member {
	g.Mu.Lock()
	defer g.Mu.Unlock()
	return slices.Clone(g.members)
}
