package relock_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/relocktest"
)

// oneGrant is what a lock guards: only levels of one grant are inside together.
type oneGrant struct {
	testing.TB
	mu     sync.Mutex
	token  int64
	inside int
	levels int // entries with the token of the one before
}

func (r *oneGrant) enter(h relock.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case h.Fence() == r.token:
		r.levels++
	case r.inside > 0 || h.Fence() < r.token:
		r.Errorf("token %d, and %d are inside with %d", h.Fence(), r.inside, r.token)
	}
	r.token = h.Fence()
	r.inside++
}

func (r *oneGrant) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inside--
}

// visit takes the lock, with a level or as a stranger, and releases it.
func (r *oneGrant) visit(ctx context.Context, l relock.Locker, inside func(context.Context)) {
	h, err := l.Lock(ctx, "k")
	if err != nil {
		r.Errorf("Lock: %v", err)
		return
	}
	r.enter(h)
	inside(h.Context())
	r.leave()
	if err := h.Unlock(ctx); err != nil {
		r.Errorf("Unlock: %v", err)
	}
}

// Levels come and go while the outer hold is unlocked. A call that comes too
// late for a level competes. No two grants are inside together, and nothing is
// left.
func TestNestedStorm(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	first, second := clientOf(t, s), clientOf(t, s)
	double := relocktest.NewLocker(relock.WithFencing())
	for name, lockers := range map[string][]relock.Locker{
		"in memory":   {double},
		"one client":  {lockerOf(t, first, relock.WithFencing())},
		"two clients": {lockerOf(t, first, relock.WithFencing()), lockerOf(t, second, relock.WithFencing())},
		"two clients, fair": {
			lockerOf(t, first, relock.WithFencing(), relock.WithFair()), lockerOf(t, second, relock.WithFencing(), relock.WithFair()),
		},
	} {
		room := &oneGrant{TB: t}
		var group sync.WaitGroup
		for _, l := range lockers {
			for range 4 {
				group.Go(func() {
					for range 20 {
						room.visit(t.Context(), l, func(ctx context.Context) {
							ctx = context.WithoutCancel(ctx) // the outer hold may end first
							inside := make(chan struct{}, 3)
							for range 3 {
								group.Go(func() { room.visit(ctx, l, func(context.Context) { inside <- struct{}{} }) })
							}
							<-inside
						})
					}
				})
			}
		}
		group.Wait()
		require.Zero(t, room.inside, name)
		require.NotZero(t, room.levels, "%s: no call got a level", name)
		require.NoError(t, tryOnce(t.Context(), lockers[0]), name)
	}
}
