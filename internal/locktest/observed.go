package locktest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/testkit"
)

// witness is an observer that writes down what it is told.
type witness struct {
	testing.TB

	Mu     sync.Mutex
	told   []string
	Starts int
	Locked map[string]int // by kind, less those that have ended
	Last   relock.HoldDone
	Renews []relock.RenewDone
}

func NewWitness(t testing.TB) *witness { return &witness{TB: t, Locked: map[string]int{}} }

type MarkKey struct{}

// Marked is a context that the hooks know again.
func Marked(t testing.TB) context.Context { return context.WithValue(t.Context(), MarkKey{}, "mine") }

func (w *witness) Observer() relock.Observer {
	return relock.Observer{LockStart: w.lockStart, LockDone: w.lockDone, HoldDone: w.holdDone, RenewDone: w.renewDone}
}

func (w *witness) lockStart(ctx context.Context, e relock.LockStart) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Starts++
	w.told = append(w.told, fmt.Sprintf("start %s %q %v %v", e.Kind, e.Key, e.Block, ctx.Value(MarkKey{})))
}

func (w *witness) lockDone(ctx context.Context, e relock.LockDone) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Starts--
	if e.Err == nil {
		w.Locked[e.Kind]++
	}
	if e.Start.IsZero() || time.Since(e.Start) > time.Minute {
		w.Errorf("began at %v", e.Start)
	}
	w.told = append(w.told, fmt.Sprintf("done %s %q %v %v %v", e.Kind, e.Key, e.Block, ctx.Value(MarkKey{}), e.Err))
}

func (w *witness) holdDone(ctx context.Context, e relock.HoldDone) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.Locked[e.Kind]--; w.Locked[e.Kind] < 0 {
		w.Errorf("the end of a %s hold that nobody was told of", e.Kind)
	}
	if ctx.Err() != nil || e.Start.IsZero() || e.End.Before(e.Start) {
		w.Errorf("a hold from %v to %v, %v", e.Start, e.End, ctx.Err())
	}
	w.Last = e
	w.told = append(w.told, fmt.Sprintf("over %s %q %v %v", e.Kind, e.Key, ctx.Value(MarkKey{}), e.Err))
}

func (w *witness) renewDone(e relock.RenewDone) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Renews = append(w.Renews, e)
}

// Renewals are those that were told so far.
func (w *witness) Renewals() []relock.RenewDone {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return slices.Clone(w.Renews)
}

// Heard returns what was told since the last time.
func (w *witness) Heard() []string {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	told := w.told
	w.told = nil
	return told
}

// Ended is the last hold that ended, once all that were told of have.
func (w *witness) Ended() relock.HoldDone {
	w.Helper()
	testkit.Eventually(w, 5*time.Second, func() bool {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		for _, n := range w.Locked {
			if n != 0 {
				return false
			}
		}
		return true
	}, "the end of a hold is told")
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.Last
}
