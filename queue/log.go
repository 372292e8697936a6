package queue

import (
	"errors"
	"unicode/utf8"

	"github.com/relock-go/relock"
)

// The lines of one attempt have the same attributes, so that those of a task
// can be found by its id. The payload is in none of them.

// about returns what a log line says of a delivery. The attributes in more
// follow.
func (d *Delivery) about(more ...any) []any {
	all := []any{"queue", d.queue.name, "id", d.ID, "key", d.Key, "attempt", d.Attempt}
	if d.Interruptions > 0 {
		all = append(all, "interruptions", d.Interruptions)
	}
	return append(all, more...)
}

// logEnd logs an attempt that has failed. The caller of a settle has no other
// trace of it than the counts of the queue.
func (d *Delivery) logEnd(outcome Outcome, reason string) {
	switch log := d.queue.engine.Logger; outcome {
	case Failed:
		log.Info("relock: an attempt at a task failed", d.about("reason", reason)...)
	case Dead:
		log.Warn("relock: a task is a dead letter", d.about("reason", reason)...)
	default: // the error of the settle says it
	}
}

// logDead logs tasks that have become dead letters because their workers are
// gone: nobody settles those. The receive that found them reports them.
func (b *base) logDead(all []taken) {
	for _, t := range all {
		b.engine.Logger.Warn("relock: a task is a dead letter", "queue", b.name, "id", t.id, "key", string(t.record),
			"attempt", t.attempt, "interruptions", t.interrupted, "reason", "its worker was gone")
	}
}

// logSettled logs an error of a settle, which no caller learns of.
func (d *Delivery) logSettled(err error) {
	log := d.queue.engine.Logger
	switch {
	case err == nil || errors.Is(err, relock.ErrClosed):
	case errors.Is(err, relock.ErrLockLost):
		log.Info("relock: an attempt at a task lost its lease", d.about("reason", err.Error())...)
	case errors.Is(err, relock.ErrNotHeld): // settled by the function meanwhile
	default:
		log.Warn("relock: a task was not settled", d.about("reason", err.Error())...)
	}
}

// maxReason limits the reason that is kept of a failed attempt, or a dead
// letter.
const maxReason = 1024

// reasonOf returns the text of an error that is kept of a failed attempt or a
// dead letter, and logged. A long one is cut, between two characters.
func reasonOf(why error) string {
	if why == nil {
		return ""
	}
	text := why.Error()
	if len(text) <= maxReason {
		return text
	}
	cut := maxReason
	for cut > maxReason-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}
