package relock

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// queued is the place of one call in the queue, and its requests there, one at a time. Its wait is drawn anew for
// each hold that it could take: one that was granted or given up is never used again.
type queued struct {
	line     *line
	settings *lockspec.Spec
	body     func(hold string) (body, info string) // what the lock stores
	once     bool                                  // does not wait
	wake     chan struct{}                         // has one when somebody says that the lock may be had

	name, hold string        // of the wait; "" before it is drawn
	args       []any         // of the lease and the hold, as scripts take them
	earlier    string        // hold of a SET NX of the same call
	known      bool          // the server has said that the wait is in the queue
	sent       bool          // a request of the wait
	woken      bool          // and has not asked since
	tokens     script.Tokens // of the grant
	doubt      script.Indeterminate

	// Guarded by queue.mu.
	ticket  string // "" until it is known
	sending bool
	crowd   bool // was woken together with all others
	epoch   int  // of the feed when the request under way was sent
	wakeups *wakeups
}

func newQueued(l *line, s *lockspec.Spec, once bool, body func(string) (string, string)) *queued {
	return &queued{line: l, settings: s, once: once, body: body, wake: make(chan struct{}, 1)}
}

// nudge makes the call look at the lock.
func (w *queued) nudge() {
	select {
	case w.wake <- struct{}{}:
	default: // it will anyway
	}
}

// wakeNext passes a wake-up on to whoever has the place next, which the call before has not come to use.
func (w *queued) wakeNext() {
	if w.woken {
		w.nudge()
	}
}

// suits says whether another call with the settings can use the place. For a reentrant lock no request may be in doubt:
// a late one would take it in the name of the call before.
func (w *queued) suits(s *lockspec.Spec) bool {
	return w.known && w.settings.SameHold(s) && (w.settings.Kind.Wait == lockspec.Plain.Wait || !w.doubt.Exists())
}

// serve makes the place take the lock for another call, whose hold stores what body says.
func (w *queued) serve(body func(string) (string, string)) {
	w.body = body
	stored, info := body(w.hold)
	w.args = []any{w.settings.Expiry().Milliseconds(), stored, info}
}

// attempt asks for the lock. No error is a grant, of a request that was sent at the time that is returned.
func (w *queued) attempt(ctx context.Context) (time.Time, error) {
	for {
		o := w.send(ctx)
		if o.Err != nil {
			return o.Sent, o.Err
		}
		switch code := w.read(o.Reply); code {
		case script.Ours:
			w.line.queue.remove(w)
			return o.Sent, nil
		case script.Unqueued:
			w.known = false
		case script.More:
			w.line.queue.client.passOn(script.Call{Script: w.settings.Kind.Queue.Cancel, Key: w.line.redisKey})
			return o.Sent, ErrLockAcquiredByOthers
		case script.Other:
			return o.Sent, ErrLockAcquiredByOthers
		case script.Full:
			return o.Sent, ErrQueueFull
		default:
			w.known = false // nobody can use the place as it is
			return o.Sent, ErrKeyConflict
		}
	}
}

// send sends the next request, unless the context ends before it is the call's turn.
func (w *queued) send(ctx context.Context) driver.Result {
	c, q := w.line.queue.client, w.line.queue
	if c.life.Err() != nil { // Close may have taken the wait out of the queue
		return driver.Result{Err: driver.ErrAbandoned}
	}
	gated := w.inCrowd()
	if gated && !w.enterGate(ctx) {
		return driver.Result{Err: driver.ErrAbandoned}
	}
	w.draw()
	q.mu.Lock()
	w.sending, w.epoch = true, q.feed.epoch
	s := w.request()
	q.mu.Unlock()
	w.woken = false
	o, d := c.ask(ctx, w.settings, s)
	if gated {
		<-w.line.gate
	}
	w.doubt, w.sent = w.doubt.Merge(d), w.sent || !o.Sent.IsZero() || d.Exists() // the second attempt may find no server
	w.known = w.known && o.Err == nil
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
	w.hold = w.line.queue.draw(w)
	w.name = lockspec.WaitName(w.hold, w.settings)
	body, info := w.body(w.hold)
	w.args = []any{w.settings.Expiry().Milliseconds(), body, info}
}

// request is the next one: once the wait is in the queue, a claim. mu is held.
func (w *queued) request() script.Call {
	switch {
	case w.once:
		return script.Call{Script: w.settings.Variant(w.settings.Kind.Queue.Try), Key: w.line.redisKey, Args: append([]any{w.name}, w.args...)}
	case w.known:
		return script.Call{Script: w.settings.Variant(w.settings.Kind.Queue.Claim), Key: w.line.redisKey, Args: append([]any{w.name}, w.args...)}
	}
	args := []any{w.name, w.settings.Period().Milliseconds(), w.ticket, w.earlier}
	args = append(args, w.args...)
	if w.settings.QueueLimit > 0 {
		args = append(args, w.settings.QueueLimit)
	}
	return script.Call{Script: w.settings.Variant(w.settings.Kind.Queue.Enqueue), Key: w.line.redisKey, Args: args}
}

// read takes an answer in.
func (w *queued) read(reply any) int64 {
	code, t := script.ReadGrant(reply)
	w.tokens = t
	values, _ := driver.Values(reply, nil)
	if len(values) == 4 && (code == script.Other || code == script.More) {
		ticket, err1 := driver.String(values[1], nil)
		left, err2 := driver.Int64(values[2], nil)
		others, err3 := driver.Int64(values[3], nil)
		if errors.Join(err1, err2, err3) == nil {
			w.known = true
			w.line.queue.add(w, ticket, time.Duration(left)*time.Millisecond, others)
		}
	}
	return code
}

// leave gives the place up, if there is one. A wait that the server may know of is cancelled at once, with the hold that a request
// still under way may take.
func (w *queued) leave() {
	if w != nil && w.name != "" {
		w.line.queue.remove(w)
		if w.sent && (!w.once || w.doubt.Exists()) {
			s := w.settings
			job := background.NewRelease(w.line.key, s.Expiry(), s.Lease, w.doubt, cancelOf(w.line.redisKey, w.name, true))
			job.BestEffort = !w.doubt.Exists() // then it cannot have the lock
			w.line.queue.client.retrier.Retry(job)
		}
	}
}

// grant is what a lease has to know of the wait that it came from.
type grant struct {
	hold, body string
	tokens     script.Tokens
	doubt      script.Indeterminate
	undo       func(time.Time) script.Call // cancels the wait, and gives back its hold
}

// granted returns what the last attempt got. Should the call go on, it draws a new wait.
func (w *queued) granted() grant {
	g := grant{w.hold, w.args[1].(string), w.tokens, w.doubt, cancelOf(w.line.redisKey, w.name, true)}
	w.name, w.known, w.sent, w.doubt = "", false, false, script.Indeterminate{}
	w.line.queue.mu.Lock()
	defer w.line.queue.mu.Unlock()
	w.ticket = ""
	return g
}
