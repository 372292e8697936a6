package acquire

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/script"
)

// tried is the result of one try for all keys. Its slices are indexed by key.
type tried struct {
	sent          []time.Time
	indeterminate []script.Indeterminate
	fence         []int64 // tokens; with fencing, the highest one is that of the hold
	taken         int     // how many of the first keys were taken; only if they are requested one by one
	busy          int     // the key that the error is about
	// The try has certainly taken over or handed off the key that the call was
	// handed.
	resolved bool
	kept     int   // how many of the first keys are kept under the value of the try
	err      error // nil if the call has all keys
}

// ask sends the requests of one try. If a key is held, the keys before that one
// are kept for the duration keep. If keep is 0, none is kept. If it is not, and
// the keys are requested one by one, they are only kept, even if none is held.
func (a *multiAttempt) ask(ctx context.Context, value string, keep time.Duration) *tried {
	n := len(a.lock.keys)
	t := &tried{sent: make([]time.Time, n), indeterminate: make([]script.Indeterminate, n), fence: make([]int64, n)}
	together, err := a.lock.areTogether(ctx)
	if err != nil {
		t.err = err
		return t
	}
	if together {
		refused := a.askTogether(ctx, value, keep, t)
		if !refused {
			return t
		}
		a.lock.Manager.OneByOne.Store(true)
	}
	a.askEach(ctx, value, keep, t)
	return t
}

// areTogether reports whether one script can take all keys. A server takes keys
// of other servers, too, unless they form a Cluster.
func (l *Multi) areTogether(ctx context.Context) (bool, error) {
	if l.Manager.OneByOne.Load() {
		return false, nil
	}
	d := l.Manager.Driver
	if _, one := d.(driver.Node); one {
		return true, nil
	}
	first, err := d.Home(ctx, l.redisKeyOf(0))
	for n := 1; n < len(l.keys) && err == nil; n++ {
		var node driver.Node
		if node, err = d.Home(ctx, l.redisKeyOf(n)); node != first {
			return false, err
		}
	}
	return true, err
}

// askEach requests one key after another.
func (a *multiAttempt) askEach(ctx context.Context, value string, keep time.Duration, t *tried) {
	for n := range a.lock.keys {
		if a.askOne(ctx, n, value, keep, t); t.err != nil {
			t.busy = n
			break
		}
		t.taken++
	}
	t.resolved = t.err == nil
	if keep > 0 && (t.err == nil || errors.Is(t.err, errs.ErrLockAcquiredByOthers)) {
		t.kept, t.taken = t.taken, 0
		return
	}
	if t.err == nil {
		a.raise(ctx, t)
	}
}

// raise raises the counters of all keys to the highest of their tokens.
func (a *multiAttempt) raise(ctx context.Context, t *tried) {
	highest := slices.Max(t.fence)
	for n, fence := range t.fence {
		if fence < highest {
			if t.err = a.lock.Manager.Raise(ctx, &a.lock.part, a.lock.redisKeyOf(n), highest); t.err != nil {
				return
			}
			t.fence[n] = highest
		}
	}
}

// askTogether requests all keys by one script. It reports whether the server
// refuses that.
func (a *multiAttempt) askTogether(ctx context.Context, value string, keep time.Duration, t *tried) (refused bool) {
	l := a.lock
	own, earlier, keys := 0, "", l.redisKeys()
	if a.got != nil {
		own, earlier = a.at+1, a.got.Body
		keys = append(script.Call{Script: script.MultiAcquire, Key: l.redisKeyOf(a.at)}.Keys(), keys...)
	}
	args := []any{value, l.part.Expiry().Milliseconds(), own, earlier, len(l.keys), a.way.value, keep.Milliseconds()}
	o, d := l.Manager.Ask(ctx, &l.part, script.Call{Script: script.MultiAcquire, Together: keys, Args: args})
	if driver.IsCrossSlot(o.Err) {
		return true // nothing was executed
	}
	for n := range l.keys {
		t.sent[n], t.indeterminate[n] = o.Sent, d
	}
	if t.err = o.Err; o.Err != nil {
		return false
	}
	code, detail, gave := readMulti(o.Reply)
	t.resolved = !d.Exists()
	if gave == script.More {
		l.Manager.Retrier.PassOn(script.Call{Script: script.MultiAcquire, Key: l.redisKeyOf(a.at)})
	}
	if code == script.Ours {
		t.fence[0] = detail
		return false
	}
	t.busy = int(min(max(detail, 1), int64(len(l.keys)))) - 1
	t.err = a.of(t.busy, reasonOf(code))
	if keep > 0 && code == script.Other {
		t.kept = t.busy
	}
	return false
}

// readMulti reads the answer of the script. detail is the token of a grant.
// Without a grant, it is the number of the key that the code is about, counted
// from 1. gave is the answer of the hand-off of the key that the call was
// handed, or 0 if there was none.
func readMulti(reply any) (code, detail, gave int64) {
	values, err := driver.Int64s(reply, nil)
	if err != nil || len(values) == 0 {
		return script.Foreign, 0, 0
	}
	values = append(values, 0, 0)
	return values[0], values[1], values[2]
}

// reasonOf returns the answer of an acquiring script as an error.
func reasonOf(code int64) error {
	switch code {
	case script.Ours:
		return nil
	case script.Other:
		return errs.ErrLockAcquiredByOthers
	}
	return errs.ErrKeyConflict
}

// askOne requests the n-th key: with a full lease, or only to keep it.
func (a *multiAttempt) askOne(ctx context.Context, n int, value string, keep time.Duration, t *tried) {
	l, s, length := a.lock, &a.lock.part, a.lock.part.Expiry()
	if keep > 0 {
		s, length = &l.entrySpec, keep
	}
	o, d := l.Manager.Ask(ctx, s, script.Call{Script: s.Variant(script.Acquire), Key: l.redisKeyOf(n), Args: []any{value, a.earlier(n), length.Milliseconds()}})
	t.sent[n], t.indeterminate[n] = o.Sent, d
	if t.err = o.Err; o.Err != nil {
		return
	}
	code, drawn := script.ReadGrant(o.Reply)
	t.fence[n], t.err = drawn.Fence, a.of(n, reasonOf(code))
}

// earlier returns the value under which the call has the n-th key, or "".
func (a *multiAttempt) earlier(n int) string {
	switch {
	case a.got != nil && a.at == n:
		return a.got.Body
	case n < a.way.n:
		return a.way.value
	}
	return ""
}
