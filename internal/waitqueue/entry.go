package waitqueue

import (
	"context"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// Entry is the queue entry of one call. It sends its requests one at a time.
// Its name is drawn for one hold. A granted or cancelled name is never used
// again.
type Entry struct {
	Line     *Line
	Settings *lockspec.Spec
	body     func(hold string) (body, info string) // what the lock stores
	once     bool                                  // the call does not wait
	Wake     chan struct{}                         // has a value if the lock may be available

	Name, hold    string        // Name is "" before it is drawn
	args          []any         // of the lease and the hold, as the scripts take them
	Earlier       string        // the hold of a SET NX of the same call
	Known         bool          // the server's last answer said that it is in the queue
	Sent          bool          // a request under this name may have been executed
	Woken         bool          // notified, and no request was sent since
	tokens        script.Tokens // of the grant
	indeterminate script.Indeterminate
	claim         *Claim // of a grant by message; nil after any other

	// Guarded by base.mu.
	ticket           string // "" until it is known
	sending          bool
	crowd            bool      // notified together with all others
	drawn            time.Time // when the name was drawn
	grantedByMessage bool      // a message has granted it the lock
	parked           bool      // a hand-off may take it, see Park
	epoch            Epoch     // when the request under way was sent
	wakeups          *wakeupLimit
	polled           script.Indeterminate // polls that may put the entry back
}

// NewEntry returns the entry of a call in a line. If once is true, the call
// makes one attempt and does not wait. body returns what the lock stores for a
// hold.
func NewEntry(l *Line, s *lockspec.Spec, once bool, body func(string) (string, string)) *Entry {
	return &Entry{Line: l, Settings: s, once: once, body: body, Wake: make(chan struct{}, 1)}
}

// Nudge wakes the call, which then makes an attempt.
func (w *Entry) Nudge() {
	select {
	case w.Wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// Suits reports whether a call with settings s can take over the entry. For a
// reentrant lock, none of its requests may be indeterminate: a late one would
// take the lock in the name of the previous owner.
func (w *Entry) Suits(s *lockspec.Spec) bool {
	return w.Known && w.Settings.SameHold(s) && (w.Settings.Kind.Wait == lockspec.Plain.Wait || !w.indeterminate.Exists())
}

// Rebind makes the entry take the lock for another call. body returns what the
// lock stores for the hold of that call.
func (w *Entry) Rebind(body func(string) (string, string)) {
	w.body = body
	w.args = w.argsOf()
}

// Attempt requests the lock. A nil error is a grant.
func (w *Entry) Attempt(ctx context.Context) (Granted, error) {
	for {
		if w.takeGrant(ctx) {
			return w.granted(time.Now()), nil
		}
		o := w.send(ctx)
		if o.Err != nil {
			return Granted{}, o.Err
		}
		switch code := w.read(o.Reply); code {
		case script.OK:
			w.remove()
			return w.granted(o.Sent), nil
		case script.Unqueued:
			w.Known = false
		case script.ScanLimit:
			w.Line.lines.host.Retrier.PassOn(script.Call{Script: w.Settings.Kind.Queue.Cancel, Key: w.Line.RedisKey})
			return Granted{}, errs.ErrLockAcquiredByOthers
		case script.NotHeld, script.Kept:
			return Granted{}, errs.ErrLockAcquiredByOthers
		case script.Full:
			return Granted{}, errs.ErrQueueFull
		case script.Forced:
			if w.once {
				return Granted{}, errs.ErrLockAcquiredByOthers
			}
			w.rename()
		default:
			w.Known = false // so no other call takes over the entry as it is
			return Granted{}, w.Settings.KeyConflict(o.Reply)
		}
	}
}

// rename gives the entry another name after it was granted the lock without an
// answer, and that hold was marked to end by force. The cancel of the old name
// releases the hold, which would keep its own waiter out. The entry keeps its
// ticket.
func (w *Entry) rename() {
	old, late := w.redraw()
	w.Line.lines.host.Retrier.Retry(w.cancel(old, true, w.indeterminate.Merge(late)))
	// Sent: a poll that lists it with its ticket may queue it.
	w.Known, w.Sent, w.indeterminate = false, true, script.Indeterminate{}
	w.args = w.argsOf()
}

// argsOf returns the arguments of the scripts that take the lock.
func (w *Entry) argsOf() []any {
	body, info := w.body(w.hold)
	return []any{w.Settings.Expiry().Milliseconds(), body, info}
}

// draw gives the entry a name and a hold, unless it has them.
func (w *Entry) draw() {
	if w.Name != "" {
		return
	}
	w.Line.lines.mu.Lock()
	w.drawName()
	w.Line.lines.mu.Unlock()
	w.args = w.argsOf()
}

// redraw draws another name for an entry that stays in its line. It returns the
// old one, and the polls that may put it back.
func (w *Entry) redraw() (old string, late script.Indeterminate) {
	w.Line.lines.mu.Lock()
	defer w.Line.lines.mu.Unlock()
	old, late = w.Name, w.polled
	delete(w.Line.lines.waits, w.hold)
	w.grantedByMessage, w.polled = false, script.Indeterminate{}
	w.drawName()
	return old, late
}

// drawName registers the entry under a new name and the id of a new hold;
// base.mu is held.
func (w *Entry) drawName() {
	a := w.Line.lines
	w.hold, w.drawn = a.NewHold(), time.Now()
	if !w.once && w.Settings.GrantedByMessage() {
		w.Name = lockspec.NoncedName(w.hold, w.Settings)
	} else {
		w.Name = lockspec.WaitName(w.hold, w.Settings)
	}
	w.wakeups = &wakeupLimit{}
	a.waits[w.hold] = w
}

// Leave abandons the entry, which may be nil. If the server may know the entry,
// it is cancelled immediately. The cancel also releases the hold that a request
// still under way may take.
func (w *Entry) Leave() {
	if w != nil && w.Name != "" {
		w.remove()
		if w.Sent && (!w.once || w.indeterminate.Exists()) {
			job := w.cancel(w.Name, true, w.indeterminate.Merge(w.polled))
			// If no request is indeterminate, the entry cannot have the lock.
			job.BestEffort = !w.indeterminate.Exists()
			w.Line.lines.host.Retrier.Retry(job)
		}
	}
}

// remove forgets an entry that was granted or abandoned.
func (w *Entry) remove() {
	w.Line.lines.mu.Lock()
	defer w.Line.lines.mu.Unlock()
	w.forget()
}

// forget is remove for a caller that holds base.mu.
func (w *Entry) forget() {
	delete(w.Line.lines.waits, w.hold)
	if i := slices.Index(w.Line.waits, w); i >= 0 {
		w.Line.waits = slices.Delete(w.Line.waits, i, i+1)
	}
}

// cancel returns a job that cancels the entry under one of its names, for as
// long as a request of it may come late.
func (w *Entry) cancel(name string, alsoHold bool, late script.Indeterminate) *background.Release {
	s := w.Settings
	return background.NewRelease(w.Line.key, s.Expiry(), s.Lease, late, CancelOf(w.Line.RedisKey, name, alsoHold))
}

// cancelStray cancels what late polls put back of an entry that has ended, and
// has no claim under way. A Close that releases nothing leaves it.
func (w *Entry) cancelStray(name string, late script.Indeterminate) {
	if !late.Exists() || w.Line.lines.host.Life.Err() != nil {
		return
	}
	job := w.cancel(name, false, late)
	job.BestEffort = true
	w.Line.lines.host.Retrier.Retry(job)
}

// Granted is what a lease needs to know about the entry that it came from.
type Granted struct {
	Sent          time.Time // when the request was sent
	Hold, Body    string
	Tokens        script.Tokens
	Indeterminate script.Indeterminate
	Undo          func(time.Time) script.Call // cancels the entry and releases its hold
	Claim         *Claim                      // of a grant by message; else nil
}

// granted returns what an attempt was granted. If the call continues, a new
// name is drawn.
func (w *Entry) granted(sent time.Time) Granted {
	undo := CancelOf(w.Line.RedisKey, w.Name, true)
	g := Granted{sent, w.hold, w.args[1].(string), w.tokens, w.indeterminate, undo, w.claim}
	if w.claim == nil {
		w.cancelStray(w.Name, w.polled) // nothing adds to it: the entry has been removed
	}
	w.claim = nil
	w.Name, w.Known, w.Sent, w.indeterminate = "", false, false, script.Indeterminate{}
	w.Line.lines.mu.Lock()
	defer w.Line.lines.mu.Unlock()
	w.ticket, w.grantedByMessage, w.polled = "", false, script.Indeterminate{}
	return g
}
