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

// processing runs Process until stop is called, which returns its error.
func processing(
	t testing.TB, q *queue.Queue, fn func(context.Context, *queue.Delivery) error, opts ...queue.ProcessOption,
) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	result := testkit.Async(t, func() error { return q.Process(ctx, fn, opts...) })
	t.Cleanup(cancel)
	return func() error {
		cancel()
		return testkit.ResultWithin(t, result, testkit.Patience)
	}
}

// statsOf waits until the counts of the queue satisfy ok.
func eventually(t testing.TB, q *queue.Queue, what string, ok func(queue.Stats) bool) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience, func() bool {
		s, err := q.Stats(t.Context())
		return err == nil && ok(s)
	}, what)
}

func isEmpty(s queue.Stats) bool { return s.Ready+s.Delayed+s.InFlight+s.Behind == 0 }

// Workers process all tasks, together and in the order of their keys.
func TestProcess(t *testing.T) {
	s := redistest.Shared(t)
	q := newQueue(t, s)
	const keys, each = 20, 30
	var mu sync.Mutex
	order, running, most := map[string][]string{}, 0, 0
	busy := map[string]bool{}
	work := func(_ context.Context, d *queue.Delivery) error {
		mu.Lock()
		running++
		most = max(most, running)
		twice := busy[d.Key]
		busy[d.Key] = true
		order[d.Key] = append(order[d.Key], d.ID)
		mu.Unlock()
		time.Sleep(100 * time.Microsecond)
		mu.Lock()
		defer mu.Unlock()
		running--
		busy[d.Key] = false
		if twice {
			return errors.New("two of a key")
		}
		return nil
	}
	var stops []func() error
	for range 3 {
		stops = append(stops, processing(t, newQueue(t, s), work, queue.WithWorkers(8)))
	}
	for i := range each {
		var tasks []queue.Task
		for k := range keys {
			tasks = append(tasks, queue.Task{ID: fmt.Sprintf("%d-%03d", k, i), Key: fmt.Sprint(k)})
		}
		require.NoError(t, put(t.Context(), q, tasks...))
	}
	eventually(t, q, "all are done", isEmpty)
	for _, stop := range stops {
		require.NoError(t, stop())
	}
	require.LessOrEqual(t, most, 24)
	for k := range keys {
		require.Len(t, order[fmt.Sprint(k)], each)
		require.IsIncreasing(t, order[fmt.Sprint(k)])
	}
	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Zero(t, stats.Dead)
}

// A process that stops waits for its functions. After the grace their contexts
// are cancelled, and their tasks are released, uncounted.
func TestProcessStops(t *testing.T) {
	s := redistest.Shared(t)
	q := newQueue(t, s)
	began := make(chan struct{}, 2)
	goOn := make(chan struct{})
	stop := processing(t, q, func(ctx context.Context, d *queue.Delivery) error {
		began <- struct{}{}
		if d.ID == "short" {
			<-goOn
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}, queue.WithGrace(200*time.Millisecond))
	enqueue(t, q, "", "short", "long")
	for range 2 {
		testkit.Next(t, began)
	}
	go func() {
		time.Sleep(50 * time.Millisecond) // the context is cancelled meanwhile
		close(goOn)
	}()
	start := time.Now()
	require.NoError(t, stop())
	require.GreaterOrEqual(t, time.Since(start), 200*time.Millisecond)
	enqueue(t, q, "", "more")
	d := receive(t, newQueue(t, s), "long")
	require.Equal(t, 1, d.Attempt)
	require.NoError(t, d.Ack(t.Context()))
	eventually(t, q, "the others are done", func(s queue.Stats) bool { return s.Ready == 1 && s.Idle == 0 })
}

// A function that does not return is left behind, and named. Its task is due
// again after its lease.
func TestProcessLeavesFunctionBehind(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	q := newQueue(t, s, queue.WithLease(2*time.Second))
	goOn, began, returned := make(chan struct{}), make(chan struct{}), make(chan struct{})
	stop := processing(t, q, func(context.Context, *queue.Delivery) error {
		defer close(returned)
		close(began)
		<-goOn
		return nil
	}, queue.WithGrace(0))
	enqueue(t, q, "", "stuck")
	_, _ = testkit.Await(began, testkit.Patience)
	err := stop()
	require.ErrorContains(t, err, `"stuck"`)
	d := receive(t, newQueue(t, s), "stuck")
	require.Equal(t, 1, d.Attempt)
	close(goOn)
	<-returned
	require.NoError(t, d.Err(), "nothing is sent for the lost delivery")
	require.NoError(t, d.Ack(t.Context()))
}

func (panicking) TryLock(context.Context, string) (relock.Hold, error) { panic("in the locker") }

func (panicking) Error() string { panic("in the error") }

// Mistakes are returned, and nothing is received.
func TestProcessMistakes(t *testing.T) {
	c := newClient(t, redistest.Shared(t))
	q := queueOf(t, c)
	fn := func(context.Context, *queue.Delivery) error { return nil }
	err := q.Process(t.Context(), nil, nil, queue.WithWorkers(0), queue.WithTimeout(-1), queue.WithGrace(-1),
		queue.WithLocker(nil, func(queue.Task) string { return "" }))
	require.ErrorIs(t, err, relock.ErrInvalid)
	for _, what := range []string{"fn:", "opts[0]", "WithWorkers", "WithTimeout", "WithGrace", "WithLocker"} {
		require.ErrorContains(t, err, what)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, q.Process(ended, fn))
	require.NoError(t, c.Close())
	require.ErrorIs(t, q.Process(t.Context(), fn), relock.ErrClosed)
}

// Close ends Process, and its deliveries. Their leases end by themselves.
func TestProcessEndsWithClient(t *testing.T) {
	s := redistest.Shared(t)
	c := newClient(t, s, relock.WithReleaseOnClose())
	q := queueOf(t, c)
	began, cause := make(chan struct{}), make(chan error, 1)
	result := testkit.Async(t, func() error {
		return q.Process(t.Context(), func(ctx context.Context, _ *queue.Delivery) error {
			close(began)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return nil
		})
	})
	enqueue(t, newQueue(t, s), "", "a")
	_, _ = testkit.Await(began, testkit.Patience)
	require.NoError(t, c.Close())
	require.ErrorIs(t, testkit.ResultWithin(t, result, testkit.Patience), relock.ErrClosed)
	require.ErrorIs(t, <-cause, relock.ErrClosed)
	other := newQueue(t, s)
	none(t, other)
	require.NoError(t, receiveEnded(t, s, other, "a").Ack(t.Context()))
}

// Process rides out a server that is away.
func TestProcessRidesOutAnOutage(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	q := newQueue(t, s)
	var done atomic.Int64
	stop := processing(t, q, func(context.Context, *queue.Delivery) error {
		done.Add(1)
		return nil
	})
	enqueue(t, q, "", "a")
	eventually(t, q, "it is done", isEmpty)
	s.Kill(t)
	s.BootAndLoad(t)
	testkit.Eventually(t, testkit.Patience, func() bool {
		return put(t.Context(), q, queue.Task{ID: "b"}) == nil
	}, "the server is back")
	eventually(t, q, "it goes on", isEmpty)
	require.NoError(t, stop())
	require.Equal(t, int64(2), done.Load())
}

// What was enqueued first begins first: as many keys with backlogs as there are
// workers let another key wait for all of them.
func TestKeysHaveNoFairTurn(t *testing.T) {
	q := newQueue(t, redistest.Shared(t))
	var ids []string
	for i := range 12 {
		ids = append(ids, fmt.Sprintf("%02d", i))
		enqueue(t, q, fmt.Sprint(i%4), ids[i])
	}
	enqueue(t, q, "fifth", "last")
	var flying []*queue.Delivery
	var order []string
	for range 13 {
		if len(flying) == 4 {
			require.NoError(t, flying[0].Ack(t.Context()))
			flying = flying[1:]
		}
		got, err := q.TryReceive(t.Context(), 1)
		require.NoError(t, err)
		require.Len(t, got, 1)
		order, flying = append(order, got[0].ID), append(flying, got[0])
	}
	require.Equal(t, append(ids, "last"), order)
}
