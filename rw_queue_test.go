package relock

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

	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// rwLine is a read/write lock for which calls wait, with a server of its own.
type rwLine struct{ *queueBench }

func newRWLine(t testing.TB, fair bool, clients int) *rwLine {
	return &rwLine{newQueueBench(t, queueMode{"RWLock", fair}, clients)}
}

// eachRWMode runs a test with both modes at once.
func eachRWMode(t *testing.T, run func(t *testing.T, fair bool)) {
	t.Helper()
	t.Parallel()
	for _, fair := range []bool{false, true} {
		t.Run(queueMode{"RWLock", fair}.name(), func(t *testing.T) {
			t.Parallel()
			run(t, fair)
		})
	}
}

func (q *rwLine) rw(c *Client, opts ...LockOption) *RWLock { return q.lock(c, opts...).(*RWLock) }

// read begins to wait to read.
func (q *rwLine) read(ctx context.Context, c *Client, opts ...LockOption) *waiting {
	w := &waiting{bench: q.queueBench, ended: make(chan struct{})}
	l := q.rw(c, opts...)
	q.async(ctx, func(ctx context.Context) error {
		w.hold, w.err = l.RAcquire(ctx)
		w.at = time.Now()
		close(w.ended)
		return nil
	})
	return w
}

// next waits until n are queued, the wait among them.
func (q *rwLine) next(w *waiting, n int) *waiting {
	q.Helper()
	q.awaitQueued(n)
	return w
}

func (q *rwLine) tryRead(c *Client) Hold {
	q.Helper()
	h, err := q.rw(c).TryRAcquire(q.Context())
	require.NoError(q, err)
	return h
}

// requireWaits sees that a wait goes on.
func (q *rwLine) requireWaits(waits ...*waiting) {
	q.Helper()
	time.Sleep(30 * time.Millisecond)
	for _, w := range waits {
		require.False(q, w.isOver(), "it does not wait")
	}
}

// One who writes waits for all who read; those who come after it wait behind it, and get the lock together, up to the next who writes.
func TestRWLockNextReadersAreGrantedTogether(t *testing.T) {
	eachRWMode(t, func(t *testing.T, fair bool) {
		q := newRWLine(t, fair, 3)
		a, b, c := q.clients[0], q.clients[1], q.clients[2]
		first, second := q.tryRead(a), q.tryRead(b)
		ctx := t.Context()
		w1 := q.waitNext(ctx, 0, c)
		time.Sleep(20 * time.Millisecond) // it is no longer young
		var readers []*waiting
		for i := range 9 {
			readers = append(readers, q.next(q.read(ctx, q.clients[i%3]), i+2))
		}
		w2 := q.waitNext(ctx, 10, a)
		last := q.next(q.read(ctx, b), 12)
		_, err := q.rw(a).TryRAcquire(as(t, "new"))
		require.ErrorIs(t, err, ErrLockAcquiredByOthers, "nobody overtakes one who writes and has waited")
		q.unlock(first)
		q.requireWaits(append(readers, w1, w2, last)...)

		start := time.Now()
		q.unlock(second)
		writer := w1.granted()
		t.Logf("one who writes has the lock %v after the last who read", w1.at.Sub(start))
		q.requireWaits(append(readers, w2, last)...)
		q.unlock(writer)
		for _, r := range readers {
			require.NoError(t, r.granted().Err())
		}
		require.Len(t, scripttest.ReadRW(t, q.server.Dial(t), q.key), len(readers), "all at once")
		q.requireWaits(w2, last)
		for _, r := range readers {
			q.unlock(r.hold)
		}
		writer = w2.granted()
		q.requireWaits(last)
		q.unlock(writer)
		q.unlock(last.granted())
		q.requireNothingLeft()
		requireRWGone(t, q.server, a, queueKey)
	})
}

// What keeps others waiting goes: one who writes and gives up lets those behind it read along with those who do.
func TestRWLockWriterThatGivesUpLetsReadersIn(t *testing.T) {
	eachRWMode(t, func(t *testing.T, fair bool) {
		q := newRWLine(t, fair, 3)
		h := q.tryRead(q.clients[0])
		ctx, cancel := context.WithCancel(t.Context())
		w := q.waitNext(ctx, 0, q.clients[1], WithPollInterval(leisure))
		time.Sleep(20 * time.Millisecond)
		r1 := q.next(q.read(t.Context(), q.clients[2], WithPollInterval(leisure)), 2)
		r2 := q.next(q.read(t.Context(), q.clients[0], WithPollInterval(leisure)), 3)
		q.requireWaits(r1, r2)
		cancel()
		require.ErrorIs(t, w.end(), context.Canceled)
		require.ErrorIs(t, w.err, ErrLockAcquiredByOthers)
		q.unlock(r1.granted())
		q.unlock(r2.granted())
		q.unlock(h)
		q.requireNothingLeft()
	})
}

// With the last level that writes, those who wait to read come in beside the one who goes on reading.
func TestRWLockDowngradeLetsReadersIn(t *testing.T) {
	eachRWMode(t, func(t *testing.T, fair bool) {
		q := newRWLine(t, fair, 2)
		me := as(t, "me")
		l := q.rw(q.clients[0])
		require.NoError(t, l.Lock(me))
		require.NoError(t, l.RLock(me))
		r := q.next(q.read(t.Context(), q.clients[1]), 1)
		w := q.waitNext(t.Context(), 1, q.clients[1])
		require.NoError(t, l.Lock(me), "an owner never queues")
		require.NoError(t, l.Unlock(me))
		q.requireWaits(r, w)
		require.NoError(t, l.Unlock(me))
		h := r.granted()
		q.requireWaits(w)
		require.ErrorIs(t, l.Lock(me), ErrUpgrade)
		require.NoError(t, l.RLock(me), "an owner never queues")
		require.NoError(t, l.RUnlock(me))
		q.unlock(h)
		q.requireWaits(w)
		require.NoError(t, l.RUnlock(me))
		q.unlock(w.granted())
		q.requireNothingLeft()
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
			l := q.rw(q.clients[i%2])
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
			h, err := q.rw(q.clients[2]).Acquire(ctx)
			require.NoError(t, err)
			waits = append(waits, time.Since(start))
			q.unlock(h)
		}
		cancel()
		group.Wait()
		slices.Sort(waits)
		t.Logf("%d reads; one who writes waited %v at the median, %v at most", reads.Load(), middle(waits), waits[writes-1])
		require.Less(t, middle(waits), limit)
		q.requireNothingLeft()
	})
}

// Grants come in the order of arrival; those who read in a row count as one.
func TestRWLockFairOrder(t *testing.T) {
	t.Parallel()
	q := newRWLine(t, true, 4)
	h := q.take(q.clients[0])
	const waits = 40
	order := "rrwrwwrrrw" // again and again
	var granted []int
	var mu sync.Mutex
	results := make([]<-chan error, waits)
	for i := range waits {
		l := q.rw(q.clients[i%4], WithPollInterval(leisure))
		acquire := l.Acquire
		if order[i%len(order)] == 'r' {
			acquire = l.RAcquire
		}
		results[i] = q.async(t.Context(), func(ctx context.Context) error {
			h, err := acquire(ctx)
			if err != nil {
				return err
			}
			mu.Lock()
			granted = append(granted, i)
			mu.Unlock()
			return h.Unlock(ctx)
		})
		q.awaitQueued(i + 1)
	}
	q.unlock(h)
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
	q.requireNothingLeft()
}

// The grant comes by a message, not by a poll.
func TestRWLockGrantIsPushed(t *testing.T) {
	t.Parallel()
	q := newRWLine(t, true, 2)
	var delays []time.Duration
	for range 9 {
		h := q.take(q.clients[0])
		w := q.waitNext(t.Context(), 0, q.clients[1], WithPollInterval(leisure))
		q.awaitHeard(q.clients[1])
		next, delay := q.handOver(h, w)
		delays = append(delays, delay)
		q.unlock(next)
	}
	require.Less(t, middle(delays), pushLimit)
}

// One that reads and whose process is gone keeps out one who writes until its lease ends, and no longer, whatever others read meanwhile.
func TestRWLockReaderThatIsGone(t *testing.T) {
	eachRWMode(t, func(t *testing.T, fair bool) {
		const lease = 1500 * time.Millisecond
		q := newRWLine(t, fair, 3)
		dying, err := NewClient(q.server.Network, q.server.Address, "", WithKeyPrefix(q.clients[0].config.prefix))
		require.NoError(t, err)
		_, err = q.rw(dying, WithWatchdog(lease)).RAcquire(t.Context())
		require.NoError(t, err)
		h := q.tryRead(q.clients[1])
		w := q.waitNext(t.Context(), 0, q.clients[2])
		require.NoError(t, dying.Close()) // gives nothing back
		gone := time.Now()
		left := q.firstEnd()
		q.unlock(h) // its lease was 30s
		q.unlock(w.granted())
		t.Logf("granted %v after it was gone, with %v of its lease left", w.at.Sub(gone), left)
		require.GreaterOrEqual(t, w.at.Sub(gone), left-scripttest.ClockGrain)
		require.Less(t, w.at.Sub(gone), lease+time.Second)
		q.requireNothingLeft()
	})
}

// firstEnd is how long the hold has that ends first.
func (q *rwLine) firstEnd() time.Duration {
	q.Helper()
	all := scripttest.ReadRW(q, q.server.Dial(q), q.key)
	require.NotEmpty(q, all)
	now, err := redis.Int64s(q.server.Do(q, "TIME"), nil)
	require.NoError(q, err)
	return time.Duration(all[0].Until-now[0]*1_000_000-now[1]) * time.Microsecond
}

// A wait that its client has forgotten, at the front of the queue, is cancelled by that client's next poll: it would keep out those behind it
// for as long as the lock is read.
func TestRWLockForgottenWaitAtTheFront(t *testing.T) {
	t.Parallel()
	q := newRWLine(t, true, 2)
	h := q.tryRead(q.clients[0])
	wait := q.clients[1].engine.Identity.Hold(1_000_000) + ":wf:1250"
	q.server.Do(t, "ZADD", q.key+":q", 5, wait)
	q.server.Do(t, "PEXPIRE", q.key+":q", 60_000)
	r := q.read(t.Context(), q.clients[1])
	q.unlock(r.granted())
	q.unlock(h)
	q.requireNothingLeft()
}

// Two goroutines of one owner that wait: with the grant of one the other goes one level deeper.
func TestRWLockWaitersOfOneOwner(t *testing.T) {
	eachRWMode(t, func(t *testing.T, fair bool) {
		q := newRWLine(t, fair, 2)
		h := q.take(q.clients[0])
		me := as(t, "me")
		r := q.next(q.read(me, q.clients[1]), 1)
		w := q.waitNext(me, 1, q.clients[1])
		other := q.waitNext(t.Context(), 2, q.clients[0])
		q.unlock(h)
		first, second := r.granted(), w.granted()
		q.requireWaits(other)
		stored := rwStored(t, q.server, q.clients[0], queueKey)
		require.Equal(t, map[string]string{q.clients[1].engine.Identity.Named("me"): "w 1:1"}, stored)
		q.unlock(first)
		q.unlock(second)
		q.unlock(other.granted())
		q.requireNothingLeft()
	})
}

// Close ends waits and holds, and no goroutine is left.
func TestRWLockClose(t *testing.T) {
	eachRWMode(t, func(t *testing.T, fair bool) {
		q := newRWLine(t, fair, 2)
		h := q.take(q.clients[0])
		closing, err := NewClient(q.server.Network, q.server.Address, "", WithKeyPrefix(q.clients[0].config.prefix))
		require.NoError(t, err)
		r := q.next(q.read(t.Context(), closing), 1)
		w := q.waitNext(t.Context(), 1, closing)
		require.NoError(t, closing.Close())
		require.ErrorIs(t, r.end(), ErrClosed)
		require.ErrorIs(t, w.end(), ErrClosed)
		require.ErrorIs(t, NewRWLock(queueKey, closing).RLock(t.Context()), ErrClosed)
		q.unlock(h)
		q.unlock(q.wait(t.Context(), q.clients[1]).granted())
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
	h := q.take(q.clients[0])
	waits := make([]*waiting, n)
	for i := range waits {
		waits[i] = q.read(as(q, fmt.Sprint(i)), q.clients[i%2])
	}
	q.awaitQueued(n)
	w := q.waitNext(q.Context(), n, q.clients[0])
	start := time.Now()
	q.unlock(h)
	for _, r := range waits {
		_ = r.granted()
	}
	q.Logf("%d have the lock to read after %v", n, time.Since(start))
	require.False(q, w.isOver())
	for _, r := range waits {
		q.unlock(r.hold)
	}
	q.unlock(w.granted())
	q.requireNothingLeft()
}
