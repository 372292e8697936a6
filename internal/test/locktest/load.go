package locktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Load is goroutines that take locks again and again, for a moment each. No
// call of theirs may fail before Stop.
type Load struct {
	testing.TB
	// Lossless requires that no hold is lost, and no Unlock fails.
	Lossless bool
	// Stay is how long a hold lasts at most, 2 ms by default. It is set before
	// Begin.
	Stay time.Duration

	start time.Time
	ctx   context.Context
	end   context.CancelFunc
	group sync.WaitGroup

	mu     sync.Mutex
	visits map[string][]Visit // by lock
	grants []int              // by goroutine
	grant  chan struct{}      // closed at the next grant
	failed error              // of a call
}

// Visit is a hold of a goroutine, while it was valid.
type Visit struct {
	Goroutine int
	Fence     int64 // or 0
	Shared    bool  // it excludes no others that are shared
	Span
}

// NewLoad returns a load without goroutines. They end with the test.
func NewLoad(t testing.TB) *Load {
	l := &Load{
		TB: t, Stay: 2 * time.Millisecond, start: time.Now(), visits: map[string][]Visit{}, grant: make(chan struct{}),
	}
	l.ctx, l.end = context.WithCancel(t.Context())
	t.Cleanup(l.Stop)
	return l
}

// Stop ends the goroutines.
func (l *Load) Stop() {
	l.end()
	l.group.Wait()
	require.NoError(l, l.failed)
}

// Begin starts a goroutine that takes a lock. The lock has a name for messages.
func (l *Load) Begin(name string, shared bool, acquire func(context.Context) (relock.Hold, error)) {
	l.mu.Lock()
	n := len(l.grants)
	l.grants = append(l.grants, 0)
	l.mu.Unlock()
	l.group.Go(func() {
		for l.ctx.Err() == nil {
			if err := l.visit(n, name, shared, acquire); err != nil {
				l.note(err)
				return
			}
		}
	})
}

func (l *Load) visit(n int, name string, shared bool, acquire func(context.Context) (relock.Hold, error)) error {
	h, err := acquire(l.ctx)
	if err != nil {
		return err
	}
	from, valid := time.Now(), h.ValidUntil()
	select {
	case <-time.After(rand.N(l.Stay)):
	case <-h.Context().Done():
	}
	until := time.Now()
	lost, fence := h.Err(), h.Fence()
	if lost == nil {
		valid = h.ValidUntil() // it may have been renewed
	}
	if valid.Before(until) {
		until = valid
	}
	err = h.Unlock(context.Background())
	l.add(name, Visit{n, fence, shared, Span{l.Since(from), l.Since(until)}})
	if !l.Lossless { // the server may be away
		return nil
	}
	return errors.Join(lost, err)
}

// Since returns a time as spans have it.
func (l *Load) Since(at time.Time) int64 { return int64(at.Sub(l.start)) }

// Visits returns the holds of a lock. The goroutines must have stopped.
func (l *Load) Visits(lock string) []Visit { return l.visits[lock] }

// note keeps the error of a call that is not over by the end of the test.
func (l *Load) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() == nil && l.failed == nil {
		l.failed = err
	}
}

func (l *Load) add(name string, v Visit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.visits[name] = append(l.visits[name], v)
	l.grants[v.Goroutine]++
	close(l.grant)
	l.grant = make(chan struct{})
}

// AwaitAll waits until each goroutine has got its lock once more.
func (l *Load) AwaitAll() {
	l.Helper()
	l.mu.Lock()
	before := slices.Clone(l.grants)
	l.mu.Unlock()
	testkit.Eventually(l, time.Minute, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		require.NoError(l, l.failed)
		for n, had := range before {
			if l.grants[n] <= had {
				return false
			}
		}
		return true
	}, "a waiter was not served")
}

// Holds returns how many holds there were.
func (l *Load) Holds() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, grants := range l.grants {
		n += grants
	}
	return n
}

// AwaitGrants waits for a number of grants since a time, of one lock, or of any
// if name is empty. It returns how long after that time the last one came.
func (l *Load) AwaitGrants(name string, since time.Time, number int) time.Duration {
	l.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		l.mu.Lock()
		last, grant := l.grantSince(name, l.Since(since), number), l.grant
		l.mu.Unlock()
		if last >= 0 {
			return time.Duration(last - l.Since(since))
		}
		select {
		case <-grant:
		case <-time.After(time.Until(deadline)):
			require.Fail(l, "too few grants", name)
		}
	}
}

// grantSince returns when the lock was granted for the n-th time since a time,
// or -1; mu is held.
func (l *Load) grantSince(name string, from int64, n int) int64 {
	var times []int64
	for lock, visits := range l.visits {
		for i := len(visits) - 1; i >= 0 && visits[i].Until >= from && (name == "" || name == lock); i-- {
			if visits[i].From >= from {
				times = append(times, visits[i].From)
			}
		}
	}
	if len(times) < n {
		return -1
	}
	slices.Sort(times)
	return times[n-1]
}

// RequireNoOverlap checks that no two holds of a lock that exclude each other
// were valid together, and that fencing tokens grow. The goroutines must have
// stopped.
func (l *Load) RequireNoOverlap() {
	l.Helper()
	for lock, visits := range l.visits {
		require.Empty(l, Overlaps(readTogether(visits), func(v Visit) Span { return v.Span }), lock)
		fence := int64(-1)
		for _, v := range visits {
			require.True(l, v.Shared || v.Fence == 0 || v.Fence > fence, "%s: %v after %d", lock, v, fence)
			if !v.Shared {
				fence = v.Fence
			}
		}
	}
}

// readTogether returns the visits, in which shared ones that overlap are one.
func readTogether(visits []Visit) (all []Visit) {
	slices.SortFunc(visits, func(a, b Visit) int { return int(a.From - b.From) })
	last := -1 // the shared one before
	for _, v := range visits {
		if v.Shared && last >= 0 && v.From < all[last].Until {
			all[last].Until = max(all[last].Until, v.Until)
			continue
		}
		all = append(all, v)
		if v.Shared {
			last = len(all) - 1
		}
	}
	return all
}
