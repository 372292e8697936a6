package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// lockHeader is the header that names the lock of a task in these tests.
const lockHeader = "lock"

func byHeader(t queue.Task) string { return t.Header[lockHeader] }

func newLocker(t testing.TB, c *relock.Client) relock.Locker {
	t.Helper()
	l, err := relock.NewLocker(c)
	require.NoError(t, err)
	return l
}

// enqueueUnder enqueues tasks that run under a lock.
func enqueueUnder(t testing.TB, q *queue.Queue, lock string, ids ...string) {
	t.Helper()
	var tasks []queue.Task
	for _, id := range ids {
		tasks = append(tasks, queue.Task{ID: id, Header: map[string]string{lockHeader: lock}})
	}
	for len(tasks) > 0 {
		n := min(len(tasks), 1000)
		require.NoError(t, put(t.Context(), q, tasks[:n]...))
		tasks = tasks[n:]
	}
}

// succeeds is a function of a task that does nothing.
func succeeds(context.Context, *queue.Delivery) error { return nil }

func named(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint("t", i))
	}
	return ids
}

func hold(t testing.TB, l relock.Locker, name string) relock.Hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	h, err := l.Lock(ctx, name)
	require.NoError(t, err)
	return h
}

// locked is a process that works on a queue, each task under its lock.
func locked(
	t testing.TB, s *redistest.Server, fn func(context.Context, *queue.Delivery) error, opts ...queue.Option,
) (stop func() error) {
	t.Helper()
	c := newClient(t, s)
	return processing(t, queueOf(t, c, opts...), fn, queue.WithLocker(newLocker(t, c), byHeader))
}

// Tasks have their share of a lock for which other callers wait: each caller
// gets it some once while a task does.
func TestTasksBesideCallersOfTheirLock(t *testing.T) {
	s := redistest.Shared(t)
	q := newQueue(t, s)
	const callers, tasks = 4, 20
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var grants, inside atomic.Int64
	alone := func() {
		if inside.Add(1) != 1 {
			t.Error("two have the lock")
		}
		time.Sleep(time.Millisecond)
		inside.Add(-1)
	}
	for range callers {
		l := newLocker(t, newClient(t, s))
		group.Go(func() {
			for ctx.Err() == nil {
				err := relock.Do(ctx, l, t.Name(), func(context.Context) error { alone(); return nil })
				if err == nil {
					grants.Add(1)
				}
			}
		})
	}
	testkit.Eventually(t, testkit.Patience, func() bool { return grants.Load() > callers }, "the callers work")
	before := grants.Load()
	enqueueUnder(t, q, t.Name(), named(tasks)...)
	stop := locked(t, s, func(context.Context, *queue.Delivery) error { alone(); return nil })
	eventually(t, q, "all are done", isEmpty)
	others := grants.Load() - before
	cancel()
	group.Wait()
	require.NoError(t, stop())
	t.Logf("%d tasks beside %d grants of %d callers", tasks, others, callers)
	require.Less(t, others, int64(callers*tasks*5))
}

// Tasks that wait for a lock cost neither requests nor time of free ones,
// however many they are.
func TestTasksBehindALock(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s)
	q, locker := queueOf(t, c), newLocker(t, c)
	free := make(chan time.Time, 1)
	var done atomic.Int64
	stop := locked(t, s, func(_ context.Context, d *queue.Delivery) error {
		if done.Add(1); d.ID == "free" {
			free <- time.Now()
		}
		return nil
	})
	commands := map[int]int64{}
	const some, many = 10, 300
	h := hold(t, locker, "busy")
	for i, n := range []int{some, many} {
		ids := named(n)
		for j := range ids {
			ids[j] += fmt.Sprint("of", i)
		}
		enqueueUnder(t, q, "busy", ids...)
		eventually(t, q, "all are behind the lock", func(s queue.Stats) bool {
			return s.Behind >= n && s.InFlight+s.Ready == 0
		})
		before := s.Info(t, "stats", "total_commands_processed")
		time.Sleep(time.Second) // what is measured is how much happens in a second
		commands[n] = s.Info(t, "stats", "total_commands_processed") - before
	}
	t.Log("commands a second with so many tasks:", commands)
	// Several commands for each script of a receiver, renewals and a waiter.
	require.Less(t, commands[many], int64(150))
	require.Zero(t, done.Load())
	clock := testkit.NewStopwatch(t)
	enqueueUnder(t, q, "", "free")
	testkit.Next(t, free)
	clock.Within(50*time.Millisecond, "a free task begins")
	require.NoError(t, h.Unlock(t.Context()))
	eventually(t, q, "all are done", isEmpty)
	require.NoError(t, stop())
	require.Equal(t, int64(some+many+1), done.Load())
}

// When Process ends, others go on with the tasks that are behind a lock.
func TestGateGivesUp(t *testing.T) {
	s := redistest.Shared(t)
	c := newClient(t, s)
	q, locker := queueOf(t, c), newLocker(t, c)
	h := hold(t, locker, t.Name())
	stop := locked(t, s, func(context.Context, *queue.Delivery) error { return errors.New("not here") })
	enqueueUnder(t, q, t.Name(), named(100)...)
	eventually(t, q, "all are behind the lock", func(s queue.Stats) bool { return s.Behind == 100 })
	clock := testkit.NewStopwatch(t)
	require.NoError(t, stop())
	require.NoError(t, h.Unlock(t.Context()))
	for range 100 {
		got, err := q.Receive(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, 1, got[0].Attempt)
		require.NoError(t, got[0].Ack(t.Context()))
	}
	clock.Within(5*time.Second, "the promise has not run out")
	none(t, q)
}

// The tasks behind a lock are due again when the process is gone that waits for
// it.
func TestGateOfAProcessThatIsGone(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	const lease = time.Second
	c := newClient(t, s)
	q, locker := queueOf(t, c), newLocker(t, c)
	_ = hold(t, locker, t.Name())
	gone := newClient(t, s)
	stop := processing(t, queueOf(t, gone, queue.WithLease(lease)), succeeds,
		queue.WithLocker(newLocker(t, gone), byHeader))
	enqueueUnder(t, q, t.Name(), named(40)...)
	eventually(t, q, "all are behind the lock", func(s queue.Stats) bool { return s.Behind == 40 })
	time.Sleep(2 * lease) // it is the time that must not matter: the promise is renewed
	none(t, q)
	clock := testkit.NewStopwatch(t)
	require.NoError(t, gone.Close())
	_ = stop() // it is closed, or was stopped before it has seen that
	for range 40 {
		got, err := q.Receive(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, 1, got[0].Attempt)
		require.NoError(t, got[0].Ack(t.Context()))
	}
	clock.Within(lease+lease/2, "the promise has ended")
}

// A gate finds room for its tasks under WithMaxInFlight, beside free ones.
func TestGateUnderALimit(t *testing.T) {
	s := redistest.Shared(t)
	c := newClient(t, s)
	q, locker := queueOf(t, c), newLocker(t, c)
	h := hold(t, locker, t.Name())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var under atomic.Int64
	stop := locked(t, s, func(ctx context.Context, d *queue.Delivery) error {
		if d.Header[lockHeader] != "" {
			under.Add(1)
			return nil
		}
		time.Sleep(time.Millisecond)
		return put(ctx, q, queue.Task{}) // there is always another one
	}, queue.WithMaxInFlight(2))
	enqueueUnder(t, q, t.Name(), named(5)...)
	eventually(t, q, "all are behind the lock", func(s queue.Stats) bool { return s.Behind == 5 })
	for range 10 {
		require.NoError(t, put(ctx, q, queue.Task{}))
	}
	require.NoError(t, h.Unlock(t.Context()))
	testkit.Eventually(t, testkit.Patience, func() bool { return under.Load() == 5 }, "they have run")
	require.NoError(t, stop())
}

// While all workers are busy, the process keeps no lock from others.
func TestGateWithoutAWorker(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newClient(t, s)
	q, locker := queueOf(t, c), newLocker(t, c)
	h := hold(t, locker, t.Name())
	worker := newClient(t, s)
	long, began := make(chan struct{}), make(chan struct{})
	var under atomic.Int64
	stop := processing(t, queueOf(t, worker), func(_ context.Context, d *queue.Delivery) error {
		if d.ID == "long" {
			close(began)
			<-long
			return nil
		}
		under.Add(1)
		return nil
	}, queue.WithLocker(newLocker(t, worker), byHeader), queue.WithWorkers(1))
	free := sync.OnceFunc(func() { close(long) })
	t.Cleanup(free) // before Process is waited for
	enqueueUnder(t, q, t.Name(), "waits")
	eventually(t, q, "it is behind the lock", func(s queue.Stats) bool { return s.Behind == 1 })
	enqueueUnder(t, q, "", "long")
	<-began
	require.NoError(t, h.Unlock(t.Context()))
	for range 5 { // its turn passes
		clock := testkit.NewStopwatch(t)
		h = hold(t, locker, t.Name())
		clock.Within(200*time.Millisecond, "the lock is free")
		require.NoError(t, h.Unlock(t.Context()))
	}
	require.Zero(t, under.Load())
	var others atomic.Int64
	stopOther := locked(t, s, func(context.Context, *queue.Delivery) error { others.Add(1); return nil })
	testkit.Eventually(t, testkit.Patience, func() bool { return others.Load() == 1 }, "another process runs it")
	free()
	eventually(t, q, "it has run", isEmpty)
	require.NoError(t, stop())
	require.NoError(t, stopOther())
}
