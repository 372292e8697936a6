package locktest

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Waiting is a call that waits for the lock.
type Waiting struct {
	testing.TB
	snapshot func() string
	Ended    chan struct{}
	Hold     relock.Hold
	Err      error
	At       time.Time // of the end
	sleeps   atomic.Int64
}

// sleeper counts how often a call begins to sleep until its context ends, or to
// send what that would end.
type sleeper struct {
	context.Context
	count *atomic.Int64
}

func (s sleeper) Done() <-chan struct{} {
	s.count.Add(1)
	return s.Context.Done()
}

// Sleeps returns how often the call has begun to sleep, or to send.
func (w *Waiting) Sleeps() int64 { return w.sleeps.Load() }

// Wait begins to wait.
func (q *QueueBench) Wait(ctx context.Context, c *relock.Client, opts ...relock.LockOption) *Waiting {
	w := newWaiting(q, q.Snapshot)
	lock := q.Lock(c, opts...)
	q.Async(ctx, func(ctx context.Context) error { return w.run(ctx, lock) })
	return w
}

func newWaiting(t testing.TB, snapshot func() string) *Waiting {
	return &Waiting{TB: t, snapshot: snapshot, Ended: make(chan struct{})}
}

func (w *Waiting) run(ctx context.Context, lock AnyLock) error {
	defer close(w.Ended)
	w.Hold, w.Err = lock.Acquire(sleeper{ctx, &w.sleeps})
	w.At = time.Now()
	return nil
}

// Async is testkit.Async with a context that is cancelled when the test ends,
// so that a failure leaves no waiter.
func (q *QueueBench) Async(ctx context.Context, f func(context.Context) error) <-chan error {
	ctx, cancel := context.WithCancel(ctx)
	result := testkit.Async(q, func() error { return f(ctx) })
	q.Cleanup(cancel) // runs ahead of the wait for f
	return result
}

// WaitNext begins to wait, behind n others that are queued already.
func (q *QueueBench) WaitNext(ctx context.Context, n int, c *relock.Client, opts ...relock.LockOption) *Waiting {
	q.Helper()
	w := q.waitToo(ctx, c, opts...)
	// Their number is not enough: a late poll may put back an earlier wait for
	// a moment.
	q.AwaitQueued(n + 1)
	return w
}

// WaitSubscribed is WaitNext in the context of the test. When it returns, the
// server has recorded that it sees the client's subscription.
func (q *QueueBench) WaitSubscribed(n int, c *relock.Client, opts ...relock.LockOption) *Waiting {
	q.Helper()
	w := q.WaitNext(q.Context(), n, c, opts...)
	q.AwaitSubscribed(c)
	return w
}

// waitToo begins to wait. When it returns, the client counts the call: a first
// waiter knows that it is queued, another one has its place in the process.
func (q *QueueBench) waitToo(ctx context.Context, c *relock.Client, opts ...relock.LockOption) *Waiting {
	q.Helper()
	before := c.Stats().Waiting
	w := q.Wait(ctx, c, opts...)
	testkit.Eventually(q, testkit.Patience, func() bool { return c.Stats().Waiting > before }, "waits")
	return w
}

// WaitLocally begins to wait at the first client, behind n others. The first of
// them waits in Redis too.
func (q *QueueBench) WaitLocally(ctx context.Context, n int, opts ...relock.LockOption) *Waiting {
	q.Helper()
	w := q.waitToo(ctx, q.Clients[0], opts...)
	require.Equal(q, n+1, q.Clients[0].Stats().Waiting)
	return w
}

// End waits for the end of the call, and returns its error.
func (w *Waiting) End() error {
	w.Helper()
	if _, ok := testkit.Await(w.Ended, testkit.Patience); !ok {
		require.FailNow(w, "the waiter sleeps for ever", "%s", w.snapshot())
	}
	return w.Err
}

// Granted waits for the grant.
func (w *Waiting) Granted() relock.Hold {
	w.Helper()
	require.NoError(w, w.End())
	return w.Hold
}

// HasEnded reports whether the call has ended.
func (w *Waiting) HasEnded() bool {
	select {
	case <-w.Ended:
		return true
	default:
		return false
	}
}

// HandOff unlocks. It returns the hold of the waiter, and how long after the
// call began the waiter had it.
func (q *QueueBench) HandOff(h relock.Hold, w *Waiting) (relock.Hold, time.Duration) {
	q.Helper()
	start := time.Now()
	q.Unlock(h)
	next := w.Granted()
	return next, w.At.Sub(start)
}

// PassTo unlocks a hold that has all the time to be handed off, and
// returns the hold of the local waiter that gets the lock.
func (q *QueueBench) PassTo(h relock.Hold, w *Waiting) relock.Hold {
	q.Helper()
	q.UnlockFresh(h)
	return w.Granted()
}

// UnlockFresh is PassTo without a wait for the grant.
func (q *QueueBench) UnlockFresh(h relock.Hold) {
	q.Helper()
	defer NeverStale(q.Clients[0])()
	q.Unlock(h)
}

// UnlockEach releases the lock for each waiter that is granted it, in any
// order.
func (q *QueueBench) UnlockEach(all ...*Waiting) {
	q.Helper()
	var results []<-chan error
	for _, w := range all {
		results = append(results, testkit.Async(q, func() error {
			<-w.Ended
			if w.Err != nil {
				return w.Err
			}
			return w.Hold.Unlock(context.Background())
		}))
	}
	testkit.AllWithin(q, results, testkit.Patience)
}

// Median returns the median, the upper one of two.
func Median[T cmp.Ordered](all []T) T {
	slices.Sort(all)
	return all[len(all)/2]
}
