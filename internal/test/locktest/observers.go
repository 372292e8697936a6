package locktest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Witness is an observer that records its events.
type Witness struct {
	testing.TB

	Mu     sync.Mutex
	events []string
	Starts int
	Locked map[string]int // by kind, less those that have ended
	Last   relock.HoldDone
	Renews []relock.RenewDone
}

// NewWitness returns a Witness without events.
func NewWitness(t testing.TB) *Witness { return &Witness{TB: t, Locked: map[string]int{}} }

// Observer returns the hooks that record.
func (w *Witness) Observer() relock.Observer {
	return relock.Observer{LockStart: w.lockStart, LockDone: w.lockDone, HoldDone: w.holdDone, RenewDone: w.renewDone}
}

// note adds an event, and what else changes with it.
func (w *Witness) note(change func(), format string, args ...any) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	change()
	w.events = append(w.events, fmt.Sprintf(format, args...))
}

func (w *Witness) lockStart(ctx context.Context, e relock.LockStart) {
	w.note(func() { w.Starts++ }, "start %s %q %v %v", e.Kind, e.Key, e.Block, ctx.Value(MarkKey{}))
}

func (w *Witness) lockDone(ctx context.Context, e relock.LockDone) {
	if e.Start.IsZero() || time.Since(e.Start) > time.Minute {
		w.Errorf("began at %v", e.Start)
	}
	w.note(func() {
		w.Starts--
		if e.Err == nil {
			w.Locked[e.Kind]++
		}
	}, "done %s %q %v %v %v", e.Kind, e.Key, e.Block, ctx.Value(MarkKey{}), e.Err)
}

func (w *Witness) holdDone(ctx context.Context, e relock.HoldDone) {
	if ctx.Err() != nil || e.Start.IsZero() || e.End.Before(e.Start) {
		w.Errorf("a hold from %v to %v, %v", e.Start, e.End, ctx.Err())
	}
	w.note(func() {
		if w.Locked[e.Kind]--; w.Locked[e.Kind] < 0 {
			w.Errorf("the end of a %s hold that never started", e.Kind)
		}
		w.Last = e
	}, "over %s %q %v %v", e.Kind, e.Key, ctx.Value(MarkKey{}), e.Err)
}

func (w *Witness) renewDone(_ context.Context, e relock.RenewDone) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Renews = append(w.Renews, e)
}

// Renewals returns the renewals so far.
func (w *Witness) Renewals() []relock.RenewDone {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return slices.Clone(w.Renews)
}

// Events returns the events since the last call.
func (w *Witness) Events() []string {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	events := w.events
	w.events = nil
	return events
}

// LastEnd waits until every hold that was acquired has ended, and returns the
// last end.
func (w *Witness) LastEnd() relock.HoldDone {
	w.Helper()
	testkit.Eventually(w, testkit.Patience, func() bool {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		for _, n := range w.Locked {
			if n != 0 {
				return false
			}
		}
		return true
	}, "the end of each hold")
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.Last
}

// MarkKey is the key of a mark in a context.
type MarkKey struct{}

// Marked is a context that the hooks know again.
func Marked(t testing.TB) context.Context { return context.WithValue(t.Context(), MarkKey{}, "mine") }
