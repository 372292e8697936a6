package queue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/queue"
)

// processing runs Process until stop is called, which returns its error.
func processing(t testing.TB, q *queue.Queue, fn func(context.Context, *queue.Delivery) error, opts ...queue.ProcessOption) (stop func() error) {
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
		require.NoError(t, q.Enqueue(t.Context(), tasks...))
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

// What the function returns decides what becomes of the task.
func TestProcessOutcomes(t *testing.T) {
	var log bytes.Buffer
	s := redistest.Shared(t)
	c := newClient(t, s, relock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	var mu sync.Mutex
	var finished []queue.Finished
	q := queueOf(t, c, queue.WithMaxAttempts(2), queue.WithBackoff(func(attempt int, err error) time.Duration {
		return time.Duration(attempt) * 10 * time.Millisecond
	}), queue.WithObserver(queue.Observer{Finished: func(_ context.Context, e queue.Finished) {
		mu.Lock()
		defer mu.Unlock()
		finished = append(finished, e)
	}}))
	attempts := map[string]int{}
	broken := errors.New("broken")
	stop := processing(t, q, func(ctx context.Context, d *queue.Delivery) error {
		mu.Lock()
		attempts[d.ID]++
		mu.Unlock()
		switch d.ID {
		case "fails once":
			if d.Attempt == 1 {
				return broken
			}
		case "fails":
			return broken
		case "permanent":
			return queue.Permanent(broken)
		case "panics":
			panic("at the disco")
		case "settles itself":
			return errors.Join(d.Ack(ctx), broken)
		}
		return nil
	})
	for _, id := range []string{"works", "fails once", "fails", "permanent", "panics", "settles itself"} {
		enqueue(t, q, "", id)
	}
	eventually(t, q, "all have ended", isEmpty)
	require.NoError(t, stop())
	require.Equal(t, map[string]int{"works": 1, "fails once": 2, "fails": 2, "permanent": 1, "panics": 2, "settles itself": 1}, attempts)
	reasons := map[string]string{}
	for letter, err := range q.DeadLetters(t.Context()) {
		require.NoError(t, err)
		reasons[letter.ID] = letter.Reason
	}
	require.Len(t, reasons, 3)
	require.Equal(t, "broken", reasons["fails"])
	require.Equal(t, "broken", reasons["permanent"])
	require.Contains(t, reasons["panics"], "panic: at the disco\n")
	require.Contains(t, reasons["panics"], "process_test.go")
	require.Contains(t, log.String(), "at the disco")
	outcomes := map[string][]queue.Outcome{}
	for _, e := range finished {
		outcomes[e.ID] = append(outcomes[e.ID], e.Outcome)
	}
	require.Equal(t, map[string][]queue.Outcome{
		"works": {queue.Acknowledged}, "fails once": {queue.Failed, queue.Acknowledged}, "fails": {queue.Failed, queue.Dead},
		"permanent": {queue.Dead}, "panics": {queue.Failed, queue.Dead}, "settles itself": {queue.Acknowledged},
	}, outcomes)
	require.NoError(t, queue.Permanent(nil))
	require.ErrorIs(t, queue.Permanent(broken), broken)
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
		_, ok := testkit.Await(began, testkit.Patience)
		require.True(t, ok)
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
	require.Equal(t, 2, d.Attempt)
	close(goOn)
	<-returned
	require.NoError(t, d.Err(), "nothing is sent for the lost delivery")
	require.NoError(t, d.Ack(t.Context()))
}

// A function's context ends with its timeout.
func TestProcessTimeout(t *testing.T) {
	q := newQueue(t, redistest.Shared(t), queue.WithMaxAttempts(1))
	stop := processing(t, q, func(ctx context.Context, _ *queue.Delivery) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}, queue.WithTimeout(20*time.Millisecond))
	enqueue(t, q, "", "slow")
	eventually(t, q, "it has failed", func(s queue.Stats) bool { return s.Dead == 1 })
	require.NoError(t, stop())
	for letter, err := range q.DeadLetters(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, "WithTimeout of 20ms: context deadline exceeded", letter.Reason)
	}
}

// A function that ends its goroutine has failed. Its worker goes on, and its
// lock is free.
func TestProcessGoexit(t *testing.T) {
	c := newClient(t, redistest.Shared(t))
	q := queueOf(t, c, queue.WithMaxAttempts(1))
	locker, err := relock.NewLocker(c)
	require.NoError(t, err)
	name := t.Name() + "lock"
	stop := processing(t, q, func(_ context.Context, d *queue.Delivery) error {
		if d.ID != "last" {
			runtime.Goexit()
		}
		return nil
	}, queue.WithWorkers(1), queue.WithLocker(locker, func(t queue.Task) string { return t.Header["lock"] }))
	require.NoError(t, q.Enqueue(t.Context(), queue.Task{ID: "plain"}, queue.Task{ID: "locked", Header: map[string]string{"lock": name}}, queue.Task{ID: "last"}))
	eventually(t, q, "all have ended", isEmpty)
	hold, err := locker.TryLock(t.Context(), name)
	require.NoError(t, err)
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, stop())
	letters := 0
	for letter, err := range q.DeadLetters(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, "the function has ended its goroutine", letter.Reason)
		letters++
	}
	require.Equal(t, 2, letters)
}

// panicking panics where it can: as a Locker, and as an error.
type panicking struct{ relock.Locker }

func (panicking) TryLock(context.Context, string) (relock.Hold, error) { panic("in the locker") }
func (panicking) Error() string                                        { panic("in the error") }

// A panic beside the function fails the attempt, too.
func TestProcessPanicsBeside(t *testing.T) {
	s := redistest.Shared(t)
	q := newQueue(t, s, queue.WithMaxAttempts(2), queue.WithBackoff(func(int, error) time.Duration { panic("in the back-off") }))
	stop := processing(t, q, func(_ context.Context, d *queue.Delivery) error {
		if d.ID == "error" {
			return queue.Permanent(panicking{})
		}
		return errors.New("fails")
	}, queue.WithLocker(panicking{}, func(t queue.Task) string {
		switch t.ID {
		case "key":
			panic("in the key")
		case "locker":
			return t.ID
		}
		return ""
	}))
	enqueue(t, q, "", "error", "key", "locker")
	eventually(t, q, "they have ended", isEmpty)
	require.NoError(t, stop())
	reasons := map[string]string{}
	for letter, err := range q.DeadLetters(t.Context()) {
		require.NoError(t, err)
		reasons[letter.ID] = letter.Reason
	}
	require.Contains(t, reasons["key"], "panic: in the key\n")
	require.Contains(t, reasons["locker"], "panic: in the locker\n")
	require.Contains(t, reasons["error"], "panic: in the error\n")
}

// Mistakes are returned, and nothing is received.
func TestProcessMistakes(t *testing.T) {
	c := newClient(t, redistest.Shared(t))
	q := queueOf(t, c)
	fn := func(context.Context, *queue.Delivery) error { return nil }
	err := q.Process(t.Context(), nil, nil, queue.WithWorkers(0), queue.WithTimeout(-1), queue.WithGrace(-1), queue.WithLocker(nil, func(queue.Task) string { return "" }))
	require.ErrorIs(t, err, relock.ErrInvalid)
	for _, what := range []string{"fn:", "opts[0]", "WithWorkers", "WithTimeout", "WithGrace", "WithLocker"} {
		require.ErrorContains(t, err, what)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, q.Process(ended, fn), context.Canceled)
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
		return q.Enqueue(t.Context(), queue.Task{ID: "b"}) == nil
	}, "the server is back")
	eventually(t, q, "it goes on", isEmpty)
	require.NoError(t, stop())
	require.Equal(t, int64(2), done.Load())
}
