package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// A process that is stopped as the documentation says, while tasks arrive,
// leaves none leased and no receiver idle: its context is cancelled, Process
// returns, and the client is closed.
func TestProcessStopsUnderLoad(t *testing.T) {
	s := redistest.StartTCP(t)
	s.Do(t, "SCRIPT", "LOAD", script.TaskReceive.Source)
	p := faults.Start(t, s.Network, s.Address)
	p.On(faults.Any, faults.Every, faults.Far(time.Second/4000))
	for name, to := range map[string]*redistest.Server{"loopback": s, "far": {Network: p.Network, Address: p.Address}} {
		t.Run(name, func(t *testing.T) {
			lease := queue.WithLease(time.Hour) // it does not end in the test
			producer := newQueue(t, s, lease)
			produce(t, producer)
			for range shutdowns {
				c := newClient(t, to)
				var done atomic.Int64
				ctx, cancel := context.WithCancel(t.Context())
				result := testkit.Async(t, func() error {
					return queueOf(t, c, lease).Process(ctx, func(_ context.Context, d *queue.Delivery) error {
						if done.Add(1); d.Attempt > 1 {
							t.Errorf("%s: attempt %d", d.ID, d.Attempt)
						}
						return nil
					}, queue.WithWorkers(4))
				})
				testkit.Eventually(t, testkit.Patience, func() bool { return done.Load() > 0 }, "it works")
				time.Sleep(rand.N(5 * time.Millisecond)) // any moment
				cancel()
				require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
				require.NoError(t, c.Close())
				requireNobody(t, s)
			}
		})
	}
}

// shutdowns is how many TestProcessStopsUnderLoad tries.
const shutdowns = 25

// produce enqueues tasks until the test ends.
func produce(t *testing.T, q *queue.Queue) {
	ctx, cancel := context.WithCancel(t.Context())
	result := testkit.Async(t, func() error {
		for i := 0; ctx.Err() == nil; i++ {
			if err := put(context.Background(), q, queue.Task{Key: fmt.Sprint(i % 10)}); err != nil {
				return err
			}
			time.Sleep(rand.N(time.Millisecond)) // as they come
		}
		return nil
	})
	t.Cleanup(func() {
		cancel()
		require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
	})
}

// requireNobody requires that the server knows of no lease and of no receiver.
func requireNobody(t *testing.T, s *redistest.Server) {
	t.Helper()
	keys := "relock:queue:{" + t.Name() + "}:"
	require.Zero(t, s.Do(t, "ZCARD", keys+"l"), "leases")
	require.Zero(t, s.Do(t, "ZCARD", keys+"i"), "idle receivers")
}

// What the receive under way takes is returned before the call returns, though
// its answer comes late or never. Close has nothing left to drop.
func TestCallsReturnWhatTheyTook(t *testing.T) {
	calls := map[string]func(context.Context, *queue.Queue) error{
		"Process": func(ctx context.Context, q *queue.Queue) error {
			return q.Process(ctx, func(context.Context, *queue.Delivery) error { return nil })
		},
		"Receive": func(ctx context.Context, q *queue.Queue) error {
			_, err := q.Receive(ctx, 1)
			return ended(ctx, err)
		},
		"TryReceive": func(ctx context.Context, q *queue.Queue) error {
			_, err := q.TryReceive(ctx, 1)
			return ended(ctx, err)
		},
	}
	s := redistest.StartTCP(t)
	s.Do(t, "SCRIPT", "LOAD", script.TaskReceive.Source)
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			p := faults.Start(t, s.Network, s.Address)
			lease := queue.WithLease(time.Hour)
			c := newClient(t, &redistest.Server{Network: p.Network, Address: p.Address})
			other := newQueue(t, s, lease)
			enqueue(t, other, "k", "a")
			seen := p.On(faults.Script(script.TaskReceive.SHA), 1, faults.DropAnswer)
			ctx, cancel := context.WithCancel(t.Context())
			q := queueOf(t, c, lease)
			result := testkit.Async(t, func() error { return call(ctx, q) })
			testkit.Next(t, seen)
			eventually(t, other, "it was taken", func(s queue.Stats) bool { return s.InFlight == 1 })
			cancel()
			require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
			requireNobody(t, s)
			require.NoError(t, c.Close())
			got, err := other.TryReceive(t.Context(), 1)
			require.NoError(t, err)
			require.Len(t, got, 1)
			require.Equal(t, 1, got[0].Attempt)
			require.NoError(t, got[0].Ack(t.Context()))
		})
	}
}

// ended returns nil for the error of a call whose context was cancelled.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && err != nil {
		return nil
	}
	return fmt.Errorf("it returned %w before its context was cancelled", err)
}
