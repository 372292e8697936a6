package proof

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// putTasks enqueues tasks whose IDs the test knows.
func putTasks(ctx context.Context, q *queue.Queue, tasks ...queue.Task) error {
	_, err := q.Enqueue(ctx, tasks...)
	return err
}

func taskQueueOf(t *testing.T, c *relock.Client, opts ...queue.Option) *queue.Queue {
	t.Helper()
	q, err := queue.New("tasks", c, opts...)
	require.NoError(t, err)
	return q
}

// takeTask waits for one task, which must have this ID.
func takeTask(t *testing.T, q *queue.Queue, id string) *queue.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := q.Receive(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, id, got[0].ID)
	return got[0]
}

// noTask requires that no task is due.
func noTask(t *testing.T, q *queue.Queue) {
	t.Helper()
	got, err := q.TryReceive(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, got)
}

// A server that is killed and restarted from its append-only file has all
// tasks, in their order: queued, delayed, in flight, dead and done ones.
func TestTasksSurviveARestart(t *testing.T) {
	t.Parallel()
	const lease, delay = 5 * time.Second, 2 * time.Second
	s := redistest.Start(t, appendOnly("always")...)
	crashing := clientOf(t, s)
	q, crashed := taskQueueOf(t, clientOf(t, s), queue.WithLease(lease), queue.WithUnique(time.Hour)),
		taskQueueOf(t, crashing, queue.WithLease(lease))
	fail := queue.Task{ID: "fails"}
	require.NoError(t, putTasks(t.Context(), q, queue.Task{ID: "done"}, fail, queue.Task{ID: "crashes"}))
	require.NoError(t, takeTask(t, q, "done").Ack(t.Context()))
	require.NoError(t, takeTask(t, q, "fails").DeadLetter(t.Context(), fmt.Errorf("why")))
	lost := takeTask(t, crashed, "crashes")
	begun := time.Now()
	require.NoError(t, putTasks(t.Context(), q, queue.Task{ID: "k1", Key: "k"}, queue.Task{ID: "k2", Key: "k"},
		queue.Task{ID: "k3", Key: "k"},
		queue.Task{ID: "late", Delay: delay}, queue.Task{ID: "x"}, queue.Task{ID: "y"}))
	running := takeTask(t, q, "k1")

	s.Kill(t)
	require.NoError(t, crashing.Close())
	s.BootAndLoad(t)

	require.NoError(t, running.Err())
	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	stats.Oldest = 0
	require.Equal(t, queue.Stats{Ready: 2, Delayed: 1, InFlight: 2, Behind: 2, Dead: 1}, stats)
	for _, id := range []string{"done", "fails", "crashes", "k2", "late", "x"} {
		require.ErrorIs(t, putTasks(t.Context(), q, queue.Task{ID: id}), queue.ErrDuplicate, id)
	}
	require.NoError(t, running.Ack(t.Context()))
	for _, id := range []string{"k2", "k3", "x", "y"} {
		d := takeTask(t, q, id)
		require.Equal(t, 1, d.Attempt)
		require.Greater(t, d.Fence(), running.Fence())
		require.NoError(t, d.Ack(t.Context()))
	}
	require.NoError(t, takeTask(t, q, "late").Ack(t.Context()))
	require.GreaterOrEqual(t, time.Since(begun), delay)
	again := takeTask(t, q, "crashes")
	require.GreaterOrEqual(t, time.Since(begun), lease-time.Second)
	require.Equal(t, 1, again.Attempt)
	require.Greater(t, again.Fence(), lost.Fence())
	require.NoError(t, again.Ack(t.Context()))
	n, err := q.Requeue(t.Context(), "fails")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, takeTask(t, q, "fails").Ack(t.Context()))
	noTask(t, q)
}

// A server's clock that jumps forward ends leases, and makes delayed tasks due.
// The next renewal finds the loss. No late settle counts.
func TestServerClockForwardEndsDeliveries(t *testing.T) {
	t.Parallel()
	s, clock := redistest.StartWithClock(t)
	watched := taskQueueOf(t, clientOf(t, s), queue.WithLease(3*time.Second))
	q := taskQueueOf(t, clientOf(t, s), queue.WithLease(time.Minute))
	require.NoError(t, putTasks(t.Context(), q, queue.Task{ID: "watched", Key: "k"}, queue.Task{ID: "long"},
		queue.Task{ID: "behind", Key: "k"}, queue.Task{ID: "late", Delay: clockJump}))
	first, second := takeTask(t, watched, "watched"), takeTask(t, q, "long")
	clock.Advance(t, clockJump)
	require.ErrorIs(t, testkit.EndedWithin(t, first.Context(), patience), relock.ErrLockLost, "by its renewal")
	require.NoError(t, second.Err(), "valid by the client's clock")
	for _, d := range []*queue.Delivery{first, second} {
		again := takeTask(t, q, d.ID)
		require.Equal(t, 1, again.Attempt, "an interruption is no attempt")
		require.Greater(t, again.Fence(), d.Fence())
		require.ErrorIs(t, d.Ack(t.Context()), relock.ErrNotHeld)
		require.NoError(t, again.Err())
		require.NoError(t, again.Ack(t.Context()))
	}
	require.NoError(t, takeTask(t, q, "behind").Ack(t.Context()))
	require.NoError(t, takeTask(t, q, "late").Ack(t.Context()))
}

// A server's clock that jumps back leaves deliveries alone. What is due waits
// until the clock has caught up; what becomes due later does not. No task is
// lost or runs twice, keys stay in order, and fences rise.
func TestServerClockBackDelaysTasks(t *testing.T) {
	t.Parallel()
	s, clock := redistest.StartWithClock(t)
	q, other := taskQueueOf(t, clientOf(t, s), queue.WithLease(time.Second)), taskQueueOf(t, clientOf(t, s))
	require.NoError(t, putTasks(t.Context(), q, queue.Task{ID: "running"}, queue.Task{ID: "held", Key: "held"},
		queue.Task{ID: "behind", Key: "held"},
		queue.Task{ID: "k1", Key: "k"}, queue.Task{ID: "queued"}))
	running, held := takeTask(t, q, "running"), takeTask(t, q, "held")
	clock.Advance(t, -clockJump)
	fence := held.Fence()
	rises := func(d *queue.Delivery) *queue.Delivery {
		t.Helper()
		require.Equal(t, 1, d.Attempt)
		require.Greater(t, d.Fence(), fence)
		fence = d.Fence()
		return d
	}
	require.NoError(t, putTasks(t.Context(), other, queue.Task{ID: "k2", Key: "k"}))
	require.NoError(t,
		putTasks(t.Context(), other, queue.Task{ID: "new"}, queue.Task{ID: "n1", Key: "n"}, queue.Task{ID: "n2", Key: "n"}))
	for _, id := range []string{"new", "n1", "n2"} {
		require.NoError(t, rises(takeTask(t, other, id)).Ack(t.Context()))
	}
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, rises(takeTask(t, other, "held")).DeadLetter(t.Context(), nil))
	require.NoError(t, rises(takeTask(t, other, "behind")).Ack(t.Context()))
	_, err := other.Requeue(t.Context(), "held")
	require.NoError(t, err)
	require.NoError(t, rises(takeTask(t, other, "held")).Ack(t.Context()))
	noTask(t, other)
	time.Sleep(2 * time.Second) // two leases
	require.NoError(t, running.Err())
	noTask(t, other)
	require.NoError(t, running.Ack(t.Context()))
	clock.Advance(t, clockJump)
	for _, id := range []string{"k1", "queued", "k2"} {
		require.NoError(t, rises(takeTask(t, other, id)).Ack(t.Context()))
	}
	noTask(t, other)
}
