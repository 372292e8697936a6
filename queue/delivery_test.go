package queue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// requireBetween checks a time of the server, whose clock counts otherwise.
func requireBetween(t testing.TB, from, to, at time.Time) {
	t.Helper()
	require.WithinRange(t, at, from.Add(-time.Second), to.Add(time.Second))
}

// The figures of a client about its locks leave out deliveries: alerts about
// old holds and lost locks would come from tasks that take long.
func TestDeliveriesAreNoLocks(t *testing.T) {
	s := redistest.Shared(t)
	c := newClient(t, s)
	q := queueOf(t, c)
	enqueue(t, q, "", "a")
	d := receive(t, q, "a")
	require.Zero(t, c.Stats().Held)
	require.Zero(t, c.Stats().OldestHold)
	require.NoError(t, relock.NewRedisLock(t.Name(), c).Do(t.Context(), func(context.Context) error {
		require.Equal(t, 1, c.Stats().Held)
		return nil
	}))
	s.Do(t, "FLUSHALL")
	require.ErrorIs(t, d.Ack(t.Context()), relock.ErrLockLost)
	require.Zero(t, c.Stats().Losses)
}

// A task arrives as it was enqueued.
func TestTaskArrives(t *testing.T) {
	s := redistest.Shared(t)
	q, other := newQueue(t, s), newQueue(t, s)
	task := queue.Task{
		ID: "a:b c", Key: "key {1}", Payload: []byte("\x00\xff"), Header: map[string]string{"trace": "1", "": ""},
		Delay: 2 * time.Millisecond, MaxAttempts: 300,
	}
	before := time.Now()
	require.NoError(t, put(t.Context(), q, task))
	after := time.Now()
	d := receive(t, other, "a:b c")
	require.Equal(t, task, d.Task)
	require.Equal(t, 1, d.Attempt)
	requireBetween(t, before, after, d.EnqueuedAt)
	require.NoError(t, d.Err())
	require.NoError(t, d.Context().Err())
	require.NoError(t, d.Ack(t.Context()))
	require.ErrorIs(t, context.Cause(d.Context()), relock.ErrNotHeld)
	require.ErrorIs(t, d.Err(), relock.ErrNotHeld)
	require.ErrorIs(t, d.Ack(t.Context()), relock.ErrNotHeld)

	ids, err := q.Enqueue(t.Context(), queue.Task{})
	require.NoError(t, err)
	got, err := q.TryReceive(t.Context(), 5)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, ids, []string{got[0].ID})
	require.NotEmpty(t, got[0].ID)
	require.Empty(t, got[0].Payload)
	require.Greater(t, got[0].Fence(), d.Fence())
	require.NoError(t, got[0].Ack(t.Context()))
	none(t, q)
}

// Each way to settle has its effect.
func TestSettles(t *testing.T) {
	q := newQueue(t, redistest.Shared(t))
	enqueue(t, q, "", "a")
	d := receive(t, q, "a")
	require.NoError(t, d.Release(t.Context()))
	d = receive(t, q, "a")
	require.Equal(t, 1, d.Attempt, "uncounted")
	require.NoError(t, d.Nack(t.Context(), time.Millisecond, errors.New("why")))
	d = receive(t, q, "a")
	require.Equal(t, 2, d.Attempt)
	require.NoError(t, d.Nack(t.Context(), -time.Hour, nil), "due in the past is due now")
	d = receive(t, q, "a")
	require.Equal(t, 3, d.Attempt)
	require.ErrorIs(t, d.Nack(t.Context(), 20*365*24*time.Hour, nil), relock.ErrInvalid, "which settles nothing")
	before := time.Now()
	require.NoError(t, d.DeadLetter(t.Context(), errors.New(strings.Repeat("x", 2000))))
	none(t, q)
	var letters []queue.DeadTask
	for letter, err := range q.DeadLetters(t.Context()) {
		require.NoError(t, err)
		letters = append(letters, letter)
	}
	require.Len(t, letters, 1)
	require.Equal(t, "a", letters[0].ID)
	require.Equal(t, 3, letters[0].Attempts)
	require.Equal(t, strings.Repeat("x", 1024), letters[0].Reason)
	requireBetween(t, before, time.Now(), letters[0].DiedAt)

	n, err := q.Requeue(t.Context(), "a", "none")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	d = receive(t, q, "a")
	require.Equal(t, 1, d.Attempt)
	require.NoError(t, d.Ack(t.Context()))
}

// What ends without a pause lets others run first, but keeps its place before
// the others of its key.
func TestRetriesGoBehindWhatIsDue(t *testing.T) {
	for name, settle := range map[string]func(*queue.Delivery) error{
		"Nack":    func(d *queue.Delivery) error { return d.Nack(t.Context(), 0, nil) },
		"Release": func(d *queue.Delivery) error { return d.Release(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, redistest.Shared(t))
			enqueue(t, q, "k", "1", "2")
			enqueue(t, q, "", "a", "b")
			for _, id := range []string{"1", "a", "b", "1", "a", "b"} {
				require.NoError(t, settle(receive(t, q, id)))
			}
			for _, id := range []string{"1", "2", "a", "b"} {
				require.NoError(t, receive(t, q, id).Ack(t.Context()))
			}
		})
	}
}

// Tasks that fail again and again, without a back-off, leave workers to others.
func TestFailingTasksLetOthersRun(t *testing.T) {
	q := newQueue(t, redistest.Shared(t),
		queue.WithBackoff(func(int, error) time.Duration { return 0 }), queue.WithMaxAttempts(1_000_000))
	done := make(chan struct{})
	enqueue(t, q, "", "1", "2", "3", "4", "good")
	stop := processing(t, q, func(_ context.Context, d *queue.Delivery) error {
		if d.ID == "good" {
			close(done)
			return nil
		}
		return errors.New("fails")
	}, queue.WithWorkers(4))
	testkit.Next(t, done)
	require.NoError(t, stop())
}

// A record that others have damaged becomes a dead letter. It stops no other
// task, and hides no other dead letter.
func TestDamagedRecords(t *testing.T) {
	s := redistest.Shared(t)
	var received, finished []string
	q := newQueue(t, s, queue.WithObserver(queue.Observer{
		Received: func(_ context.Context, e queue.Received) { received = append(received, e.ID) },
	}), queue.WithObserver(queue.Observer{ // adds to the first one
		Finished: func(_ context.Context, e queue.Finished) { finished = append(finished, e.ID) },
	}))
	damaged := map[string]string{
		"body":   "noncenon" + "1700000000000000" + "000000" + "\xff\xff\xff",
		"length": "noncenon" + "1700000000000000" + "k",
		"before": "noncenon" + "1700000000000000" + "xyz000" + "\x00\x00",
		"short":  "x",
		"ticket": "noncenon" + "17000000000000xx" + "000000" + "\x00\x00",
	}
	records := "relock:queue:{" + t.Name() + "}:p"
	for id, record := range damaged {
		enqueue(t, q, "", id)
		s.Do(t, "HSET", records, id, record)
	}
	before := time.Now()
	enqueue(t, q, "", "good", "fails")
	require.NoError(t, receive(t, q, "good").Ack(t.Context()))
	require.NoError(t, receive(t, q, "fails").DeadLetter(t.Context(), errors.New("why")))
	letters := map[string]queue.DeadTask{}
	for letter, err := range q.DeadLetters(t.Context()) {
		require.NoError(t, err)
		letters[letter.ID] = letter
	}
	require.Len(t, letters, len(damaged)+1)
	require.Equal(t, "why", letters["fails"].Reason)
	for id, record := range damaged {
		letter := letters[id]
		require.Equal(t, queue.Task{ID: id, Payload: []byte(record)}, letter.Task)
		require.Equal(t, "the record of a task cannot be read", letter.Reason)
		require.Equal(t, 1, letter.Attempts)
		requireBetween(t, before, time.Now(), letter.DiedAt)
		require.NoError(t, q.Remove(t.Context(), id))
	}
	require.ElementsMatch(t, received, finished)
	require.Len(t, received, len(damaged)+2)
}

// One task of a key is in flight, and they come in order, retries included.
func TestKeyInOrder(t *testing.T) {
	s := redistest.Shared(t)
	q := newQueue(t, s)
	enqueue(t, q, "k", "1", "2", "3")
	enqueue(t, q, "other", "x")
	got, err := q.Receive(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, "1", got[0].ID)
	require.NoError(t, got[0].Nack(t.Context(), time.Hour, nil))
	none(t, q)
	end(t, s, "d", "1")
	require.NoError(t, receive(t, q, "1").Ack(t.Context()))
	require.NoError(t, receive(t, q, "2").Ack(t.Context()))
	require.NoError(t, receive(t, q, "3").Ack(t.Context()))
	require.NoError(t, got[1].Ack(t.Context()))
	none(t, q)
}

// A delivery is renewed for as long as it is not settled.
func TestLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const lease = 3 * time.Second
	q := newQueue(t, s, queue.WithLease(lease))
	enqueue(t, q, "", "a")
	d := receive(t, q, "a")
	time.Sleep(lease + lease/6) // the behaviour that is claimed takes time
	require.NoError(t, d.Err())
	none(t, newQueue(t, s))
	require.NoError(t, d.Ack(t.Context()))
}

// A delivery that could not be renewed is lost, before others get the task.
// Settling it has no effect.
func TestLostDelivery(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	q := newQueue(t, s, queue.WithLease(time.Second))
	enqueue(t, q, "", "b")
	d := receive(t, q, "b")
	ctx := d.Context()
	s.Pause(t)
	err := testkit.EndedWithin(t, ctx, testkit.Patience)
	require.ErrorIs(t, err, relock.ErrLockLost)
	require.ErrorIs(t, d.Err(), relock.ErrLockLost)
	s.Resume(t)
	err = d.Ack(t.Context())
	require.ErrorIs(t, err, relock.ErrLockLost)
	require.ErrorIs(t, err, relock.ErrNotHeld)
	again := receive(t, newQueue(t, s), "b")
	require.Equal(t, d.Attempt, again.Attempt, "an interruption is no attempt")
	require.Greater(t, again.Fence(), d.Fence())
	require.NoError(t, again.Ack(t.Context()))
}

// A receiver that waits is notified, and learns of what is delayed.
func TestReceiveWaits(t *testing.T) {
	s := redistest.Shared(t)
	q, producer := newQueue(t, s), newQueue(t, s)
	result := testkit.Async(t, func() error {
		got, err := q.Receive(t.Context(), 1)
		if err == nil {
			err = got[0].Ack(t.Context())
		}
		return err
	})
	testkit.Eventually(t, testkit.Patience, func() bool {
		stats, err := producer.Stats(t.Context())
		return err == nil && stats.Idle == 1
	}, "it waits")
	enqueue(t, producer, "", "a")
	require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))

	start := time.Now()
	require.NoError(t, put(t.Context(), producer, queue.Task{ID: "late", Delay: 200 * time.Millisecond}))
	d := receive(t, q, "late")
	require.GreaterOrEqual(t, time.Since(start), 200*time.Millisecond)
	require.NoError(t, d.Ack(t.Context()))
}

// A caller that leaves is no longer idle, and takes nothing.
func TestReceiveLeaves(t *testing.T) {
	s := redistest.Shared(t)
	q, producer := newQueue(t, s), newQueue(t, s)
	idle := func(n int64) { // Stats leaves out those that have not asked for long
		t.Helper()
		testkit.Eventually(t, testkit.Patience,
			func() bool { return s.Do(t, "ZCARD", "relock:queue:{"+t.Name()+"}:i") == n }, "idle receivers")
	}
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		result := testkit.Async(t, func() error {
			_, err := q.Receive(ctx, 1)
			return err
		})
		idle(1)
		cancel()
		require.ErrorIs(t, testkit.ResultWithin(t, result, testkit.Patience), context.Canceled)
		idle(0)
	}
	enqueue(t, producer, "", "a")
	require.NoError(t, receive(t, producer, "a").Ack(t.Context()))
}

func TestRemove(t *testing.T) {
	q := newQueue(t, redistest.Shared(t))
	enqueue(t, q, "k", "1", "2")
	d := receive(t, q, "1")
	require.ErrorIs(t, q.Remove(t.Context(), "1"), queue.ErrInFlight)
	require.NoError(t, q.Remove(t.Context(), "2"))
	require.ErrorIs(t, q.Remove(t.Context(), "2"), queue.ErrNotFound)
	require.ErrorIs(t, q.Remove(t.Context(), ""), relock.ErrInvalid)
	require.NoError(t, d.Ack(t.Context()))
}

func TestStats(t *testing.T) {
	q := newQueue(t, redistest.Shared(t))
	enqueue(t, q, "", "a", "b", "c")
	require.NoError(t, put(t.Context(), q, queue.Task{Delay: time.Hour}))
	enqueue(t, q, "k", "1", "2", "3")
	got, err := q.TryReceive(t.Context(), 2)
	require.NoError(t, err)
	require.NoError(t, got[0].DeadLetter(t.Context(), nil))
	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Positive(t, stats.Oldest)
	stats.Oldest = 0
	require.Equal(t, queue.Stats{Ready: 2, Delayed: 1, InFlight: 1, Behind: 2, Dead: 1}, stats)
	require.NoError(t, got[1].Release(t.Context()))
}

// Callers of one queue share its receiver. One that takes all it wanted, or
// does not wait, leaves no other asleep beside a task.
func TestReceiversTogether(t *testing.T) {
	s := redistest.Shared(t)
	q, producer := newQueue(t, s), newQueue(t, s)
	waiting := testkit.Async(t, func() error {
		got, err := q.Receive(t.Context(), 5)
		if err == nil {
			err = got[0].Ack(t.Context())
		}
		return err
	})
	eventually(t, producer, "one waits", func(s queue.Stats) bool { return s.Idle == 1 })
	for range 20 {
		none(t, q)
	}
	eventually(t, producer, "it still waits", func(s queue.Stats) bool { return s.Idle == 1 })
	enqueue(t, producer, "", "a")
	require.NoError(t, testkit.ResultWithin(t, waiting, testkit.Patience))

	const callers, tasks = 8, 200
	results := make(chan error, callers)
	ctx, cancel := context.WithCancel(t.Context())
	for range callers {
		go func() {
			for {
				got, err := q.Receive(ctx, 1)
				if err != nil {
					results <- err
					return
				}
				if err = got[0].Ack(ctx); err != nil {
					results <- err
					return
				}
			}
		}()
	}
	for range tasks {
		require.NoError(t, put(t.Context(), producer, queue.Task{}))
	}
	eventually(t, producer, "all are done", isEmpty)
	cancel()
	for range callers {
		require.ErrorIs(t, <-results, context.Canceled)
	}
}
