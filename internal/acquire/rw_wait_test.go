package acquire_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// rwBench is a read/write lock for which calls wait, with its own server.
type rwBench struct{ *locktest.QueueBench }

func rwMode(fair bool) locktest.QueueMode { return locktest.QueueMode{Kind: "RWLock", Fair: fair} }

func newRW(t *testing.T, fair bool, clients int) *rwBench {
	t.Helper()
	t.Parallel()
	return &rwBench{locktest.NewQueueBench(t, rwMode(fair), clients)}
}

// eachRWMode runs a test with both modes.
func eachRWMode(t *testing.T, clients int, run func(t *testing.T, q *rwBench)) {
	t.Helper()
	t.Parallel()
	for _, fair := range []bool{false, true} {
		t.Run(rwMode(fair).Title(), func(t *testing.T) { run(t, newRW(t, fair, clients)) })
	}
}

func (q *rwBench) rw(c *relock.Client, opts ...relock.LockOption) *relock.RWLock {
	return q.Lock(c, opts...).(*relock.RWLock)
}

// crashing returns one more client, which the test closes without releasing
// anything.
func (q *rwBench) crashing() *relock.Client {
	q.Helper()
	c, err := relock.NewClient(q.Server.Network, q.Server.Address, "", relock.WithKeyPrefix(locktest.Prefix(q.Clients[0])))
	require.NoError(q, err)
	return c
}

// read begins to wait to read.
func (q *rwBench) read(ctx context.Context, c *relock.Client, opts ...relock.LockOption) *locktest.Waiting {
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

// readNext is read behind n others that are queued already.
func (q *rwBench) readNext(ctx context.Context, n int, c *relock.Client, opts ...relock.LockOption) *locktest.Waiting {
	q.Helper()
	w := q.read(ctx, c, opts...)
	q.AwaitQueued(n + 1)
	return w
}

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
		first, second := take(t, q.rw(a).TryRAcquire), take(t, q.rw(b).TryRAcquire)
		ctx := t.Context()
		w1 := q.WaitNext(ctx, 0, c)
		time.Sleep(20 * time.Millisecond) // it is no longer young
		var readers []*locktest.Waiting
		for i := range 9 {
			readers = append(readers, q.readNext(ctx, i+1, q.Clients[i%3]))
		}
		w2 := q.WaitNext(ctx, 10, a)
		last := q.readNext(ctx, 11, b)
		require.ErrorIs(t, q.rw(a).TryRLock(locktest.As(t, "new")), relock.ErrLockAcquiredByOthers, "nobody overtakes a writer that has waited")
		q.Unlock(first)
		q.requireWaits(append(readers, w1, w2, last)...)
		q.Unlock(second)
		writer := w1.Granted()
		q.requireWaits(append(readers, w2, last)...)
		q.Unlock(writer)
		for _, r := range readers {
			require.NoError(t, r.Granted().Err())
		}
		require.Len(t, scripttest.ReadRW(t, q.Server.Dial(t), q.Key), len(readers), "together")
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
		h := take(t, q.rw(q.Clients[0]).TryRAcquire)
		ctx, cancel := context.WithCancel(t.Context())
		seldom := relock.WithPollInterval(locktest.SlowPoll)
		w := q.WaitNext(ctx, 0, q.Clients[1], seldom)
		time.Sleep(20 * time.Millisecond)
		r1 := q.readNext(t.Context(), 1, q.Clients[2], seldom)
		r2 := q.readNext(t.Context(), 2, q.Clients[0], seldom)
		q.requireWaits(r1, r2)
		cancel()
		requireIs(t, w.End(), context.Canceled, relock.ErrLockAcquiredByOthers)
		q.Unlock(r1.Granted())
		q.Unlock(r2.Granted())
		q.Unlock(h)
		q.RequireNothingLeft()
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
		r := q.readNext(t.Context(), 0, q.Clients[1])
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
		const readers, writes, limit = 100, 5, time.Second
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		defer group.Wait()
		defer cancel()
		var reads, reading, writing, together atomic.Int64
		read := func() {
			if n := reading.Add(1); n > 2 {
				together.Store(n)
			}
			if writing.Load() > 0 {
				t.Error("reads while another one writes")
			}
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
		var waits [3][]time.Duration
		var writers sync.WaitGroup
		for i, c := range q.Clients {
			writers.Go(func() {
				for range writes {
					start := time.Now()
					err := q.rw(c).Do(t.Context(), func(context.Context) error {
						waits[i] = append(waits[i], time.Since(start))
						write()
						return nil
					})
					if err != nil {
						t.Errorf("write: %v", err)
					}
				}
			})
		}
		writers.Wait()
		cancel()
		group.Wait()
		require.Positive(t, together.Load(), "readers share")
		require.Less(t, locktest.Median(slices.Concat(waits[:]...)), limit, "%d reads", reads.Load())
		q.RequireNothingLeft()
	})
}

// Grants come in the order of arrival. Readers in a row count as one.
func TestRWLockFairOrder(t *testing.T) {
	q := newRW(t, true, 4)
	h := q.Take(q.Clients[0])
	const waits = 40
	order := "rrwrwwrrrw" // again and again
	var granted []int
	var mu sync.Mutex
	results := make([]<-chan error, waits)
	group := 0
	for i := range waits {
		l := q.rw(q.Clients[i%4], relock.WithPollInterval(locktest.SlowPoll))
		do := l.Do
		if order[i%len(order)] == 'w' || i > 0 && order[(i-1)%len(order)] == 'w' {
			group++
		}
		if order[i%len(order)] == 'r' {
			do = l.RLocker().Do
		}
		own := group
		results[i] = q.Async(t.Context(), func(ctx context.Context) error {
			return do(ctx, func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				granted = append(granted, own)
				return nil
			})
		})
		q.AwaitQueued(i + 1)
	}
	q.Unlock(h)
	for _, result := range results {
		requireGranted(t, result)
	}
	require.Len(t, granted, waits)
	require.True(t, slices.IsSorted(granted), "order: %v", granted)
	q.RequireNothingLeft()
}

// A reader whose process has crashed keeps a writer out until its lease ends,
// and no longer, whatever others read meanwhile.
func TestRWLockReaderThatIsGone(t *testing.T) {
	eachRWMode(t, 3, func(t *testing.T, q *rwBench) {
		const lease = 1500 * time.Millisecond
		dying := q.crashing()
		take(t, q.rw(dying, relock.WithWatchdog(lease)).RAcquire)
		h := take(t, q.rw(q.Clients[1]).TryRAcquire)
		w := q.WaitNext(t.Context(), 0, q.Clients[2])
		require.NoError(t, dying.Close())
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

// firstEnd returns the time that is left of the hold that ends first.
func (q *rwBench) firstEnd() time.Duration {
	q.Helper()
	all := scripttest.ReadRW(q, q.Server.Dial(q), q.Key)
	require.NotEmpty(q, all)
	now, err := redis.Int64s(q.Server.Do(q, "TIME"), nil)
	require.NoError(q, err)
	return time.Duration(all[0].Until-now[0]*1_000_000-now[1]) * time.Microsecond
}

// An entry at the front of the queue that its client has forgotten is cancelled
// by that client's next poll. It would keep those behind it out for as long as
// the lock is read.
func TestRWLockForgottenWaitAtTheFront(t *testing.T) {
	q := newRW(t, true, 2)
	h := take(t, q.rw(q.Clients[0]).TryRAcquire)
	entry := locktest.Engine(q.Clients[1]).Identity.Hold(1_000_000) + ":wf:1250"
	q.Server.Do(t, "ZADD", q.Key+":q", 5, entry)
	q.Server.Do(t, "PEXPIRE", q.Key+":q", 60_000)
	q.Unlock(q.read(t.Context(), q.Clients[1]).Granted())
	q.Unlock(h)
	q.RequireNothingLeft()
}

// Two goroutines of one owner wait: with the grant of one the other goes one
// level deeper.
func TestRWLockWaitersOfOneOwner(t *testing.T) {
	eachRWMode(t, 2, func(t *testing.T, q *rwBench) {
		h := q.Take(q.Clients[0])
		me := locktest.As(t, "me")
		r := q.readNext(me, 0, q.Clients[1])
		w := q.WaitNext(me, 1, q.Clients[1])
		other := q.WaitNext(t.Context(), 2, q.Clients[0])
		q.Unlock(h)
		first, second := r.Granted(), w.Granted()
		q.requireWaits(other)
		stored := locktest.RWStored(t, q.Server, q.Clients[0], locktest.QueueKey)
		require.Equal(t, map[string]string{locktest.Engine(q.Clients[1]).Identity.Named("me"): "w 1:1"}, stored)
		q.Unlock(first)
		q.Unlock(second)
		q.Unlock(other.Granted())
		q.RequireNothingLeft()
	})
}

// Close ends calls that wait, and no goroutine is left.
func TestRWLockClose(t *testing.T) {
	eachRWMode(t, 2, func(t *testing.T, q *rwBench) {
		h := q.Take(q.Clients[0])
		closing := q.crashing()
		r := q.readNext(t.Context(), 0, closing)
		w := q.WaitNext(t.Context(), 1, closing)
		require.NoError(t, closing.Close())
		require.ErrorIs(t, r.End(), relock.ErrClosed)
		require.ErrorIs(t, w.End(), relock.ErrClosed)
		require.ErrorIs(t, relock.NewRWLock(locktest.QueueKey, closing).RLock(t.Context()), relock.ErrClosed)
		q.Unlock(h)
		q.Unlock(q.Wait(t.Context(), q.Clients[1]).Granted())
	})
}

// A thousand readers wait for a writer, and have the lock together.
func TestRWLockThousandReaders(t *testing.T) {
	const n = 1000
	q := newRW(t, true, 2)
	h := q.Take(q.Clients[0])
	waits := make([]*locktest.Waiting, n)
	for i := range waits {
		waits[i] = q.read(locktest.As(q, fmt.Sprint(i)), q.Clients[i%2])
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

// With the permissions that the documentation names a read/write lock does all
// that it can, and nothing is denied on the way.
func TestRWLockLeastPrivilege(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rules := "SETUSER app on >secret resetkeys ~test:* resetchannels &test:* -@all +set +get +del +type +pttl +pexpire +hmget +hset +hdel +eval +evalsha +ping " +
		"+time +exists +hget +hrandfield +zadd +zcard +zrem +zrange +zscore +zmscore +zremrangebyrank +publish +subscribe " + locktest.RWCommands
	s.Do(t, "ACL", redis.Args{}.AddFlat(strings.Fields(rules))...)
	s.Do(t, "ACL", "LOG", "RESET")
	var log locktest.LogBuffer
	q := &rwBench{&locktest.QueueBench{TB: t, QueueMode: rwMode(true), Server: s}}
	for range 2 {
		c, err := relock.NewClient(s.Network, s.Address, "secret", relock.WithUsername("app"), relock.WithKeyPrefix("test:rw:"), log.Option())
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		q.Clients = append(q.Clients, c)
	}
	q.Key = locktest.KeyOf(q.Clients[0], locktest.QueueKey)
	me := locktest.As(t, "me")
	l := q.rw(q.Clients[0], relock.WithWatchdog(3*time.Second))
	h, err := l.RAcquire(me)
	require.NoError(t, err)
	require.NoError(t, l.Lock(me))
	r := q.readNext(t.Context(), 0, q.Clients[1])
	w := q.WaitNext(t.Context(), 1, q.Clients[1])
	q.AwaitSubscribed(q.Clients[1])
	locktest.AwaitRenewal(t, h, testkit.Patience)
	require.NoError(t, l.Unlock(me))
	q.Unlock(r.Granted())
	require.NoError(t, h.Unlock(me))
	q.Unlock(w.Granted())
	q.RequireNothingLeft()
	denied, _ := s.Do(t, "ACL", "LOG").([]any)
	require.Empty(t, denied, "%s", log.String())
	require.Empty(t, log.String())
}
