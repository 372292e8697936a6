package waitqueue

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// Entry is the place of one call in the queue, and its requests there, one at a
// time. Its wait is drawn anew for each hold that it could take: one that was
// granted or given up is never used again.
type Entry struct {
	Line     *Line
	Settings *lockspec.Spec
	body     func(hold string) (body, info string) // what the lock stores
	once     bool                                  // does not wait
	Wake     chan struct{}                         // has one when somebody says that the lock may be had

	Name, hold string        // of the wait; "" before it is drawn
	args       []any         // of the lease and the hold, as scripts take them
	Earlier    string        // hold of a SET NX of the same call
	Known      bool          // the server has said that the wait is in the queue
	Sent       bool          // a request of the wait
	Woken      bool          // and has not asked since
	tokens     script.Tokens // of the grant
	doubt      script.Indeterminate

	// Guarded by queue.mu.
	ticket  string // "" until it is known
	sending bool
	crowd   bool // was woken together with all others
	epoch   int  // of the feed when the request under way was sent
	wakeups *wakeupLimit
}

// NewEntry returns the entry of a call in a line. A call that asks once does
// not wait. body returns what the lock stores for a hold.
func NewEntry(l *Line, s *lockspec.Spec, once bool, body func(string) (string, string)) *Entry {
	return &Entry{Line: l, Settings: s, once: once, body: body, Wake: make(chan struct{}, 1)}
}

// Nudge makes the call look at the lock.
func (w *Entry) Nudge() {
	select {
	case w.Wake <- struct{}{}:
	default: // it will anyway
	}
}

// WakeNext passes a wake-up on to whoever has the place next, which the call
// before has not come to use.
func (w *Entry) WakeNext() {
	if w.Woken {
		w.Nudge()
	}
}

// suits reports whether another call with the settings can use the place. For a
// reentrant lock no request may be in doubt: a late one would take it in the
// name of the call before.
func (w *Entry) suits(s *lockspec.Spec) bool {
	return w.Known && w.Settings.SameHold(s) && (w.Settings.Kind.Wait == lockspec.Plain.Wait || !w.doubt.Exists())
}

// Rebind makes the place take the lock for another call, whose hold stores what
// body says.
func (w *Entry) Rebind(body func(string) (string, string)) {
	w.body = body
	stored, info := body(w.hold)
	w.args = []any{w.Settings.Expiry().Milliseconds(), stored, info}
}

// Attempt asks for the lock. No error is a grant, of a request that was sent at
// the time that is returned.
func (w *Entry) Attempt(ctx context.Context) (time.Time, error) {
	for {
		o := w.send(ctx)
		if o.Err != nil {
			return o.Sent, o.Err
		}
		switch code := w.read(o.Reply); code {
		case script.Ours:
			w.Line.Queue.remove(w)
			return o.Sent, nil
		case script.Unqueued:
			w.Known = false
		case script.More:
			w.Line.Queue.host.Retrier.PassOn(script.Call{Script: w.Settings.Kind.Queue.Cancel, Key: w.Line.redisKey})
			return o.Sent, errs.ErrLockAcquiredByOthers
		case script.Other:
			return o.Sent, errs.ErrLockAcquiredByOthers
		case script.Full:
			return o.Sent, errs.ErrQueueFull
		default:
			w.Known = false // nobody can use the place as it is
			return o.Sent, errs.ErrKeyConflict
		}
	}
}

// send sends the next request, unless the context ends before it is the call's
// turn.
func (w *Entry) send(ctx context.Context) driver.Result {
	q := w.Line.Queue
	if q.host.Life.Err() != nil { // Close may have taken the wait out of the queue
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
	w.Woken = false
	o, d := q.host.Ask(ctx, w.Settings, s)
	if gated {
		<-w.Line.gate
	}
	w.doubt, w.Sent = w.doubt.Merge(d), w.Sent || !o.Sent.IsZero() || d.Exists() // the second attempt may find no server
	w.Known = w.Known && o.Err == nil
	q.mu.Lock()
	w.sending = false
	q.mu.Unlock()
	return o
}

// inCrowd reports whether many others may be about to send as well: all but the
// claim of a wait that was woken by itself.
func (w *Entry) inCrowd() bool {
	q := w.Line.Queue
	q.mu.Lock()
	defer q.mu.Unlock()
	crowd := w.crowd || !w.Known
	w.crowd = false
	return crowd
}

func (w *Entry) enterGate(ctx context.Context) bool {
	select {
	case w.Line.gate <- struct{}{}:
		return true
	case <-ctx.Done():
	case <-w.Line.Queue.host.Life.Done():
	}
	return false
}

// draw makes a new wait, when there is none.
func (w *Entry) draw() {
	if w.Name != "" {
		return
	}
	w.hold = w.Line.Queue.draw(w)
	w.Name = lockspec.WaitName(w.hold, w.Settings)
	body, info := w.body(w.hold)
	w.args = []any{w.Settings.Expiry().Milliseconds(), body, info}
}

// request is the next one: once the wait is in the queue, a claim. mu is held.
func (w *Entry) request() script.Call {
	switch {
	case w.once:
		return script.Call{Script: w.Settings.Variant(w.Settings.Kind.Queue.Try), Key: w.Line.redisKey, Args: append([]any{w.Name}, w.args...)}
	case w.Known:
		return script.Call{Script: w.Settings.Variant(w.Settings.Kind.Queue.Claim), Key: w.Line.redisKey, Args: append([]any{w.Name}, w.args...)}
	}
	args := []any{w.Name, w.Settings.Period().Milliseconds(), w.ticket, w.Earlier}
	args = append(args, w.args...)
	if w.Settings.QueueLimit > 0 {
		args = append(args, int(w.Settings.QueueLimit))
	}
	return script.Call{Script: w.Settings.Variant(w.Settings.Kind.Queue.Enqueue), Key: w.Line.redisKey, Args: args}
}

// read takes an answer in.
func (w *Entry) read(reply any) int64 {
	code, t := script.ReadGrant(reply)
	w.tokens = t
	values, _ := driver.Values(reply, nil)
	if len(values) == 4 && (code == script.Other || code == script.More) {
		ticket, err1 := driver.String(values[1], nil)
		left, err2 := driver.Int64(values[2], nil)
		others, err3 := driver.Int64(values[3], nil)
		if errors.Join(err1, err2, err3) == nil {
			w.Known = true
			w.Line.Queue.add(w, ticket, time.Duration(left)*time.Millisecond, others)
		}
	}
	return code
}

// Leave gives the place up, if there is one. A wait that the server may know of
// is cancelled at once, with the hold that a request still under way may take.
func (w *Entry) Leave() {
	if w != nil && w.Name != "" {
		w.Line.Queue.remove(w)
		if w.Sent && (!w.once || w.doubt.Exists()) {
			s := w.Settings
			job := background.NewRelease(w.Line.key, s.Expiry(), s.Lease, w.doubt, Cancel(w.Line.redisKey, w.Name, true))
			job.BestEffort = !w.doubt.Exists() // then it cannot have the lock
			w.Line.Queue.host.Retrier.Retry(job)
		}
	}
}

// Granted is what a lease has to know of the wait that it came from.
type Granted struct {
	Hold, Body string
	Tokens     script.Tokens
	Doubt      script.Indeterminate
	Undo       func(time.Time) script.Call // cancels the wait, and gives back its hold
}

// Granted returns what the last attempt got. Should the call go on, it draws a
// new wait.
func (w *Entry) Granted() Granted {
	g := Granted{w.hold, w.args[1].(string), w.tokens, w.doubt, Cancel(w.Line.redisKey, w.Name, true)}
	w.Name, w.Known, w.Sent, w.doubt = "", false, false, script.Indeterminate{}
	w.Line.Queue.mu.Lock()
	defer w.Line.Queue.mu.Unlock()
	w.ticket = ""
	return g
}
