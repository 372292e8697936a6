package multilock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// tried is the result of one try for all keys. Its slices are indexed by key.
type tried struct {
	sent          []time.Time
	indeterminate []script.Indeterminate
	fence         []int64 // tokens; with fencing, the highest one is that of the hold
	taken         []bool  // the keys that were taken; only if several requests were needed
	busy          int     // the key that the error is about
	// The try has certainly taken over or handed off the key that the call was
	// handed.
	resolved bool
	kept     int   // how many of the first keys are kept under the value of the try
	err      error // nil if the call has all keys
}

func newTried(keys int) *tried {
	return &tried{
		sent: make([]time.Time, keys), indeterminate: make([]script.Indeterminate, keys),
		fence: make([]int64, keys), taken: make([]bool, keys),
	}
}

// start returns the sending of the first request of a try that has all keys.
func (t *tried) start() time.Time { return slices.MinFunc(t.sent, time.Time.Compare) }

// ask sends the requests of one try. If a key is held, the keys before that one
// are kept for the duration keep. If keep is 0, none is kept. If it is not, and
// the keys are requested one by one, they are only kept, even if none is held.
func (a *attempt) ask(ctx context.Context, value string, keep time.Duration) *tried {
	t := newTried(len(a.lock.keys))
	if a.lock.Manager.OneByOne.Load() {
		a.inOrder(ctx, value, keep, t)
		return t
	}
	groups, err := a.lock.groups(ctx)
	if err != nil {
		t.err = err
		return t
	}
	a.split = len(groups) > 1
	switch {
	case !a.split:
		if refused := a.oneScript(ctx, groups[0], value, keep, t); refused {
			a.lock.Manager.OneByOne.Store(true)
			a.inOrder(ctx, value, keep, t)
		}
	case a.mayAskAtOnce(keep):
		a.parallel(ctx, groups, value, t)
	default:
		a.inOrder(ctx, value, keep, t)
	}
	return t
}

// inOrder requests one key after another.
func (a *attempt) inOrder(ctx context.Context, value string, keep time.Duration, t *tried) {
	got, err := a.askInOrder(ctx, a.lock.all(), value, keep, t)
	t.busy, t.err = min(got, len(t.sent)-1), err
	t.resolved = t.err == nil
	if keep > 0 && (t.err == nil || errors.Is(t.err, errs.ErrLockAcquiredByOthers)) {
		t.kept = got
		clear(t.taken)
		return
	}
	if t.err == nil {
		t.err = a.raise(ctx, t)
	}
}

// askInOrder requests some keys one after another, until one is refused. It
// returns how many it got.
func (a *attempt) askInOrder(
	ctx context.Context, keys []int, value string, keep time.Duration, t *tried,
) (got int, err error) {
	for i, n := range keys {
		if err := a.one(ctx, n, value, keep, t); err != nil {
			return i, err
		}
		t.taken[n] = true
	}
	return len(keys), nil
}

// raise raises the counters of all keys to the highest of their tokens.
func (a *attempt) raise(ctx context.Context, t *tried) error {
	highest := slices.Max(t.fence)
	var low []string
	for n, fence := range t.fence {
		if fence < highest {
			low = append(low, a.lock.redisKeyOf(n))
		}
	}
	if len(low) == 0 {
		return nil
	}
	return a.lock.Manager.RaiseAll(ctx, &a.lock.part, low, highest)
}

// oneScript requests all keys by one script. It reports whether the server
// refuses that.
func (a *attempt) oneScript(
	ctx context.Context, all []int, value string, keep time.Duration, t *tried,
) (refused bool) {
	r := a.request(ctx, all, value, keep, t)
	if driver.IsCrossSlot(r.err) {
		return true // nothing was executed
	}
	t.busy, t.err = r.busy, r.err
	a.noteHanded(all, r, t)
	if keep > 0 && errors.Is(r.err, errs.ErrLockAcquiredByOthers) {
		t.kept = t.busy
	}
	return false
}

// noteHanded notes what the script for a group did with the key that the call
// was handed, if that is one of the group.
func (a *attempt) noteHanded(group []int, r groupResult, t *tried) {
	if !slices.Contains(group, a.at) {
		return
	}
	t.resolved = r.answered && !t.indeterminate[a.at].Exists()
	if r.gave == script.ScanLimit {
		a.lock.Manager.Retrier.PassOn(script.Call{Script: script.MultiAcquire, Key: a.lock.redisKeyOf(a.at)})
	}
}

// groupResult is the result of a request for a group of keys.
type groupResult struct {
	busy     int   // the key that the error is about
	err      error // nil if the group was acquired
	answered bool
	gave     int64 // answer of the hand-off of the key that the call was handed; 0 if there was none
}

// request requests a group of keys by one script.
func (a *attempt) request(
	ctx context.Context, group []int, value string, keep time.Duration, t *tried,
) groupResult {
	o, d := a.lock.Manager.Ask(ctx, &a.lock.part, a.acquire(group, value, keep))
	return a.read(group, o, d, t)
}

// acquire returns the script that acquires a group of keys.
func (a *attempt) acquire(group []int, value string, keep time.Duration) script.Call {
	l := a.lock
	own, earlier, keys := 0, "", l.redisKeys(group)
	if i := slices.Index(group, a.at); a.got != nil && i >= 0 {
		own, earlier = i+1, a.got.Body
		keys = append(script.Call{Script: script.MultiAcquire, Key: l.redisKeyOf(a.at)}.Keys(), keys...)
	}
	had := cmp.Or(a.way.value, a.first) // as earlier has it for one key
	args := []any{value, l.part.Expiry().Milliseconds(), own, earlier, len(group), had, keep.Milliseconds()}
	return script.Call{Script: script.MultiAcquire, Together: keys, Args: args}
}

// read reads the answer for a group of keys.
func (a *attempt) read(group []int, o driver.Result, d script.Indeterminate, t *tried) groupResult {
	for _, n := range group {
		t.sent[n], t.indeterminate[n] = o.Sent, d
	}
	if o.Err != nil {
		return groupResult{busy: group[0], err: o.Err}
	}
	code, detail, gave := readReply(o.Reply)
	if code == script.OK {
		for _, n := range group {
			t.fence[n] = detail
		}
		return groupResult{answered: true}
	}
	busy := group[int(min(max(detail, 1), int64(len(group))))-1]
	return groupResult{busy: busy, err: a.of(busy, a.wait.Refusal(code, o.Reply, 3)), answered: true, gave: gave}
}

// readReply reads the answer of the script. detail is the token of a grant.
// Without a grant, it is the number of the key that the code is about, counted
// from 1. gave is the answer of the hand-off of the key that the call was
// handed, or 0 if there was none.
func readReply(reply any) (code, detail, gave int64) {
	values, err := driver.Values(reply, nil)
	if err != nil || len(values) == 0 {
		return script.Conflict, 0, 0
	}
	if _, err := driver.Scan(append(values, int64(0), int64(0)), &code, &detail, &gave); err != nil {
		return script.Conflict, 0, 0
	}
	return code, detail, gave
}

// one requests the n-th key: with a full lease, or only to keep it.
func (a *attempt) one(ctx context.Context, n int, value string, keep time.Duration, t *tried) error {
	s, call := a.acquireOne(n, value, keep)
	o, d := a.lock.Manager.Ask(ctx, s, call)
	return a.readOne(n, o, d, t)
}

// acquireOne returns the script that acquires the n-th key, and its settings.
func (a *attempt) acquireOne(n int, value string, keep time.Duration) (*lockspec.Spec, script.Call) {
	l, s, length := a.lock, &a.lock.part, a.lock.part.Expiry()
	if keep > 0 {
		s, length = &l.entrySpec, keep
	}
	return s, script.Call{
		Script: s.Variant(script.Acquire), Key: l.redisKeyOf(n), Args: []any{value, a.earlier(n), length.Milliseconds()},
	}
}

// readOne reads the answer for the n-th key.
func (a *attempt) readOne(n int, o driver.Result, d script.Indeterminate, t *tried) error {
	t.sent[n], t.indeterminate[n] = o.Sent, d
	if o.Err != nil {
		return o.Err
	}
	code, drawn := script.ReadGrant(o.Reply)
	t.fence[n] = drawn.Fence
	return a.of(n, a.wait.Refusal(code, o.Reply, 1))
}

// earlier returns the value under which the call may have the n-th key, or "".
// What a try for all groups took is being released, which may come later.
func (a *attempt) earlier(n int) string {
	switch {
	case a.got != nil && a.at == n:
		return a.got.Body
	case n < a.way.n:
		return a.way.value
	}
	return a.first
}
