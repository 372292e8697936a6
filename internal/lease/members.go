package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// What a member reports to its group.

var _ whole = (*Group)(nil)

// node returns the number of the node that has the lease of a member, and
// reports whether there is one: not for a MultiLock, nor for a member that has
// not joined.
func (g *Group) node(l *Lease) (n int, ok bool) {
	if g.keys != nil {
		return 0, false
	}
	for _, one := range g.joined() {
		if one.lease == l {
			return one.n, true
		}
	}
	return 0, false
}

// noteEnd notes why a member has ended.
func (g *Group) noteEnd(why error) {
	g.why.Store(&why) // only a member's is on the heap
}

// lost logs the loss of a member if the hold of the group goes on. Otherwise
// the group logs its own.
func (g *Group) lost(l *Lease, why error) {
	g.Mu.Lock()
	goesOn := g.open && g.Over() == nil
	g.Mu.Unlock()
	if goesOn {
		l.client.Logger.Warn("relock: a member of a hold was lost", l.About("reason", why.Error())...)
	}
}

// isReturned reports whether a caller got the hold.
func (g *Group) isReturned() bool { return g.returned.Load() }

// isFirstOld reports whether no other member has said that the hold is old.
func (g *Group) isFirstOld() bool { return !g.old.Swap(true) }

// gathered sends the release of a member with those of the others, and reports
// whether it did.
func (g *Group) gathered(
	l *Lease, limit driver.Limits, release script.Call,
) (o driver.Result, d script.Indeterminate, sent bool) {
	with := g.gathering.Load()
	if with == nil {
		return o, d, false
	}
	r, sent := with.send(l, limit, release)
	return r.result, r.indeterminate, sent
}

// result is the result of a request for one member.
type result struct {
	n   int
	err error
}

// opaque hides the loss of a node, so that callers do not take it for the loss
// of the hold. The hold may outlive it.
func (g *Group) opaque(r result) result {
	if g.keys == nil && (errs.IsLoss(r.err) || errors.Is(r.err, errs.ErrNotHeld)) {
		r.err = errors.New(r.err.Error())
	}
	return r
}

// maxAtOnce is how many members may send requests simultaneously.
const maxAtOnce = 32

// each runs f for all members, on goroutines of their clients. At most atOnce
// run simultaneously. It returns the channel of the results, and their number.
func (g *Group) each(atOnce int, f func(*Hold) error) (all <-chan result, n int) {
	those := g.joined()
	results, gate := make(chan result, len(those)), make(chan struct{}, atOnce)
	for _, one := range those {
		run := func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			results <- result{one.n, f(one.hold)}
		}
		if !one.lease.client.Tasks.Start(run) {
			run() // refused: the client is closed
		}
	}
	return results, len(those)
}

// straggle is how long an Unlock waits for releases that it does not need. It
// is also how long a failed round waits for its releases. The next call then
// finds all nodes free.
const straggle = 10 * time.Millisecond

// release releases all members. For a RedLock, it returns once it is certain
// whether enough members were still ours, or up to straggle later. The other
// releases go on. For a MultiLock, it waits for all keys, even if one was lost,
// so that the next call finds them free.
func (g *Group) release() error {
	results, left := g.unlockAll()
	t := tally{need: g.need, open: left}
	var enough <-chan time.Time
	for ; left > 0; left-- {
		select {
		case r := <-results:
			t.count(r, g.name)
		case <-enough:
			return t.verdict()
		}
		if enough == nil && g.keys == nil && t.isDecided() {
			enough = time.After(straggle)
		}
	}
	return t.verdict()
}

// unlockAll unlocks all members. Those of a MultiLock are of one client, which
// sends their releases together.
func (g *Group) unlockAll() (all <-chan result, n int) {
	if g.keys != nil {
		return g.unlockTogether()
	}
	return g.each(maxAtOnce, (*Hold).Unlock)
}

// tally counts the results of the releases of members.
type tally struct {
	need, open, ours int // open counts the members that may still be ours
	lost, failed     []error
}

func (t *tally) count(r result, name func(result) error) {
	switch {
	case r.err == nil:
		t.ours++
	case errors.Is(r.err, errs.ErrLockLost), errors.Is(r.err, errs.ErrNotHeld):
		t.open--
		t.lost = append(t.lost, name(r))
	default:
		t.failed = append(t.failed, name(r))
	}
}

func (t *tally) isDecided() bool { return t.ours >= t.need || t.open < t.need }

func (t *tally) verdict() error {
	switch {
	case t.ours >= t.need:
		return nil
	case t.open < t.need:
		return errs.WithCauses(errs.NotHeld(errs.ErrLockLost), t.lost)
	case !slices.ContainsFunc(t.failed, func(err error) bool { return !errors.Is(err, errs.ErrClosed) }):
		return errs.ErrClosed
	}
	return errs.WithCauses(errs.ErrUnconfirmed, t.failed)
}

// extend extends the leases of all members. It returns as soon as enough of
// them are extended.
func (g *Group) extend(ctx context.Context, h *Hold, d time.Duration) error {
	if limit := g.Settings.MaxLease; limit > 0 && d > limit {
		return fmt.Errorf("%w: Extend: %v is above the largest allowed, %v; see WithMaxLease", errs.ErrInvalid, d, limit)
	}
	results, left := g.each(g.atOnce(h), g.untilOneFails(func(h *Hold) error { return h.Extend(ctx, d) }))
	done := 0
	var failed []error
	for ; left > 0 && done < g.need; left-- {
		switch r := <-results; {
		case r.err == nil:
			done++
		case r.err != errNotBegun: //nolint:errorlint // our own sentinel, as it is
			failed = append(failed, g.name(g.opaque(r)))
		}
	}
	switch over := h.Err(); {
	case over != nil || done >= g.need:
		return over
	case ctx.Err() != nil:
		return errs.EndOf(ctx, nil)
	case g.keys != nil:
		return failed[0]
	}
	return errs.WithCauses(errs.ErrQuorum, failed)
}

// atOnce returns how many members of a hold may be extended simultaneously. It
// is one with replicas, because a request that waits for them occupies a
// connection of the pool.
func (g *Group) atOnce(h *Hold) int {
	if h.settings.Replicas > 0 {
		return 1
	}
	return maxAtOnce
}

// untilOneFails wraps f. If all members are needed, it does not begin another
// call once one has failed.
func (g *Group) untilOneFails(f func(*Hold) error) func(*Hold) error {
	var mu sync.Mutex
	var failed bool
	return func(h *Hold) error {
		mu.Lock()
		skip := failed
		mu.Unlock()
		if skip {
			return errNotBegun
		}
		err := f(h)
		if err != nil && g.keys != nil {
			mu.Lock()
			failed = true
			mu.Unlock()
		}
		return err
	}
}

// errNotBegun is the result for a member whose call was not begun because that
// of another had failed.
var errNotBegun = errors.New("not begun")

// name adds to an error the name of the member that failed.
func (g *Group) name(r result) error { return g.named(r.n, r.err) }
