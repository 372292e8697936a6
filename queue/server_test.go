package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// Mistakes in a queue are reported together.
func TestNewMistakes(t *testing.T) {
	c := newClient(t, redistest.Shared(t))
	_, err := queue.New("", nil, nil,
		queue.WithLease(time.Millisecond), queue.WithMaxAttempts(0), queue.WithBackoff(nil), queue.WithUnique(-1),
		queue.WithDeadLetterLimit(-1, 0), queue.WithMaxInFlight(-1), queue.WithLabel(strings.Repeat("é", 50)))
	require.ErrorIs(t, err, relock.ErrInvalid)
	for _, what := range []string{
		"name: is empty", "client:", "opts[0]", "WithLease", "WithMaxAttempts", "WithBackoff",
		"WithUnique", "WithDeadLetterLimit: -1", "WithDeadLetterLimit: 0s", "WithMaxInFlight: -1", "WithLabel: 300 bytes",
	} {
		require.ErrorContains(t, err, what)
	}
	_, err = queue.New("a", &relock.Client{})
	require.ErrorContains(t, err, "client:")
	q, err := queue.New("a", c)
	require.NoError(t, err)
	require.Equal(t, "a", q.Name())
	require.Equal(t, `queue "a"`, q.String())
	for _, none := range []*queue.Queue{nil, {}} {
		require.ErrorIs(t, put(t.Context(), none), relock.ErrInvalid)
	}
	var e *relock.Error
	require.ErrorAs(t, q.Remove(t.Context(), ""), &e)
	require.Equal(t, "a", e.Key)
}

// A bad task is named, and the others are queued.
func TestEnqueueMistakes(t *testing.T) {
	q := newQueue(t, redistest.Shared(t))
	long := strings.Repeat("x", 1<<20+1)
	ids, err := q.Enqueue(t.Context(),
		queue.Task{ID: long[:257]}, queue.Task{ID: "1", Key: long[:513]}, queue.Task{ID: "2", Key: "a\x00b"},
		queue.Task{ID: "3", Payload: []byte(long)},
		queue.Task{ID: "4", Delay: -1}, queue.Task{ID: "5", Delay: 11 * 365 * 24 * time.Hour},
		queue.Task{ID: "6", Header: map[string]string{"a": long[:4<<10]}},
		queue.Task{ID: "good"}, queue.Task{ID: "good"}, queue.Task{ID: "largest", Key: long[:512], Payload: []byte(long[1:])})
	require.ErrorIs(t, err, relock.ErrInvalid)
	for _, what := range []string{
		"tasks[0]", "ID: 257 bytes are above 256", `tasks[1] "1": invalid: Key: 513 bytes are above 512`,
		"Key: has a zero byte", "Payload: 1048577 bytes are above 1048576", "Delay: -1ns is negative",
		"Delay: 96360h", "Header: 4097 bytes are above 4096",
	} {
		require.ErrorContains(t, err, what)
	}
	var e *queue.EnqueueError
	require.ErrorAs(t, err, &e)
	require.ErrorIs(t, err, queue.ErrDuplicate)
	require.Equal(t, []string{"good"}, e.Duplicates)
	require.Equal(t, []string{"good", "largest"}, e.Queued)
	require.Empty(t, e.Unknown)
	require.Equal(t, []string{long[:257], "1", "2", "3", "4", "5", "6", "good", "good", "largest"}, ids)
	got, err := q.TryReceive(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, "largest", got[1].ID)
	require.Len(t, got[1].Payload, 1<<20)
	_, err = q.Receive(t.Context(), 0)
	require.ErrorIs(t, err, relock.ErrInvalid)
	for _, one := range got {
		require.NoError(t, one.Ack(t.Context()))
	}
}

// Many and large tasks are queued in order.
func TestEnqueueMany(t *testing.T) {
	q := newQueue(t, redistest.Shared(t))
	var tasks []queue.Task
	for i := range 150 {
		tasks = append(tasks, queue.Task{ID: fmt.Sprintf("%03d", i), Payload: make([]byte, 40<<10)})
	}
	require.NoError(t, put(t.Context(), q, tasks...))
	var e *queue.EnqueueError
	require.ErrorAs(t, put(t.Context(), q, tasks...), &e)
	require.Len(t, e.Duplicates, 150)
	require.ErrorContains(t, e, `"009"] and 140 more`)
	for i := 0; i < 150; {
		got, err := q.TryReceive(t.Context(), 64)
		require.NoError(t, err)
		require.NotEmpty(t, got)
		for _, one := range got {
			require.Equal(t, tasks[i].ID, one.ID)
			require.NoError(t, one.Ack(t.Context()))
			i++
		}
	}
}

// An id that is done is refused within its window.
func TestUnique(t *testing.T) {
	s := redistest.Shared(t)
	q := newQueue(t, s, queue.WithUnique(time.Hour))
	enqueue(t, q, "", "a")
	require.NoError(t, receive(t, q, "a").Ack(t.Context()))
	require.ErrorIs(t, put(t.Context(), q, queue.Task{ID: "a"}), queue.ErrDuplicate)
	end(t, s, "u", "a")
	enqueue(t, q, "", "a")
	require.NoError(t, receive(t, q, "a").Ack(t.Context()))
}

// While the memory is used up, Enqueue is refused. What drains the queue is
// not: leases are renewed, and tasks are received, settled and removed.
func TestOutOfMemory(t *testing.T) {
	s := redistest.Start(t)
	q := newQueue(t, s)
	enqueue(t, q, "", "ended", "a", "b")
	enqueue(t, q, "k", "1", "2")
	for _, id := range []string{"joins", "joins behind"} {
		require.NoError(t, put(t.Context(), q, queue.Task{ID: id, Key: "delayed", Delay: time.Hour}))
		end(t, s, "w", id)
	}
	got := receiveAll(t, q, "joins", "ended", "a", "b", "1")
	end(t, s, "l", "ended")
	s.Do(t, "CONFIG", "SET", "maxmemory", 1)
	err := put(t.Context(), q, queue.Task{ID: "c"})
	require.True(t, relock.IsRetryableErr(err), "%v", err)
	require.ErrorContains(t, err, "OOM")
	require.ErrorContains(t, err, `"c"`)
	until := got["a"].ValidUntil()
	got["a"].RenewNow()
	testkit.Eventually(t, testkit.Patience, func() bool { return got["a"].ValidUntil().After(until) }, "renewed")
	require.NoError(t, got["a"].Ack(t.Context()))
	require.NoError(t, got["b"].Release(t.Context()))
	require.NoError(t, got["1"].Ack(t.Context()))
	require.NoError(t, got["joins"].Ack(t.Context()))
	require.NoError(t, q.Remove(t.Context(), "joins behind"))
	for _, d := range receiveAll(t, q, "ended", "b", "2") {
		require.NoError(t, d.Ack(t.Context()))
	}
	eventually(t, q, "it is drained", isEmpty)
}

// receiveAll receives the tasks with these ids, in any order.
func receiveAll(t *testing.T, q *queue.Queue, ids ...string) map[string]*queue.Delivery {
	t.Helper()
	all := map[string]*queue.Delivery{}
	for len(all) < len(ids) {
		got, err := q.TryReceive(t.Context(), len(ids)-len(all))
		require.NoError(t, err)
		require.NotEmpty(t, got)
		for _, d := range got {
			require.Contains(t, ids, d.ID)
			all[d.ID] = d
		}
	}
	return all
}

// FLUSHALL loses tasks and leases, and nothing hangs.
func TestFlush(t *testing.T) {
	s := redistest.Start(t)
	q := newQueue(t, s, queue.WithLease(time.Second))
	enqueue(t, q, "k", "a", "b")
	d := receive(t, q, "a")
	s.Do(t, "FLUSHALL")
	require.ErrorIs(t, testkit.EndedWithin(t, d.Context(), testkit.Patience), relock.ErrLockLost)
	require.ErrorIs(t, d.Ack(t.Context()), relock.ErrLockLost)
	enqueue(t, q, "k", "c")
	again := receive(t, q, "c")
	require.Greater(t, again.Fence(), d.Fence())
	require.NoError(t, again.Ack(t.Context()))
}

// After FLUSHALL, workers that ran or waited go on with new tasks.
func TestFlushWhileProcessing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	q, producer := newQueue(t, s, queue.WithLease(3*time.Second)), newQueue(t, s)
	cause, done := make(chan error, 1), make(chan string, 10)
	var first atomic.Bool
	stop := processing(t, q, func(ctx context.Context, d *queue.Delivery) error {
		if first.CompareAndSwap(false, true) {
			<-ctx.Done()
			cause <- context.Cause(ctx)
		}
		done <- d.ID
		return nil
	}, queue.WithWorkers(2))
	enqueue(t, producer, "k", "running", "flushed")
	eventually(t, producer, "one runs, and one waits", func(s queue.Stats) bool { return s.InFlight == 1 && s.Idle == 1 })
	s.Do(t, "FLUSHALL")
	enqueue(t, producer, "k", "running", "new") // one has the ID of the one that still runs
	err := testkit.Next(t, cause)
	require.ErrorIs(t, err, relock.ErrLockLost)
	eventually(t, producer, "the new ones are done", isEmpty)
	require.NoError(t, stop())
	close(done)
	var all []string
	for id := range done {
		all = append(all, id)
	}
	require.ElementsMatch(t, []string{"running", "running", "new"}, all, "the lost one, and the new ones")
}

// Close and cancellation end each call.
func TestClose(t *testing.T) {
	c := newClient(t, redistest.Shared(t))
	q := queueOf(t, c)
	enqueue(t, q, "", "a")
	d := receive(t, q, "a")
	waiting := testkit.Async(t, func() error {
		_, err := q.Receive(t.Context(), 1)
		return err
	})
	eventually(t, q, "it waits", func(s queue.Stats) bool { return s.Idle == 1 })
	require.NoError(t, c.Close())
	require.ErrorIs(t, testkit.ResultWithin(t, waiting, testkit.Patience), relock.ErrClosed)
	require.ErrorIs(t, d.Ack(t.Context()), relock.ErrClosed)
	require.ErrorIs(t, context.Cause(d.Context()), relock.ErrClosed)
	require.ErrorIs(t, put(t.Context(), q, queue.Task{}), relock.ErrClosed)
	require.ErrorIs(t, q.Remove(t.Context(), "a"), relock.ErrClosed)
	_, err := q.TryReceive(t.Context(), 1)
	require.ErrorIs(t, err, relock.ErrClosed)
	_, err = q.Requeue(t.Context(), "a")
	require.ErrorIs(t, err, relock.ErrClosed)
	_, err = q.Stats(t.Context())
	require.ErrorIs(t, err, relock.ErrClosed)

	q = newQueue(t, redistest.Shared(t))
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	require.ErrorIs(t, put(ctx, q, queue.Task{}), why)
	_, err = q.Receive(ctx, 1)
	require.ErrorIs(t, err, why)
}

// The pauses between attempts grow to an hour, and differ.
func TestBackoff(t *testing.T) {
	for attempt, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 12: 2048 * time.Second,
		13: time.Hour, 25: time.Hour, 1000: time.Hour, 0: time.Second,
	} {
		different := map[time.Duration]bool{}
		for range 20 {
			pause := queue.Backoff(attempt, nil)
			require.LessOrEqual(t, pause, want)
			require.Greater(t, pause, want*4/5-1)
			different[pause] = true
		}
		require.Greater(t, len(different), 1)
	}
}

// The observer sees each task that is queued, received and finished.
func TestObserver(t *testing.T) {
	var seen []string
	q := newQueue(t, redistest.Shared(t), queue.WithObserver(queue.Observer{
		Enqueued: func(_ context.Context, e queue.Enqueued) { seen = append(seen, "enqueued "+e.ID) },
		Received: func(_ context.Context, e queue.Received) {
			seen = append(seen, fmt.Sprintf("received %s %d %t", e.ID, e.Attempt, e.Waited < time.Minute))
		},
		Finished: func(_ context.Context, e queue.Finished) {
			seen = append(seen, fmt.Sprintf("%s %s %v", e.Outcome, e.ID, e.Err))
		},
	}))
	enqueue(t, q, "k", "a")
	require.Error(t, put(t.Context(), q, queue.Task{ID: "a"}))
	d := receive(t, q, "a")
	require.NoError(t, d.Nack(t.Context(), 0, errors.New("why")))
	require.Error(t, d.Ack(t.Context()))
	require.NoError(t, receive(t, q, "a").Ack(t.Context()))
	require.Equal(t,
		[]string{"enqueued a", "received a 1 true", "failed a why", "received a 2 true", "acknowledged a <nil>"}, seen)
}
