package relock

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"
)

// queued is the place of one call in the queue, and its requests there, one at a time. Its wait is drawn anew for
// each hold that it could take: one that was granted or given up is never used again.
type queued struct {
	line     *line
	settings *lockSettings
	kind     byte                                  // p or r
	body     func(hold string) (body, info string) // what the lock stores
	once     bool                                  // does not wait
	wake     chan struct{}                         // has one when somebody says that the lock may be had

	name, hold string // of the wait; "" before it is drawn
	args       []any  // of the lease and the hold, as scripts take them
	earlier    string // hold of a SET NX of the same call
	known      bool   // the server has said that the wait is in the queue
	sent       bool   // a request of the wait
	doubt      doubt

	// Guarded by queue.mu.
	ticket  string // "" until it is known
	sending bool
	crowd   bool // was woken together with all others
	epoch   int  // of the feed when the request under way was sent
}

func newQueued(l *line, kind byte, s *lockSettings, once bool, body func(string) (string, string)) *queued {
	return &queued{line: l, settings: s, kind: kind, once: once, body: body, wake: make(chan struct{}, 1)}
}

// first says that nothing was sent yet, by this call or by another one of the client for the same lock.
func (w *queued) first() bool { return w.name == "" && w.line.alone() }

// nudge makes the call look at the lock.
func (w *queued) nudge() {
	select {
	case w.wake <- struct{}{}:
	default: // it will anyway
	}
}

// attempt asks for the lock. No error is a grant, of a request that was sent at the time that is returned.
func (w *queued) attempt(ctx context.Context) (time.Time, error) {
	for {
		o := w.send(ctx)
		if o.err != nil {
			return o.sent, o.err
		}
		switch code := w.read(o.reply); code {
		case answerOurs:
			w.line.queue.remove(w)
			return o.sent, nil
		case answerUnqueued:
			w.known = false
		case answerMore:
			w.line.queue.client.passOn(w.line.redisKey)
			return o.sent, ErrLockAcquiredByOthers
		case answerOther:
			return o.sent, ErrLockAcquiredByOthers
		default:
			return o.sent, ErrKeyConflict
		}
	}
}

// send sends the next request, unless the context ends before it is the call's turn.
func (w *queued) send(ctx context.Context) outcome {
	c, q := w.line.queue.client, w.line.queue
	gated := w.inCrowd()
	if gated && !w.enterGate(ctx) {
		return outcome{err: errLeft}
	}
	w.draw()
	q.mu.Lock()
	w.sending, w.epoch = true, q.feed.epoch
	s := w.request()
	q.mu.Unlock()
	o, d := c.eval(ctx, ofLease(w.settings.lease), s)
	if gated {
		<-w.line.gate
	}
	w.doubt, w.sent = w.doubt.merge(d), w.sent || !o.sent.IsZero()
	w.known = w.known && o.err == nil
	q.mu.Lock()
	w.sending = false
	q.mu.Unlock()
	return o
}

// inCrowd says that many others may be about to send as well: all but the claim of a wait that was woken by itself.
func (w *queued) inCrowd() bool {
	q := w.line.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	crowd := w.crowd || !w.known
	w.crowd = false
	return crowd
}

func (w *queued) enterGate(ctx context.Context) bool {
	select {
	case w.line.gate <- struct{}{}:
		return true
	case <-ctx.Done():
	case <-w.line.queue.client.life.Done():
	}
	return false
}

// draw makes a new wait, when there is none.
func (w *queued) draw() {
	if w.name != "" {
		return
	}
	q := w.line.queue
	w.hold = q.draw()
	w.name = waitOf(w.hold, w.kind, w.settings)
	body, info := w.body(w.hold)
	w.args = []any{w.settings.asked().Milliseconds(), body, info}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waits[w.hold] = w
}

// request is the next one: once the wait is in the queue, a claim. mu is held.
func (w *queued) request() scripted {
	switch {
	case w.once:
		return scripted{tryScript, w.line.redisKey, append([]any{w.name}, w.args...)}
	case w.known:
		return scripted{claimScript, w.line.redisKey, append([]any{w.name}, w.args...)}
	}
	args := []any{w.name, w.settings.period().Milliseconds(), w.ticket, w.earlier}
	return scripted{enqueueScript, w.line.redisKey, append(args, w.args...)}
}

// read takes an answer in.
func (w *queued) read(reply any) int64 {
	values, err := redis.Values(reply, nil)
	if err != nil || len(values) == 0 {
		return answerAlien
	}
	code, err := redis.Int64(values[0], nil)
	if err != nil {
		return answerAlien
	}
	if len(values) == 3 && (code == answerOther || code == answerMore) {
		ticket, err1 := redis.String(values[1], nil)
		left, err2 := redis.Int64(values[2], nil)
		if errors.Join(err1, err2) == nil {
			w.known = true
			w.line.queue.add(w, ticket, time.Duration(left)*time.Millisecond)
		}
	}
	return code
}

// leave ends the call's place. A wait that the server may know of is cancelled at once, with the hold that a request
// still under way may take.
func (w *queued) leave() {
	if w.name != "" {
		w.line.queue.remove(w)
		if w.sent && (!w.once || w.doubt.exists()) {
			s := w.settings
			job := newCleanup(w.line.key, s.asked(), s.lease, w.doubt, cancelOf(w.line.redisKey, w.name, true))
			job.quiet = !w.doubt.exists() // then it cannot have the lock
			w.line.queue.client.clean(job)
		}
	}
	w.line.exit()
}

// grant is what a lease has to know of the wait that it came from.
type grant struct {
	hold, body string
	doubt      doubt
	undo       func(time.Time) scripted // cancels the wait, and gives back its hold
}

// granted returns what the last attempt got. Should the call go on, it draws a new wait.
func (w *queued) granted() grant {
	g := grant{w.hold, w.args[1].(string), w.doubt, cancelOf(w.line.redisKey, w.name, true)}
	w.name, w.known, w.sent, w.doubt = "", false, false, doubt{}
	w.line.queue.mu.Lock()
	defer w.line.queue.mu.Unlock()
	w.ticket = ""
	return g
}

// trouble is why the client's last poll for the lock failed, or nil.
func (w *queued) trouble() error {
	w.line.queue.mu.Lock()
	defer w.line.queue.mu.Unlock()
	return w.line.trouble
}
