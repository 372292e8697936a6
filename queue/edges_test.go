package queue_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/queue"
)

// A task whose lease has ended is not in flight, though no receive has found
// that yet.
func TestNotInFlightAfterTheLease(t *testing.T) {
	s := redistest.Shared(t)
	q := newQueue(t, s)
	enqueue(t, q, "k", "1", "2")
	enqueue(t, q, "", "free")
	all := receiveAll(t, q, "1", "free")
	for id := range all {
		require.ErrorIs(t, q.Remove(t.Context(), id), queue.ErrInFlight)
		end(t, s, "l", id)
	}
	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, stats.Ready)
	require.Equal(t, 1, stats.Behind)
	require.Zero(t, stats.InFlight)
	for id, d := range all {
		require.NoError(t, q.Remove(t.Context(), id))
		require.ErrorIs(t, d.Ack(t.Context()), relock.ErrLockLost)
	}
	require.NoError(t, receive(t, q, "2").Ack(t.Context()))
	eventually(t, q, "it is empty", isEmpty)
}

// A context that was cancelled before the call is no error of Process.
func TestProcessOfACancelledContext(t *testing.T) {
	c := newClient(t, redistest.Shared(t))
	q := queueOf(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	fn := func(context.Context, *queue.Delivery) error { return nil }
	require.NoError(t, q.Process(ctx, fn))
	require.NoError(t, c.Close())
	require.ErrorIs(t, q.Process(ctx, fn), relock.ErrClosed)
}

// A back-off that ends the goroutine fails the attempt, with the default pause.
func TestBackoffEndsItsGoroutine(t *testing.T) {
	q := newQueue(t, redistest.Shared(t), queue.WithBackoff(func(int, error) time.Duration {
		runtime.Goexit()
		return 0
	}))
	var runs atomic.Int64
	stop := processing(t, q, func(context.Context, *queue.Delivery) error {
		if runs.Add(1) == 1 {
			return errors.New("fails")
		}
		return nil
	}, queue.WithWorkers(1))
	enqueue(t, q, "", "a")
	eventually(t, q, "it is done", isEmpty)
	require.NoError(t, stop())
	require.Equal(t, int64(2), runs.Load())
}

// A queue and a delivery that the package did not make panic nowhere.
func TestMadeByHand(t *testing.T) {
	ctx := t.Context()
	require.EqualError(t, &queue.EnqueueError{}, "queue: not all tasks are queued")
	for _, q := range []*queue.Queue{nil, {}} {
		require.Empty(t, q.Name())
		require.Equal(t, `queue ""`, q.String())
		require.ErrorIs(t, q.Process(ctx, func(context.Context, *queue.Delivery) error { return nil }), relock.ErrInvalid)
		_, err := q.Receive(ctx, 1)
		require.ErrorIs(t, err, relock.ErrInvalid)
		require.ErrorIs(t, q.Remove(ctx, "a"), relock.ErrInvalid)
		for _, err := range q.DeadLetters(ctx) {
			require.ErrorIs(t, err, relock.ErrInvalid)
		}
	}
	for _, d := range []*queue.Delivery{nil, {}} {
		require.Zero(t, d.Fence())
		require.NotEmpty(t, d.String())
		require.ErrorIs(t, context.Cause(d.Context()), relock.ErrInvalid)
		for _, err := range []error{d.Err(), d.Ack(ctx), d.Nack(ctx, 0, nil), d.DeadLetter(ctx, nil), d.Release(ctx)} {
			require.ErrorIs(t, err, relock.ErrInvalid)
		}
	}
}

// What others have damaged of a task's attempts stops no worker. The task
// begins with its first attempt again.
func TestDamagedAttempts(t *testing.T) {
	s := redistest.Shared(t)
	q := newQueue(t, s)
	attempts := "relock:queue:{" + t.Name() + "}:m"
	enqueue(t, q, "", "due", "leased", "deleted", "good")
	require.NoError(t, receive(t, q, "due").Nack(t.Context(), 0, nil))
	receive(t, q, "leased")
	receive(t, q, "deleted")
	end(t, s, "l", "leased")
	end(t, s, "l", "deleted")
	s.Do(t, "HSET", attempts, "due", "x", "leased", "x", "deleted", "x")
	s.Do(t, "HDEL", "relock:queue:{"+t.Name()+"}:p", "deleted")
	all := receiveAll(t, q, "good", "due", "leased")
	for id, d := range all {
		require.Equal(t, 1, d.Attempt, id)
		require.NoError(t, d.Ack(t.Context()))
	}
	eventually(t, q, "all are done", isEmpty)
}
