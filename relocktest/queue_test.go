package relocktest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// tasks is what both queues have.
type tasks interface {
	Enqueue(ctx context.Context, tasks ...queue.Task) ([]string, error)
	TryReceive(ctx context.Context, n int) ([]*queue.Delivery, error)
	Remove(ctx context.Context, id string) error
	Stats(ctx context.Context) (queue.Stats, error)
	DeadLetters(ctx context.Context) iter.Seq2[queue.DeadTask, error]
	Requeue(ctx context.Context, ids ...string) (int, error)
	RequeueDied(ctx context.Context, from, until time.Time) (int, error)
	Get(ctx context.Context, id string) (queue.TaskInfo, error)
	Tasks(ctx context.Context, state queue.State) iter.Seq2[queue.TaskInfo, error]
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	PauseKey(ctx context.Context, key string) error
	ResumeKey(ctx context.Context, key string) error
	PausedKeys(ctx context.Context) iter.Seq2[queue.PausedKey, error]
}

// either is one of the queues under test. runDue handles what is due. lose ends
// the lease of a delivery as if its process were gone, and returns once the
// delivery has found that.
type either struct {
	*testing.T
	tasks
	runDue func(fn func(context.Context, *queue.Delivery) error)
	lose   func(d *queue.Delivery)
}

// onBoth runs a test on the double, in virtual time, and on a real queue.
func onBoth(t *testing.T, f func(q either), opts ...queue.Option) {
	t.Parallel()
	t.Run("double", func(t *testing.T) {
		testkit.Bubble(t, func(t *testing.T) {
			q := NewQueue("tasks", opts...)
			f(either{
				t, q, func(fn func(context.Context, *queue.Delivery) error) { q.RunDue(t.Context(), fn) },
				func(d *queue.Delivery) { require.True(t, q.Lose(d.ID)) },
			})
		})
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		client, err := relock.NewClient(server.Network, server.Address, "")
		require.NoError(t, err)
		defer func() { require.NoError(t, client.Close()) }()
		q, err := queue.New("tasks", client, opts...)
		require.NoError(t, err)
		f(either{
			t, q, func(fn func(context.Context, *queue.Delivery) error) { processDue(t, q, fn) },
			func(d *queue.Delivery) { endLease(t, server, d) },
		})
	})
}

// endLease ends the lease of a delivery at a real server, and waits until its
// renewal finds that. Without INFO the end counts, though the server has just
// started.
func endLease(t *testing.T, s *redistest.Server, d *queue.Delivery) {
	s.Do(t, "ACL", "SETUSER", "default", "-info")
	s.Do(t, "ZADD", "relock:queue:{tasks}:l", "XX", 1, d.ID)
	testkit.Eventually(t, testkit.Patience, func() bool { return d.Err() != nil }, "the delivery is not lost")
}

// processDue processes until nothing is queued.
func processDue(t *testing.T, q *queue.Queue, fn func(context.Context, *queue.Delivery) error) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- q.Process(ctx, fn, queue.WithWorkers(1)) }()
	testkit.Eventually(t, testkit.Patience, func() bool {
		s, err := q.Stats(t.Context())
		return err == nil && s.Ready+s.Delayed+s.InFlight+s.Behind == 0
	}, "all are done")
	stop()
	require.NoError(t, <-ended)
}

func (q either) put(all ...queue.Task) {
	q.Helper()
	_, err := q.Enqueue(q.Context(), all...)
	require.NoError(q, err)
}

// next receives the task that is due, which must have this ID. The last one in
// flight is "" if none may be due.
func (q either) next(id string) (d *queue.Delivery) {
	q.Helper()
	testkit.Eventually(q, testkit.Patience, func() bool {
		got, err := q.TryReceive(q.Context(), 1)
		require.NoError(q, err)
		if len(got) == 1 {
			d = got[0]
		}
		return d != nil
	}, "a task is due")
	require.Equal(q, id, d.ID)
	return d
}

func (q either) none() {
	q.Helper()
	got, err := q.TryReceive(q.Context(), 10)
	require.NoError(q, err)
	require.Empty(q, got)
}

func (q either) dead() (all []queue.DeadTask) {
	q.Helper()
	for t, err := range q.DeadLetters(q.Context()) {
		require.NoError(q, err)
		all = append(all, t)
	}
	return all
}

func TestQueueDelivers(t *testing.T) {
	onBoth(t, func(q either) {
		ids, err := q.Enqueue(q.Context(),
			queue.Task{ID: "1", Payload: []byte("work"), Header: map[string]string{"trace": "7"}}, queue.Task{})
		require.NoError(q, err)
		require.NotEmpty(q, ids[1])
		d := q.next("1")
		require.Equal(q, "work", string(d.Payload))
		require.Equal(q, "7", d.Header["trace"])
		require.Equal(q, 1, d.Attempt)
		require.NoError(q, d.Err())
		ctx := d.Context()
		require.NoError(q, ctx.Err())
		require.NoError(q, d.Ack(q.Context()))
		require.ErrorIs(q, context.Cause(ctx), relock.ErrNotHeld)
		require.ErrorIs(q, d.Err(), relock.ErrNotHeld)
		require.ErrorIs(q, d.Ack(q.Context()), relock.ErrNotHeld)
		second := q.next(ids[1])
		require.Greater(q, second.Fence(), d.Fence())
		require.NoError(q, second.Ack(q.Context()))
		q.none()
	})
}

func TestQueueKeysInOrder(t *testing.T) {
	onBoth(t, func(q either) {
		q.put(queue.Task{ID: "a1", Key: "a"}, queue.Task{ID: "a2", Key: "a"}, queue.Task{ID: "b1", Key: "b"})
		a1 := q.next("a1")
		b1 := q.next("b1")
		q.none()
		s, err := q.Stats(q.Context())
		require.NoError(q, err)
		require.Equal(q, queue.Stats{InFlight: 2, Behind: 1}, s)
		require.NoError(q, a1.Nack(q.Context(), time.Hour, nil))
		q.none() // the retry blocks the key
		require.NoError(q, b1.Ack(q.Context()))
		require.NoError(q, q.Remove(q.Context(), "a1"))
		require.NoError(q, q.next("a2").Ack(q.Context()))
	})
}

func TestQueueRetries(t *testing.T) {
	onBoth(t, func(q either) {
		q.put(queue.Task{ID: "1"}, queue.Task{ID: "2"})
		require.NoError(q, q.next("1").Nack(q.Context(), 0, nil))
		require.NoError(q, q.next("2").Release(q.Context()))
		again := q.next("1")
		require.Equal(q, 2, again.Attempt)
		released := q.next("2")
		require.Equal(q, 1, released.Attempt)
		require.NoError(q, errors.Join(again.Ack(q.Context()), released.Nack(q.Context(), 20*time.Millisecond, nil)))
		require.NoError(q, q.next("2").Ack(q.Context()))
	})
}

func TestQueueDelays(t *testing.T) {
	onBoth(t, func(q either) {
		q.put(queue.Task{ID: "later", Delay: time.Hour}, queue.Task{ID: "soon", Delay: 20 * time.Millisecond})
		require.NoError(q, q.next("soon").Ack(q.Context()))
		q.none()
		s, err := q.Stats(q.Context())
		require.NoError(q, err)
		require.Equal(q, queue.Stats{Delayed: 1}, s)
	})
}

func TestQueueAt(t *testing.T) {
	onBoth(t, func(q either) {
		start := time.Now()
		q.put(
			queue.Task{ID: "past", At: start.Add(-time.Hour)}, queue.Task{ID: "soon", At: start.Add(20 * time.Millisecond)},
			queue.Task{ID: "later", At: start.Add(time.Hour)})
		require.NoError(q, q.next("past").Ack(q.Context()))
		d := q.next("soon")
		require.GreaterOrEqual(q, time.Since(start), 20*time.Millisecond)
		require.Zero(q, d.At)
		require.InDelta(q, 20*time.Millisecond, d.Delay, float64(20*time.Millisecond))
		require.NoError(q, d.Ack(q.Context()))
		_, err := q.Enqueue(q.Context(), queue.Task{At: start, Delay: 1}, queue.Task{At: start.AddDate(11, 0, 0)},
			queue.Task{MaxAttempts: -1})
		require.ErrorIs(q, err, relock.ErrInvalid)
		for _, what := range []string{"At: Delay is set, too", "is more than", "MaxAttempts: -1 is not 0 to 1000000"} {
			require.ErrorContains(q, err, what)
		}
		s, err := q.Stats(q.Context())
		require.NoError(q, err)
		require.Equal(q, queue.Stats{Delayed: 1}, s)
	})
}

func TestQueueMaxAttempts(t *testing.T) {
	onBoth(t, func(q either) {
		q.put(queue.Task{ID: "queue's"}, queue.Task{ID: "own", MaxAttempts: 1}, queue.Task{ID: "more", MaxAttempts: 4})
		for range 4 { // the double runs what is due
			q.runDue(func(_ context.Context, d *queue.Delivery) error { return errors.New("fails") })
		}
		attempts := map[string]int{}
		for _, letter := range q.dead() {
			attempts[letter.ID] = letter.Attempts
			if letter.ID == "own" {
				require.Equal(q, 1, letter.MaxAttempts)
			}
		}
		require.Equal(q, map[string]int{"queue's": 2, "own": 1, "more": 4}, attempts)
	}, queue.WithMaxAttempts(2), queue.WithBackoff(func(int, error) time.Duration { return 0 }))
}

func TestQueueIDs(t *testing.T) {
	onBoth(t, func(q either) {
		q.put(queue.Task{ID: "1"})
		_, err := q.Enqueue(q.Context(), queue.Task{ID: "1"}, queue.Task{ID: "2"}, queue.Task{ID: "3", Delay: -1})
		require.ErrorIs(q, err, queue.ErrDuplicate)
		require.ErrorIs(q, err, relock.ErrInvalid)
		var e *queue.EnqueueError
		require.ErrorAs(q, err, &e)
		require.Equal(q, []string{"1"}, e.Duplicates)
		require.Equal(q, []string{"2"}, e.Queued)
		d := q.next("1")
		require.ErrorIs(q, q.Remove(q.Context(), "1"), queue.ErrInFlight)
		require.NoError(q, d.Ack(q.Context()))
		_, err = q.Enqueue(q.Context(), queue.Task{ID: "1"})
		require.ErrorIs(q, err, queue.ErrDuplicate, "within the window")
		require.ErrorIs(q, q.Remove(q.Context(), "1"), queue.ErrNotFound)
		require.NoError(q, q.Remove(q.Context(), "2"))
		q.none()
	}, queue.WithUnique(time.Hour))
}

func TestQueueDeadLetters(t *testing.T) {
	onBoth(t, func(q either) {
		q.put(queue.Task{ID: "1", Key: "a", Payload: []byte("work")}, queue.Task{ID: "2", Key: "a"})
		require.NoError(q, q.next("1").DeadLetter(q.Context(), errors.New("no such account")))
		dead := q.dead()
		require.Len(q, dead, 1)
		require.Equal(q, "no such account", dead[0].Reason)
		require.Equal(q, "work", string(dead[0].Payload))
		require.Equal(q, 1, dead[0].Attempts)
		_, err := q.Enqueue(q.Context(), queue.Task{ID: "1"})
		require.ErrorIs(q, err, queue.ErrDuplicate)
		n, err := q.Requeue(q.Context(), "1", "unknown")
		require.NoError(q, err)
		require.Equal(q, 1, n)
		require.Empty(q, q.dead())
		require.NoError(q, q.next("2").Ack(q.Context()))
		again := q.next("1")
		require.Equal(q, 1, again.Attempt)
		require.NoError(q, again.Ack(q.Context()))
	})
}

func TestQueueMaxInFlight(t *testing.T) {
	onBoth(t, func(q either) {
		q.put(queue.Task{ID: "1"}, queue.Task{ID: "2"})
		one := q.next("1")
		q.none()
		require.NoError(q, one.Ack(q.Context()))
		require.NoError(q, q.next("2").Ack(q.Context()))
	}, queue.WithMaxInFlight(1))
}

// An error is a retry, the last one and Permanent are dead letters, and so is a
// panic in the end.
func TestQueueOutcomes(t *testing.T) {
	onBoth(t, func(q either) {
		q.put(queue.Task{ID: "good"}, queue.Task{ID: "second time"}, queue.Task{ID: "bad"}, queue.Task{ID: "hopeless"},
			queue.Task{ID: "panics"})
		attempts := map[string]int{}
		q.runDue(func(_ context.Context, d *queue.Delivery) error {
			attempts[d.ID]++
			switch {
			case d.ID == "bad", d.ID == "second time" && d.Attempt == 1:
				return errors.New("failed")
			case d.ID == "hopeless":
				return queue.Permanent(errors.New("no use"))
			case d.ID == "panics":
				panic("a mistake")
			}
			return d.Err()
		})
		require.Equal(q, map[string]int{"good": 1, "second time": 2, "bad": 3, "hopeless": 1, "panics": 3}, attempts)
		reasons := map[string]string{}
		for _, d := range q.dead() {
			reasons[d.ID] = d.Reason[:min(len(d.Reason), 6)]
		}
		require.Equal(q, map[string]string{"bad": "failed", "hopeless": "no use", "panics": "panic:"}, reasons)
	}, queue.WithMaxAttempts(3), queue.WithBackoff(func(int, error) time.Duration { return 0 }))
}

// Only what is in flight can be lost, and its contexts are cancelled then.
func TestQueueLose(t *testing.T) {
	t.Parallel()
	testkit.Bubble(t, func(t *testing.T) {
		q := NewQueue("tasks")
		_, err := q.Enqueue(t.Context(), queue.Task{ID: "1"})
		require.NoError(t, err)
		require.False(t, q.Lose("1"))
		var seen []error
		n := q.RunDue(t.Context(), func(ctx context.Context, d *queue.Delivery) error {
			if d.Interruptions == 0 {
				require.True(t, q.Lose("1"))
				seen = append(seen, context.Cause(ctx), d.Err(), d.Ack(ctx))
			}
			return nil
		})
		require.Equal(t, 2, n)
		for _, err := range seen {
			require.ErrorIs(t, err, relock.ErrLockLost)
		}
	})
}

func TestQueueMistakes(t *testing.T) {
	t.Parallel()
	_, err := NewQueue("", queue.WithMaxAttempts(0), nil).Enqueue(t.Context())
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.ErrorContains(t, err, "WithMaxAttempts")
	require.ErrorContains(t, err, "opts[1]")
	q := NewQueue("tasks")
	_, err = q.TryReceive(t.Context(), 0)
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.EqualError(t, q.Remove(t.Context(), "1"), fmt.Sprintf(`relock: remove "tasks": %v: "1"`, queue.ErrNotFound))
}
