package relock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/testkit"
)

// witness is an observer that writes down what it is told.
type witness struct {
	testing.TB

	mu     sync.Mutex
	told   []string
	starts int
	locked map[string]int // by kind, less those that have ended
	last   HoldDone
	renews []RenewDone
}

func newWitness(t testing.TB) *witness { return &witness{TB: t, locked: map[string]int{}} }

type markKey struct{}

// marked is a context that the hooks know again.
func marked(t testing.TB) context.Context { return context.WithValue(t.Context(), markKey{}, "mine") }

func (w *witness) observer() Observer {
	return Observer{LockStart: w.lockStart, LockDone: w.lockDone, HoldDone: w.holdDone, RenewDone: w.renewDone}
}

func (w *witness) lockStart(ctx context.Context, e LockStart) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starts++
	w.told = append(w.told, fmt.Sprintf("start %s %q %v %v", e.Kind, e.Key, e.Block, ctx.Value(markKey{})))
}

func (w *witness) lockDone(ctx context.Context, e LockDone) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starts--
	if e.Err == nil {
		w.locked[e.Kind]++
	}
	if e.Start.IsZero() || time.Since(e.Start) > time.Minute {
		w.Errorf("began at %v", e.Start)
	}
	w.told = append(w.told, fmt.Sprintf("done %s %q %v %v %v", e.Kind, e.Key, e.Block, ctx.Value(markKey{}), e.Err))
}

func (w *witness) holdDone(ctx context.Context, e HoldDone) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.locked[e.Kind]--; w.locked[e.Kind] < 0 {
		w.Errorf("the end of a %s hold that nobody was told of", e.Kind)
	}
	if ctx.Err() != nil || e.Start.IsZero() || e.End.Before(e.Start) {
		w.Errorf("a hold from %v to %v, %v", e.Start, e.End, ctx.Err())
	}
	w.last = e
	w.told = append(w.told, fmt.Sprintf("over %s %q %v %v", e.Kind, e.Key, ctx.Value(markKey{}), e.Err))
}

func (w *witness) renewDone(_ context.Context, e RenewDone) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.renews = append(w.renews, e)
}

// renewals are those that were told so far.
func (w *witness) renewals() []RenewDone {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.renews)
}

// heard returns what was told since the last time.
func (w *witness) heard() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	told := w.told
	w.told = nil
	return told
}

// ended is the last hold that ended, once all that were told of have.
func (w *witness) ended() HoldDone {
	w.Helper()
	testkit.Eventually(w, 5*time.Second, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, n := range w.locked {
			if n != 0 {
				return false
			}
		}
		return true
	}, "the end of a hold is told")
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// holdersOf are the calls of a lock that return a Hold.
func holdersOf(lock Mutex) []func(context.Context) (Hold, error) {
	l, ok := lock.(interface {
		Acquire(context.Context) (Hold, error)
		TryAcquire(context.Context) (Hold, error)
	})
	if !ok {
		return nil
	}
	return []func(context.Context) (Hold, error){l.Acquire, l.TryAcquire}
}
