package waitqueue

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// The requests of an entry, one at a time, and what their answers say of its
// place. The gate of the line limits how many of its calls send together.

// send sends the next request. It sends nothing if the context is cancelled
// while the call waits at the gate.
func (w *Entry) send(ctx context.Context) driver.Result {
	a := w.Line.lines
	if a.host.Life.Err() != nil { // Close may have cancelled the entry
		return driver.Result{Err: driver.ErrAbandoned}
	}
	gated := w.inCrowd()
	if gated && !w.enterGate(ctx) {
		return driver.Result{Err: driver.ErrAbandoned}
	}
	w.draw()
	a.mu.Lock()
	w.sending, w.epoch = true, a.channels.of(w.Line.RedisKey).now()
	s := w.request()
	a.mu.Unlock()
	w.Woken = false
	o, d := a.host.Ask(ctx, w.Settings, s)
	if gated {
		<-w.Line.gate
	}
	// A script may be sent a second time. If that copy found no server, o.Sent
	// is zero, and only d shows that the first copy was sent.
	w.indeterminate, w.Sent = w.indeterminate.Merge(d), w.Sent || d.Exists() ||
		!o.Sent.IsZero() && !driver.IsUnexecuted(o.Err)
	w.Known = w.Known && o.Err == nil
	a.mu.Lock()
	w.sending = false
	a.mu.Unlock()
	return o
}

// inCrowd reports whether many other calls may be about to send too. That holds
// for every request except the claim of a waiter that was notified
// individually.
func (w *Entry) inCrowd() bool {
	a := w.Line.lines
	a.mu.Lock()
	defer a.mu.Unlock()
	crowd := w.crowd || !w.Known
	w.crowd = false
	return crowd
}

func (w *Entry) enterGate(ctx context.Context) bool {
	select {
	case w.Line.gate <- struct{}{}:
		return true
	case <-ctx.Done():
	case <-w.Line.lines.host.Life.Done():
	}
	return false
}

// request returns the next request. Once the entry is known to be in the queue,
// it is a claim. base.mu is held.
func (w *Entry) request() script.Call {
	switch {
	case w.once:
		return w.take(w.Settings.Kind.Queue.Try)
	case w.Known:
		return w.take(w.Settings.Kind.Queue.Claim)
	}
	args := []any{w.Name, w.Settings.Period().Milliseconds(), w.ticket, w.Earlier}
	args = append(args, w.args...)
	if w.Settings.QueueLimit > 0 {
		args = append(args, int(w.Settings.QueueLimit))
	}
	return script.Call{Script: w.Settings.Variant(w.Settings.Kind.Queue.Enqueue), Key: w.Line.RedisKey, Args: args}
}

// take returns the call of a script that takes the lock for the entry.
func (w *Entry) take(s *script.Script) script.Call {
	return script.Call{Script: w.Settings.Variant(s), Key: w.Line.RedisKey, Args: append([]any{w.Name}, w.args...)}
}

// read notes the tokens and the queue position in an answer, and returns its
// code.
func (w *Entry) read(reply any) int64 {
	code, t := script.ReadGrant(reply)
	w.tokens = t
	values, _ := driver.Values(reply, nil)
	ms := 1
	if len(values) == 4 && (code == script.NotHeld || code == script.Kept || code == script.ScanLimit) {
		ms = 2
		ticket, err1 := driver.String(values[1], nil)
		left, err2 := driver.Int64(values[2], nil)
		others, err3 := driver.Int64(values[3], nil)
		if errors.Join(err1, err2, err3) == nil {
			w.Known = true
			w.Line.add(w, ticket, time.Duration(left)*time.Millisecond, others)
		}
	}
	w.Line.note(func(now *Answer) { now.Kept = script.KeptUntil(reply, ms) })
	return code
}
