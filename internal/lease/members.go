package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/errs"
)

// result is the result of a request for one member.
type result struct {
	n   int
	err error
}

// opaque hides the loss of a node, so that callers do not take it for the loss
// of the hold. The hold may outlive it.
func (b *Group) opaque(r result) result {
	if b.keys == nil && (errs.IsLoss(r.err) || errors.Is(r.err, errs.ErrNotHeld)) {
		r.err = errors.New(r.err.Error())
	}
	return r
}

// maxAtOnce is how many members may send requests simultaneously.
const maxAtOnce = 32

// each runs f for all members, on goroutines of their clients. At most atOnce
// run simultaneously. It returns the channel of the results, and their number.
func (b *Group) each(atOnce int, f func(*Hold) error) (all <-chan result, n int) {
	those := b.joined()
	results, gate := make(chan result, len(those)), make(chan struct{}, atOnce)
	for _, one := range those {
		run := func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			results <- result{one.n, f(one.hold)}
		}
		if !one.hold.lease.client.Tasks.Start(run) {
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
func (b *Group) release() error {
	results, left := b.unlockAll()
	t := tally{need: b.need, open: left}
	var enough <-chan time.Time
	for ; left > 0; left-- {
		select {
		case r := <-results:
			t.count(r, b.name)
		case <-enough:
			return t.verdict()
		}
		if enough == nil && b.keys == nil && t.isDecided() {
			enough = time.After(straggle)
		}
	}
	return t.verdict()
}

// unlockAll unlocks all members. Those of a MultiLock are of one client, which
// sends their releases together.
func (b *Group) unlockAll() (all <-chan result, n int) {
	if b.keys != nil {
		return b.unlockTogether()
	}
	return b.each(maxAtOnce, (*Hold).Unlock)
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
		return errs.All(errs.Gone(errs.ErrLockLost), t.lost)
	case !slices.ContainsFunc(t.failed, func(err error) bool { return !errors.Is(err, errs.ErrClosed) }):
		return errs.ErrClosed
	}
	return errs.All(errs.ErrUnconfirmed, t.failed)
}

// extend extends the leases of all members. It returns as soon as enough of
// them are extended.
func (b *Group) extend(ctx context.Context, h *Hold, d time.Duration) error {
	if b.limit > 0 && d > b.limit {
		return fmt.Errorf("%w: Extend: %v is above the largest allowed, %v; see WithMaxLease", errs.ErrInvalid, d, b.limit)
	}
	results, left := b.each(b.atOnce(h), b.untilOneFails(func(h *Hold) error { return h.Extend(ctx, d) }))
	done := 0
	var failed []error
	for ; left > 0 && done < b.need; left-- {
		switch r := <-results; {
		case r.err == nil:
			done++
		case r.err != errNotBegun: //nolint:errorlint // our own sentinel, as it is
			failed = append(failed, b.name(b.opaque(r)))
		}
	}
	switch over := h.Err(); {
	case over != nil || done >= b.need:
		return over
	case ctx.Err() != nil:
		return errs.EndOf(ctx, nil)
	case b.keys != nil:
		return failed[0]
	}
	return errs.All(errs.ErrQuorum, failed)
}

// atOnce returns how many members of a hold may be extended simultaneously. It
// is one with replicas, because a request that waits for them occupies a
// connection of the pool.
func (b *Group) atOnce(h *Hold) int {
	if h.settings.Replicas > 0 {
		return 1
	}
	return maxAtOnce
}

// untilOneFails wraps f. If all members are needed, it does not begin another
// call once one has failed.
func (b *Group) untilOneFails(f func(*Hold) error) func(*Hold) error {
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
		if err != nil && b.keys != nil {
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
func (b *Group) name(r result) error { return b.named(r.n, r.err) }
