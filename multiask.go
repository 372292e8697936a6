package relock

import (
	"context"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

// tried is what became of one try for all keys, by the number of the key.
type tried struct {
	sent  []time.Time
	doubt []doubt
	fence []int64 // tokens; with fencing the highest is that of the hold
	taken int     // so many keys, the first ones; only where each is asked for by itself
	busy  int     // the key that the error is about
	err   error   // nil when all are ours
}

// ask sends the requests of one try.
func (a *multiAttempt) ask(ctx context.Context, value string) *tried {
	n := len(a.lock.keys)
	t := &tried{sent: make([]time.Time, n), doubt: make([]doubt, n), fence: make([]int64, n)}
	if !a.lock.client.apart.Load() {
		refused := a.askTogether(ctx, value, t)
		if !refused {
			return t
		}
		a.lock.client.apart.Store(true)
	}
	for n := range a.lock.keys {
		if a.askOne(ctx, n, value, t); t.err != nil {
			t.busy = n
			return t
		}
		t.taken++
	}
	a.raise(ctx, t)
	return t
}

// raise gives all keys the highest of their tokens.
func (a *multiAttempt) raise(ctx context.Context, t *tried) {
	highest := slices.Max(t.fence)
	for n, fence := range t.fence {
		if fence < highest {
			if t.err = a.lock.client.raise(ctx, &a.lock.part, a.lock.redisKeyOf(n), highest); t.err != nil {
				return
			}
			t.fence[n] = highest
		}
	}
}

// askTogether asks for all keys by one script. It says whether the server refuses that.
func (a *multiAttempt) askTogether(ctx context.Context, value string, t *tried) (refused bool) {
	l := a.lock
	own, earlier := 0, ""
	if a.got != nil {
		own, earlier = a.at+1, a.got.body
	}
	args := []any{value, l.part.asked().Milliseconds(), own, earlier, len(l.keys)}
	o, d := l.client.evalKeys(ctx, &l.part, multiAcquireScript, l.redisKeys(), args)
	if isCrossSlot(o.err) {
		return true // before it did anything
	}
	for n := range l.keys {
		t.sent[n], t.doubt[n] = o.sent, d
	}
	if t.err = o.err; o.err != nil {
		return false
	}
	code, detail := readMulti(o.reply)
	if code == answerOurs {
		t.fence[0] = detail
		return false
	}
	t.busy = int(min(max(detail, 1), int64(len(l.keys)))) - 1
	t.err = a.of(t.busy, reasonOf(code))
	return false
}

// readMulti reads the answer of the script: what it says, and the token, or of which key it says it, counted from 1.
func readMulti(reply any) (code, detail int64) {
	values, err := redis.Int64s(reply, nil)
	switch {
	case err != nil || len(values) == 0:
		return answerAlien, 0
	case len(values) == 1:
		return values[0], 0
	}
	return values[0], values[1]
}

// reasonOf is what an acquiring script answers, as an error.
func reasonOf(code int64) error {
	switch code {
	case answerOurs:
		return nil
	case answerOther:
		return ErrLockAcquiredByOthers
	}
	return ErrKeyConflict
}

// askOne asks for the n-th key.
func (a *multiAttempt) askOne(ctx context.Context, n int, value string, t *tried) {
	l, earlier := a.lock, ""
	if a.got != nil && a.at == n {
		earlier = a.got.body
	}
	s := scripted{l.part.drawing(acquireScript), l.redisKeyOf(n), []any{value, earlier, l.part.asked().Milliseconds()}}
	o, d := l.client.ask(ctx, &l.part, s)
	t.sent[n], t.doubt[n] = o.sent, d
	if t.err = o.err; o.err != nil {
		return
	}
	code, drawn := readGrant(o.reply)
	t.fence[n], t.err = drawn.fence, a.of(n, reasonOf(code))
}

// evalKeys is ask of a script for several locks.
func (c *Client) evalKeys(ctx context.Context, settings *lockSettings, s *Script, keys []string, args []any) (outcome, doubt) {
	c.vigil.look(time.Now())
	send := func(r request) outcome {
		r.confirm = settings.confirmation()
		return c.driver.send(ctx, ofLease(settings.lease), r)
	}
	once := func() outcome {
		o := send(s.bySHA(keys, args))
		if isNoScript(o.err) {
			o = send(s.bySource(keys, args))
		}
		return o
	}
	o := once()
	d := doubt{}.add(o)
	if o.broke() && ctx.Err() == nil {
		o = once()
		d = d.add(o)
	}
	return o, d.orUnread(o)
}

// isCrossSlot says that a Cluster has refused keys of several slots together.
func isCrossSlot(err error) bool {
	line, ok := errorLine(err)
	return ok && code(line) == "CROSSSLOT"
}
