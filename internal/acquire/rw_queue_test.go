package acquire_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// rwLine is a read/write lock for which calls wait, with a server of its own.
type rwLine struct{ *locktest.QueueBench }

func newRWLine(t testing.TB, fair bool, clients int) *rwLine {
	return &rwLine{locktest.NewQueueBench(t, locktest.QueueMode{Kind: "RWLock", Fair: fair}, clients)}
}

// eachRWMode runs a test with both modes at once.
func eachRWMode(t *testing.T, run func(t *testing.T, fair bool)) {
	t.Helper()
	t.Parallel()
	for _, fair := range []bool{false, true} {
		t.Run(locktest.QueueMode{Kind: "RWLock", Fair: fair}.Title(), func(t *testing.T) {
			t.Parallel()
			run(t, fair)
		})
	}
}

func (q *rwLine) rw(c *relock.Client, opts ...relock.LockOption) *relock.RWLock {
	return q.Lock(c, opts...).(*relock.RWLock)
}

// read begins to wait to read.
func (q *rwLine) read(ctx context.Context, c *relock.Client, opts ...relock.LockOption) *locktest.Waiting {
	w := &locktest.Waiting{Bench: q.QueueBench, Ended: make(chan struct{})}
	l := q.rw(c, opts...)
	q.Async(ctx, func(ctx context.Context) error {
		w.Hold, w.Err = l.RAcquire(ctx)
		w.At = time.Now()
		close(w.Ended)
		return nil
	})
	return w
}

// next waits until n are queued, the wait among them.
func (q *rwLine) next(w *locktest.Waiting, n int) *locktest.Waiting {
	q.Helper()
	q.AwaitQueued(n)
	return w
}

func (q *rwLine) tryRead(c *relock.Client) relock.Hold {
	q.Helper()
	h, err := q.rw(c).TryRAcquire(q.Context())
	require.NoError(q, err)
	return h
}

// requireWaits sees that a wait goes on.
func (q *rwLine) requireWaits(waits ...*locktest.Waiting) {
	q.Helper()
	time.Sleep(30 * time.Millisecond)
	for _, w := range waits {
		require.False(q, w.IsOver(), "it does not wait")
	}
}

// One who writes waits for all who read; those who come after it wait behind it, and get the lock together, up to the next who writes.
func TestRWLockNextReadersAreGrantedTogether(t *testing.T) {
	eachRWMode(t, func(t *testing.T, fair bool) {
		q := newRWLine(t, fair, 3)
		a, b, c := q.Clients[0], q.Clients[1], q.Clients[2]
		first, second := q.tryRead(a), q.tryRead(b)
		ctx := t.Context()
		w1 := q.WaitNext(ctx, 0, c)
		time.Sleep(20 * time.Millisecond) // it is no longer young
		var readers []*locktest.Waiting
		for i := range 9 {
			readers = append(readers, q.next(q.read(ctx, q.Clients[i%3]), i+2))
		}
		w2 := q.WaitNext(ctx, 10, a)
		last := q.next(q.read(ctx, b), 12)
		_, err := q.rw(a).TryRAcquire(locktest.As(t, "new"))
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers, "nobody overtakes one who writes and has waited")
		q.Unlock(first)
		q.requireWaits(append(readers, w1, w2, last)...)

		start := time.Now()
		q.Unlock(second)
		writer := w1.Granted()
		t.Logf("one who writes has the lock %v after the last who read", w1.At.Sub(start))
		q.requireWaits(append(readers, w2, last)...)
		q.Unlock(writer)
		for _, r := range readers {
			require.NoError(t, r.Granted().Err())
		}
		require.Len(t, scripttest.ReadRW(t, q.Server.Dial(t), q.Key), len(readers), "all at once")
		q.requireWaits(w2, last)
		for _, r := range readers {
			q.Unlock(r.Hold)
		}
		writer = w2.Granted()
		q.requireWaits(last)
		q.Unlock(writer)
		q.Unlock(last.Granted())
		q.RequireNothingLeft()
		locktest.RequireRWGone(t, q.Server, a, locktest.QueueKey)
	})
}

// What keeps others waiting goes: one who writes and gives up lets those behind it read along with those who do.
func TestRWLockWriterThatGivesUpLetsReadersIn(t *testing.T) {
	eachRWMode(t, func(t *testing.T, fair bool) {
		q := newRWLine(t, fair, 3)
		h := q.tryRead(q.Clients[0])
		ctx, cancel := context.WithCancel(t.Context())
		w := q.WaitNext(ctx, 0, q.Clients[1], relock.WithPollInterval(locktest.Leisure))
		time.Sleep(20 * time.Millisecond)
		r1 := q.next(q.read(t.Context(), q.Clients[2], relock.WithPollInterval(locktest.Leisure)), 2)
		r2 := q.next(q.read(t.Context(), q.Clients[0], relock.WithPollInterval(locktest.Leisure)), 3)
		q.requireWaits(r1, r2)
		cancel()
		require.ErrorIs(t, w.End(), context.Canceled)
		require.ErrorIs(t, w.Err, relock.ErrLockAcquiredByOthers)
		q.Unlock(r1.Granted())
		q.Unlock(r2.Granted())
		q.Unlock(h)
		q.RequireNothingLeft()
	})
}

// With the last level that writes, those who wait to read come in beside the one who goes on reading.
func TestRWLockDowngradeLetsReadersIn(t *testing.T) {
	eachRWMode(t, func(t *testing.T, fair bool) {
		q := newRWLine(t, fair, 2)
		me := locktest.As(t, "me")
		l := q.rw(q.Clients[0])
		require.NoError(t, l.Lock(me))
		require.NoError(t, l.RLock(me))
		r := q.next(q.read(t.Context(), q.Clients[1]), 1)
		w := q.WaitNext(t.Context(), 1, q.Clients[1])
		require.NoError(t, l.Lock(me), "an owner never queues")
		require.NoError(t, l.Unlock(me))
		q.requireWaits(r, w)
		require.NoError(t, l.Unlock(me))
		h := r.Granted()
		q.requireWaits(w)
		require.ErrorIs(t, l.Lock(me), relock.ErrUpgrade)
		require.NoError(t, l.RLock(me), "an owner never queues")
		require.NoError(t, l.RUnlock(me))
		q.Unlock(h)
		q.requireWaits(w)
		require.NoError(t, l.RUnlock(me))
		q.Unlock(w.Granted())
		q.RequireNothingLeft()
	})
}

// A hundred who read, again and again, do not keep out one who writes.
func TestRWLockWriterDoesNotStarve(t *testing.T) {
	eachRWMode(t, func(t *testing.T, fair bool) {
		const readers, writes, limit = 100, 5, time.Second
		q := newRWLine(t, fair, 3)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var group sync.WaitGroup
		var reads atomic.Int64
		for i := range readers {
			l := q.rw(q.Clients[i%2])
			group.Go(func() {
				for ctx.Err() == nil {
					h, err := l.RAcquire(ctx)
					if err != nil {
						if ctx.Err() == nil {
							t.Errorf("read: %v", err)
						}
						return
					}
					reads.Add(1)
					time.Sleep(5 * time.Millisecond)
					_ = h.Unlock(ctx)
				}
			})
		}
		testkit.Eventually(t, testkit.Patience, func() bool { return reads.Load() > 2*readers }, "they read")
		var waits []time.Duration
		for range writes {
			start := time.Now()
			h, err := q.rw(q.Clients[2]).Acquire(ctx)
			require.NoError(t, err)
			waits = append(waits, time.Since(start))
			q.Unlock(h)
		}
		cancel()
		group.Wait()
		slices.Sort(waits)
		t.Logf("%d reads; one who writes waited %v at the median, %v at most", reads.Load(), locktest.Middle(waits), waits[writes-1])
		require.Less(t, locktest.Middle(waits), limit)
		q.RequireNothingLeft()
	})
}

// Grants come in the order of arrival; those who read in a row count as one.
func TestRWLockFairOrder(t *testing.T) {
	t.Parallel()
	q := newRWLine(t, true, 4)
	h := q.Take(q.Clients[0])
	const waits = 40
	order := "rrwrwwrrrw" // again and again
	var granted []int
	var mu sync.Mutex
	results := make([]<-chan error, waits)
	for i := range waits {
		l := q.rw(q.Clients[i%4], relock.WithPollInterval(locktest.Leisure))
		acquire := l.Acquire
		if order[i%len(order)] == 'r' {
			acquire = l.RAcquire
		}
		results[i] = q.Async(t.Context(), func(ctx context.Context) error {
			h, err := acquire(ctx)
			if err != nil {
				return err
			}
			mu.Lock()
			granted = append(granted, i)
			mu.Unlock()
			return h.Unlock(ctx)
		})
		q.AwaitQueued(i + 1)
	}
	q.Unlock(h)
	for _, result := range results {
		require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
	}
	group := 0
	groups := make([]int, waits)
	for i := range waits {
		if i > 0 && (order[i%len(order)] == 'w' || order[(i-1)%len(order)] == 'w') {
			group++
		}
		groups[i] = group
	}
	for i := range granted[1:] {
		require.GreaterOrEqual(t, groups[granted[i+1]], groups[granted[i]], "order: %v", granted)
	}
	q.RequireNothingLeft()
}

// The grant comes by a message, not by a poll.
func TestRWLockGrantIsPushed(t *testing.T) {
	t.Parallel()
	q := newRWLine(t, true, 2)
	var delays []time.Duration
	for range 9 {
		h := q.Take(q.Clients[0])
		w := q.WaitNext(t.Context(), 0, q.Clients[1], relock.WithPollInterval(locktest.Leisure))
		q.AwaitHeard(q.Clients[1])
		next, delay := q.HandOver(h, w)
		delays = append(delays, delay)
		q.Unlock(next)
	}
	require.Less(t, locktest.Middle(delays), locktest.PushLimit)
}

// One that reads and whose process is gone keeps out one who writes until its lease ends, and no longer, whatever others read meanwhile.
func TestRWLockReaderThatIsGone(t *testing.T) {
	eachRWMode(t, func(t *testing.T, fair bool) {
		const lease = 1500 * time.Millisecond
		q := newRWLine(t, fair, 3)
		dying, err := relock.NewClient(q.Server.Network, q.Server.Address, "", relock.WithKeyPrefix(locktest.Prefix(q.Clients[0])))
		require.NoError(t, err)
		_, err = q.rw(dying, relock.WithWatchdog(lease)).RAcquire(t.Context())
		require.NoError(t, err)
		h := q.tryRead(q.Clients[1])
		w := q.WaitNext(t.Context(), 0, q.Clients[2])
		require.NoError(t, dying.Close()) // gives nothing back
		gone := time.Now()
		left := q.firstEnd()
		q.Unlock(h) // its lease was 30s
		q.Unlock(w.Granted())
		t.Logf("granted %v after it was gone, with %v of its lease left", w.At.Sub(gone), left)
		require.GreaterOrEqual(t, w.At.Sub(gone), left-scripttest.ClockGrain)
		require.Less(t, w.At.Sub(gone), lease+time.Second)
		q.RequireNothingLeft()
	})
}

// firstEnd is how long the hold has that ends first.
func (q *rwLine) firstEnd() time.Duration {
	q.Helper()
	all := scripttest.ReadRW(q, q.Server.Dial(q), q.Key)
	require.NotEmpty(q, all)
	now, err := redis.Int64s(q.Server.Do(q, "TIME"), nil)
	require.NoError(q, err)
	return time.Duration(all[0].Until-now[0]*1_000_000-now[1]) * time.Microsecond
}

// A wait that its client has forgotten, at the front of the queue, is cancelled by that client's next poll: it would keep out those behind it
// for as long as the lock is read.
func TestRWLockForgottenWaitAtTheFront(t *testing.T) {
	t.Parallel()
	q := newRWLine(t, true, 2)
	h := q.tryRead(q.Clients[0])
	wait := locktest.Engine(q.Clients[1]).Identity.Hold(1_000_000) + ":wf:1250"
	q.Server.Do(t, "ZADD", q.Key+":q", 5, wait)
	q.Server.Do(t, "PEXPIRE", q.Key+":q", 60_000)
	r := q.read(t.Context(), q.Clients[1])
	q.Unlock(r.Granted())
	q.Unlock(h)
	q.RequireNothingLeft()
}

// Two goroutines of one owner that wait: with the grant of one the other goes one level deeper.
func TestRWLockWaitersOfOneOwner(t *testing.T) {
	eachRWMode(t, func(t *testing.T, fair bool) {
		q := newRWLine(t, fair, 2)
		h := q.Take(q.Clients[0])
		me := locktest.As(t, "me")
		r := q.next(q.read(me, q.Clients[1]), 1)
		w := q.WaitNext(me, 1, q.Clients[1])
		other := q.WaitNext(t.Context(), 2, q.Clients[0])
		q.Unlock(h)
		first, second := r.Granted(), w.Granted()
		q.requireWaits(other)
		stored := locktest.RwStored(t, q.Server, q.Clients[0], locktest.QueueKey)
		require.Equal(t, map[string]string{locktest.Engine(q.Clients[1]).Identity.Named("me"): "w 1:1"}, stored)
		q.Unlock(first)
		q.Unlock(second)
		q.Unlock(other.Granted())
		q.RequireNothingLeft()
	})
}

// Close ends waits and holds, and no goroutine is left.
func TestRWLockClose(t *testing.T) {
	eachRWMode(t, func(t *testing.T, fair bool) {
		q := newRWLine(t, fair, 2)
		h := q.Take(q.Clients[0])
		closing, err := relock.NewClient(q.Server.Network, q.Server.Address, "", relock.WithKeyPrefix(locktest.Prefix(q.Clients[0])))
		require.NoError(t, err)
		r := q.next(q.read(t.Context(), closing), 1)
		w := q.WaitNext(t.Context(), 1, closing)
		require.NoError(t, closing.Close())
		require.ErrorIs(t, r.End(), relock.ErrClosed)
		require.ErrorIs(t, w.End(), relock.ErrClosed)
		require.ErrorIs(t, relock.NewRWLock(locktest.QueueKey, closing).RLock(t.Context()), relock.ErrClosed)
		q.Unlock(h)
		q.Unlock(q.Wait(t.Context(), q.Clients[1]).Granted())
	})
}

// A thousand wait to read, and have the lock together.
func TestRWLockThousandReaders(t *testing.T) {
	t.Parallel()
	newRWLine(t, true, 2).thousandReaders(1000)
}

// thousandReaders has so many read together, after they have waited for one who writes.
func (q *rwLine) thousandReaders(n int) {
	q.Helper()
	h := q.Take(q.Clients[0])
	waits := make([]*locktest.Waiting, n)
	for i := range waits {
		waits[i] = q.read(locktest.As(q, fmt.Sprint(i)), q.Clients[i%2])
	}
	q.AwaitQueued(n)
	w := q.WaitNext(q.Context(), n, q.Clients[0])
	start := time.Now()
	q.Unlock(h)
	for _, r := range waits {
		_ = r.Granted()
	}
	q.Logf("%d have the lock to read after %v", n, time.Since(start))
	require.False(q, w.IsOver())
	for _, r := range waits {
		q.Unlock(r.Hold)
	}
	q.Unlock(w.Granted())
	q.RequireNothingLeft()
}
