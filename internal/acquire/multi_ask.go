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

// tried is what became of one try for all keys, by the number of the key.
type tried struct {
	sent  []time.Time
	doubt []script.Indeterminate
	fence []int64 // tokens; with fencing the highest is that of the hold
	taken int     // so many keys, the first ones; only where each is asked for by itself
	busy  int     // the key that the error is about
	// An answer without doubt has taken over or handed over the key that the
	// call was handed.
	settled bool
	kept    int   // so many keys, the first ones, are kept under the value of the try
	err     error // nil when all are ours
}

// ask sends the requests of one try. If it fails because a key is held, it
// keeps the keys before that one for so long; 0: it keeps none. One by one it
// only keeps keys then, if need be all.
func (a *multiAttempt) ask(ctx context.Context, value string, keep time.Duration) *tried {
	n := len(a.lock.keys)
	t := &tried{sent: make([]time.Time, n), doubt: make([]script.Indeterminate, n), fence: make([]int64, n)}
	if !a.lock.Manager.OneByOne.Load() {
		refused := a.askTogether(ctx, value, keep, t)
		if !refused {
			return t
		}
		a.lock.Manager.OneByOne.Store(true)
	}
	a.askEach(ctx, value, keep, t)
	return t
}

// askEach asks for one key after another.
func (a *multiAttempt) askEach(ctx context.Context, value string, keep time.Duration, t *tried) {
	for n := range a.lock.keys {
		if a.askOne(ctx, n, value, keep, t); t.err != nil {
			t.busy = n
			break
		}
		t.taken++
	}
	t.settled = t.err == nil
	if keep > 0 && (t.err == nil || errors.Is(t.err, errs.ErrLockAcquiredByOthers)) {
		t.kept, t.taken = t.taken, 0
		return
	}
	if t.err == nil {
		a.raise(ctx, t)
	}
}

// raise gives all keys the highest of their tokens.
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

// askTogether asks for all keys by one script. It says whether the server refuses that.
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
		return true // before it did anything
	}
	for n := range l.keys {
		t.sent[n], t.doubt[n] = o.Sent, d
	}
	if t.err = o.Err; o.Err != nil {
		return false
	}
	code, detail, gave := readMulti(o.Reply)
	t.settled = !d.Exists()
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

// readMulti reads the answer of the script: what it says; the token, or of
// which key it says it, counted from 1; and what the hand-over of the key that
// the call was handed has answered, 0 if there was none.
func readMulti(reply any) (code, detail, gave int64) {
	values, err := driver.Int64s(reply, nil)
	if err != nil || len(values) == 0 {
		return script.Foreign, 0, 0
	}
	values = append(values, 0, 0)
	return values[0], values[1], values[2]
}

// reasonOf is what an acquiring script answers, as an error.
func reasonOf(code int64) error {
	switch code {
	case script.Ours:
		return nil
	case script.Other:
		return errs.ErrLockAcquiredByOthers
	}
	return errs.ErrKeyConflict
}

// askOne asks for the n-th key, with a whole lease or only to keep it.
func (a *multiAttempt) askOne(ctx context.Context, n int, value string, keep time.Duration, t *tried) {
	l, s, length := a.lock, &a.lock.part, a.lock.part.Expiry()
	if keep > 0 {
		s, length = &l.place, keep
	}
	o, d := l.Manager.Ask(ctx, s, script.Call{Script: s.Variant(script.Acquire), Key: l.redisKeyOf(n), Args: []any{value, a.earlier(n), length.Milliseconds()}})
	t.sent[n], t.doubt[n] = o.Sent, d
	if t.err = o.Err; o.Err != nil {
		return
	}
	code, drawn := script.ReadGrant(o.Reply)
	t.fence[n], t.err = drawn.Fence, a.of(n, reasonOf(code))
}

// earlier is the value under which the call has the n-th key, or "".
func (a *multiAttempt) earlier(n int) string {
	switch {
	case a.got != nil && a.at == n:
		return a.got.Body
	case n < a.way.n:
		return a.way.value
	}
	return ""
}
