package queue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// killed is a worker of a queue that is gone from one moment on, like a process
// that is killed: its client sends nothing more.
func killed(t *testing.T, s *redistest.Server, opts []queue.Option, workers int, die <-chan struct{}) {
	t.Helper()
	c := newClient(t, s)
	q := queueOf(t, c, opts...)
	all := receiveSome(t, q, workers)
	<-die
	require.NoError(t, c.Close())
	for _, d := range all {
		require.Error(t, d.Err())
	}
}

func receiveSome(t *testing.T, q *queue.Queue, n int) (all []*queue.Delivery) {
	t.Helper()
	for len(all) < n {
		got, err := q.Receive(t.Context(), n-len(all))
		require.NoError(t, err)
		all = append(all, got...)
	}
	return all
}

// A task that kills its process becomes a dead letter alone. Its neighbours are
// done.
func TestTaskThatKillsItsProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	const lease = time.Second
	s.AwaitUp(t, int(lease/time.Second))
	opts := []queue.Option{queue.WithLease(lease), queue.WithMaxAttempts(4), queue.WithMaxInterruptions(3)}
	watch := newQueue(t, s, opts...)
	enqueue(t, watch, "", "poison")
	for i := range 9 {
		enqueue(t, watch, "", fmt.Sprint("honest", i))
	}
	for empty := false; !empty; {
		runUntilPoison(t, s, opts)
		stats, err := watch.Stats(t.Context())
		require.NoError(t, err)
		empty = isEmpty(stats)
	}
	var dead []string
	for letter, err := range watch.DeadLetters(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, 3, letter.Interruptions)
		dead = append(dead, letter.ID)
	}
	require.Equal(t, []string{"poison"}, dead)
}

// runUntilPoison is the life of a process with ten workers. It is killed as
// soon as the poison runs, with all that runs beside it.
func runUntilPoison(t *testing.T, s *redistest.Server, opts []queue.Option) {
	t.Helper()
	c := newClient(t, s)
	q := queueOf(t, c, opts...)
	poison := make(chan struct{})
	gone := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := testkit.Async(t, func() error {
		return q.Process(ctx, func(ctx context.Context, d *queue.Delivery) error {
			if d.ID == "poison" {
				close(poison)
			}
			select { // each takes a moment, so that the poison has neighbours
			case <-gone:
				return context.Cause(ctx)
			case <-time.After(50 * time.Millisecond):
			}
			if d.ID == "poison" {
				<-gone
			}
			return nil
		}, queue.WithGrace(0))
	})
	select {
	case <-poison:
	case <-time.After(3 * time.Second): // there is nothing left for it
	}
	require.NoError(t, c.Close())
	close(gone)
	_ = testkit.ResultWithin(t, result, testkit.Patience) // it is closed
}

// A task that was interrupted is processed one at a time, beside others, until
// it has run for a lease.
func TestInterruptedTasksRunOneAtATime(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	const lease = 2 * time.Second
	s.AwaitUp(t, int(lease/time.Second))
	opts := []queue.Option{queue.WithLease(lease)}
	q := newQueue(t, s, opts...)
	enqueue(t, q, "", "s1", "s2", "s3")
	die := make(chan struct{})
	close(die)
	killed(t, s, opts, 3, die)
	eventually(t, q, "their leases have ended", func(s queue.Stats) bool { return s.Ready == 3 })

	first := receive(t, q, "s1")
	require.Equal(t, 1, first.Interruptions)
	require.Equal(t, 1, first.Attempt)
	began := time.Now()
	enqueue(t, q, "", "new")
	require.NoError(t, receive(t, q, "new").Ack(t.Context()))
	none(t, q)
	second := receive(t, q, "s2")
	require.GreaterOrEqual(t, time.Since(began), lease*9/10, "the first one has lived for a lease")
	none(t, q)
	require.NoError(t, second.Ack(t.Context()))
	require.NoError(t, receive(t, q, "s3").Ack(t.Context()), "the second one has ended")
	require.NoError(t, first.Ack(t.Context()))
}

// A worker that waits takes the next interrupted task as soon as one has ended.
func TestInterruptedTasksFollowEachOther(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	const lease, tasks = time.Second, 20
	s.AwaitUp(t, int(lease/time.Second))
	opts := []queue.Option{queue.WithLease(lease)}
	q := newQueue(t, s, opts...)
	for i := range tasks {
		enqueue(t, q, "", fmt.Sprint(i))
	}
	die := make(chan struct{})
	close(die)
	killed(t, s, opts, tasks, die)
	eventually(t, q, "their leases have ended", func(s queue.Stats) bool { return s.Ready == tasks })
	clock := testkit.NewStopwatch(t)
	stop := processing(t, q, func(context.Context, *queue.Delivery) error {
		<-time.After(20 * time.Millisecond) // the worker is idle before it has ended
		return nil
	})
	eventually(t, q, "all are done", isEmpty)
	clock.Within(5*time.Second, "none has waited for a poll")
	require.NoError(t, stop())
}

// Leases that end while the server hangs are no interruptions.
func TestServerThatHangsInterruptsNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const lease = time.Second
	s.AwaitUp(t, int(lease/time.Second))
	q := newQueue(t, s, queue.WithLease(lease))
	var runs, interrupted atomic.Int64
	stop := processing(t, q, func(ctx context.Context, d *queue.Delivery) error {
		runs.Add(1)
		interrupted.Add(int64(d.Interruptions))
		if runs.Load() > 1 {
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	enqueue(t, q, "", "a")
	testkit.Eventually(t, testkit.Patience, func() bool { return runs.Load() == 1 }, "it runs")
	s.Pause(t)
	<-time.After(3 * lease)
	s.Resume(t)
	eventually(t, q, "it is done", isEmpty)
	require.NoError(t, stop())
	require.Equal(t, int64(2), runs.Load())
	require.Zero(t, interrupted.Load())
}
