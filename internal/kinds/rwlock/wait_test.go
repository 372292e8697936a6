package rwlock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// rwBench is a read/write lock for which calls wait, with its own server.
type rwBench struct {
	*locktest.QueueBench
	reading *locktest.QueueBench // calls that read
}

func newRW(t *testing.T, fair bool, clients int) *rwBench {
	t.Helper()
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.QueueMode{Kind: "RWLock", Fair: fair}, clients)
	return &rwBench{q, q.Reading()}
}

func eachRWMode(t *testing.T, clients int, run func(t *testing.T, q *rwBench)) {
	t.Helper()
	t.Parallel()
	for _, fair := range []bool{false, true} {
		t.Run(fmt.Sprint("fair: ", fair), func(t *testing.T) { run(t, newRW(t, fair, clients)) })
	}
}

func (q *rwBench) rw(c *relock.Client) *relock.RWLock { return q.Lock(c).(*relock.RWLock) }

// requireWaits checks that calls go on waiting.
func (q *rwBench) requireWaits(waits ...*locktest.Waiting) {
	q.Helper()
	time.Sleep(30 * time.Millisecond)
	for _, w := range waits {
		require.False(q, w.HasEnded(), "it does not wait")
	}
}

// A writer waits for all readers. Those that come after it wait behind it, and
// get the lock together, up to the next writer.
func TestRWLockNextReadersAreGrantedTogether(t *testing.T) {
	eachRWMode(t, 3, func(t *testing.T, q *rwBench) {
		a, b, c := q.Clients[0], q.Clients[1], q.Clients[2]
		first, second := locktest.Take(t, q.rw(a).TryRAcquire), locktest.Take(t, q.rw(b).TryRAcquire)
		ctx := t.Context()
		w1 := q.WaitNext(ctx, 0, c)
		time.Sleep(20 * time.Millisecond) // it is no longer young
		var readers []*locktest.Waiting
		for i := range 9 {
			readers = append(readers, q.reading.WaitNext(ctx, i+1, q.Clients[i%3]))
		}
		w2 := q.WaitNext(ctx, 10, a)
		last := q.reading.WaitNext(ctx, 11, b)
		require.ErrorIs(t, q.rw(a).TryRLock(locktest.As(t, "new")), relock.ErrLockAcquiredByOthers,
			"nobody overtakes a writer that has waited")
		q.Unlock(first)
		q.requireWaits(append(readers, w1, w2, last)...)
		q.Unlock(second)
		writer := w1.Granted()
		q.requireWaits(append(readers, w2, last)...)
		q.Unlock(writer)
		for _, r := range readers {
			require.NoError(t, r.Granted().Err())
		}
		require.Len(t, locktest.ReadRW(t, q.Server.Dial(t), q.Key), len(readers), "together")
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

// A writer that gives up lets the readers behind it in, beside those that hold
// the lock.
func TestRWLockWriterThatGivesUpLetsReadersIn(t *testing.T) {
	eachRWMode(t, 3, func(t *testing.T, q *rwBench) {
		h := locktest.Take(t, q.rw(q.Clients[0]).TryRAcquire)
		ctx, cancel := context.WithCancel(t.Context())
		w := q.WaitNext(ctx, 0, q.Clients[1], locktest.PolledSeldom()...)
		time.Sleep(20 * time.Millisecond)
		r1 := q.reading.WaitNext(t.Context(), 1, q.Clients[2], locktest.PolledSeldom()...)
		r2 := q.reading.WaitNext(t.Context(), 2, q.Clients[0], locktest.PolledSeldom()...)
		q.requireWaits(r1, r2)
		cancel()
		locktest.RequireIs(t, w.End(), context.Canceled, relock.ErrLockAcquiredByOthers)
		q.Unlock(r1.Granted())
		q.Unlock(r2.Granted())
		q.Unlock(h)
		q.RequireNothingLeft(locktest.Seldom)
	})
}

// After the last level that writes, waiting readers get the lock beside the
// owner that goes on reading.
func TestRWLockDowngradeLetsReadersIn(t *testing.T) {
	eachRWMode(t, 2, func(t *testing.T, q *rwBench) {
		me := locktest.As(t, "me")
		l := q.rw(q.Clients[0])
		require.NoError(t, l.Lock(me))
		require.NoError(t, l.RLock(me))
		r := q.reading.WaitNext(t.Context(), 0, q.Clients[1])
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

// A hundred readers, again and again, do not keep writers out. At most one
// owner writes, and then nobody reads.
func TestRWLockWriterDoesNotStarve(t *testing.T) {
	eachRWMode(t, 3, func(t *testing.T, q *rwBench) {
		const readers, writes = 100, 5
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		defer group.Wait()
		defer cancel()
		var reads, reading, writing, together atomic.Int64
		read := func() {
			if n := reading.Add(1); n > 2 {
				together.Store(n)
			}
			assert.Zero(t, writing.Load(), "reads while another one writes")
			reads.Add(1)
			time.Sleep(5 * time.Millisecond)
			reading.Add(-1)
		}
		write := func() {
			if w, r := writing.Add(1), reading.Load(); w > 1 || r > 0 {
				t.Errorf("%d write, %d read", w, r)
			}
			time.Sleep(time.Millisecond)
			writing.Add(-1)
		}
		for i := range readers {
			l := q.rw(q.Clients[i%3]).RLocker()
			group.Go(func() {
				for ctx.Err() == nil {
					if err := l.Do(ctx, func(context.Context) error { read(); return nil }); err != nil && ctx.Err() == nil {
						t.Errorf("read: %v", err)
					}
				}
			})
		}
		testkit.Eventually(t, testkit.Patience, func() bool { return reads.Load() > 2*readers }, "they read")
		var waits [3][]int64 // reads meanwhile
		var writers sync.WaitGroup
		for i, c := range q.Clients {
			writers.Go(func() {
				for range writes {
					before := reads.Load()
					assert.NoError(t, q.rw(c).Do(t.Context(), func(context.Context) error {
						waits[i] = append(waits[i], reads.Load()-before)
						write()
						return nil
					}), "write")
				}
			})
		}
		writers.Wait()
		cancel()
		group.Wait()
		require.Positive(t, together.Load(), "readers share")
		require.Less(t, locktest.Median(slices.Concat(waits[:]...)), int64(2*readers),
			"a writer waits for one turn of the readers")
		q.RequireNothingLeft()
	})
}

// An entry at the front of the queue that its client has forgotten is cancelled
// by that client's next poll. It would keep those behind it out for as long as
// the lock is read.
func TestRWLockForgottenWaitAtTheFront(t *testing.T) {
	q := newRW(t, true, 2)
	h := locktest.Take(t, q.rw(q.Clients[0]).TryRAcquire)
	entry := locktest.Engine(q.Clients[1]).Identity.Hold(1_000_000) + ":wf:1250"
	q.Server.Do(t, "ZADD", q.Key+":q", 5, entry)
	q.Server.Do(t, "PEXPIRE", q.Key+":q", 60_000)
	q.Unlock(q.reading.Wait(t.Context(), q.Clients[1]).Granted())
	q.Unlock(h)
	q.RequireNothingLeft()
}

// Two goroutines of one owner wait: with the grant of one the other goes one
// level deeper.
func TestRWLockWaitersOfOneOwner(t *testing.T) {
	eachRWMode(t, 2, func(t *testing.T, q *rwBench) {
		h := q.Take(q.Clients[0])
		me := locktest.As(t, "me")
		r := q.reading.WaitNext(me, 0, q.Clients[1])
		w := q.WaitNext(me, 1, q.Clients[1])
		other := q.WaitNext(t.Context(), 2, q.Clients[0])
		q.Unlock(h)
		first, second := r.Granted(), w.Granted()
		q.requireWaits(other)
		stored := storedAt(t, q.Server, q.Clients[0], locktest.QueueKey)
		require.Equal(t, map[string]string{locktest.Engine(q.Clients[1]).Identity.Named("me"): "w 1:1"}, stored)
		q.Unlock(first)
		q.Unlock(second)
		q.Unlock(other.Granted())
		q.RequireNothingLeft()
	})
}

// A thousand readers wait for a writer, and have the lock together.
func TestRWLockThousandReaders(t *testing.T) {
	const n = 1000
	q := newRW(t, true, 2)
	h := q.Take(q.Clients[0])
	waits := make([]*locktest.Waiting, n)
	for i := range waits {
		waits[i] = q.reading.Wait(locktest.As(q, fmt.Sprint(i)), q.Clients[i%2])
	}
	q.AwaitQueued(n)
	w := q.WaitNext(t.Context(), n, q.Clients[0])
	q.Unlock(h)
	for _, r := range waits {
		_ = r.Granted()
	}
	require.False(t, w.HasEnded())
	for _, r := range waits {
		q.Unlock(r.Hold)
	}
	q.Unlock(w.Granted())
	q.RequireNothingLeft()
}
