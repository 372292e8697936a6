package proof

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// A rolling deploy turns WithFair on in six clients, one after the other, and
// off again, back and forth, while all of them use the same locks. No call that
// may wait fails, nobody holds a lock beside another, and each call is served
// in its turn.
func TestRollingDeployOfWithFair(t *testing.T) {
	t.Parallel()
	const clients = 6
	s := redistest.Start(t)
	d := &deploy{Load: locktest.NewLoad(t), waits: map[string]time.Duration{}}
	d.Lossless = true
	first := locktest.NewTestClient(t, s)
	for n := range clients {
		c := first
		if n > 0 {
			c = locktest.Sibling(t, s, first)
		}
		d.join(c)
	}
	watch := testkit.NewStopwatch(t)
	for end := time.Now().Add(pick(time.Minute, 10*time.Second)); time.Now().Before(end); {
		for _, fair := range []bool{true, false} {
			for _, instance := range d.fair {
				d.AwaitAll()
				instance.Store(fair)
			}
			d.AwaitAll()
		}
	}
	d.Stop()
	d.RequireNoOverlap()
	for kind, most := range d.waits {
		t.Logf("%s: %d holds, the longest wait took %v", kind, len(d.Visits(kind)), most)
		// Readers and writers are twice as many. Each turn waits for the
		// machine, so the length of one turn is judged, on the average.
		watch.Check(most/(2*callers*clients), longestTurn, kind)
	}
	require.Positive(t, d.busy.Load())
}

const (
	callers = 2 // of one kind of lock in a client
	// longestTurn is how long one turn takes at most: the goroutines of an
	// unfair process hand the lock to each other for up to 10 ms.
	longestTurn = 20 * time.Millisecond
)

// deploy is clients that are replaced one after the other, with or without
// WithFair.
type deploy struct {
	*locktest.Load
	fair []*atomic.Bool // of each client
	busy atomic.Int64   // attempts that found a lock held, or others waiting

	mu    sync.Mutex
	waits map[string]time.Duration // the longest, by lock
}

// join starts the callers of a client, two for each kind.
func (d *deploy) join(c *relock.Client) {
	fair := &atomic.Bool{}
	d.fair = append(d.fair, fair)
	for name, kind := range map[string]string{
		"plain": "RedisLock", "reentrant": "ReentrantLock", "write": "RWLock", "read": "RWLock, reading",
		"semaphore": "Semaphore",
	} {
		lock := name
		if name == "write" || name == "read" {
			lock = "read/write"
		}
		unfair, inOrder := locktest.AllKinds[kind](lock, c, relock.WithBlock()),
			locktest.AllKinds[kind](lock, c, relock.WithBlock(), relock.WithFair())
		current := func() locktest.AnyLock {
			if fair.Load() {
				return inOrder
			}
			return unfair
		}
		for range callers {
			d.Begin(lock, name == "read", func(ctx context.Context) (relock.Hold, error) { return d.take(ctx, lock, current()) })
		}
	}
}

// take acquires the lock, and notes how long that took. It tries first, now and
// then.
func (d *deploy) take(ctx context.Context, name string, lock locktest.AnyLock) (relock.Hold, error) {
	if rand.N(3) == 0 {
		h, err := lock.TryAcquire(ctx)
		if !errors.Is(err, relock.ErrLockAcquiredByOthers) {
			return h, err
		}
		d.busy.Add(1)
	}
	began := time.Now()
	h, err := lock.Acquire(ctx)
	if err == nil {
		d.mu.Lock()
		d.waits[name] = max(d.waits[name], time.Since(began))
		d.mu.Unlock()
	}
	return h, err
}
