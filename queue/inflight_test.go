package queue_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// Never more tasks are in flight than the limit says, over all workers, and
// these are as many nine tenths of the time: a task begins soon after the end
// of another.
func TestMaxInFlight(t *testing.T) {
	s := redistest.Start(t)
	const limit, tasks, takes = 3, 30, 100 * time.Millisecond
	var running, begun, ended, done atomic.Int64
	var begins, ends [tasks]time.Time
	work := func(context.Context, *queue.Delivery) error {
		begins[begun.Add(1)-1] = time.Now()
		if n := running.Add(1); n > limit {
			t.Errorf("%d are in flight", n)
		}
		time.Sleep(takes)
		running.Add(-1)
		ends[ended.Add(1)-1] = time.Now()
		done.Add(1)
		return nil
	}
	producer := newQueue(t, s)
	var stops []func() error
	for range 4 {
		stops = append(stops, processing(t, newQueue(t, s, queue.WithMaxInFlight(limit)), work))
	}
	eventually(t, producer, "all wait", func(s queue.Stats) bool { return s.Idle == len(stops) })
	clock := testkit.NewStopwatch(t)
	require.NoError(t, put(t.Context(), producer, make([]queue.Task, tasks)...))
	testkit.Eventually(t, testkit.Patience, func() bool { return done.Load() == tasks }, "all are done")
	var unused []time.Duration
	for i := limit; i < tasks; i++ {
		unused = append(unused, begins[i].Sub(ends[i-limit]))
	}
	slices.Sort(unused)
	clock.Check(unused[len(unused)/2], takes/9, "the median time until the next task begins")
	for _, stop := range stops {
		require.NoError(t, stop())
	}
}

// The tasks of a crashed worker count until their leases end. Then others begin
// them, in their order.
func TestMaxInFlightAfterACrash(t *testing.T) {
	s := redistest.Start(t)
	const lease = time.Second
	limited := []queue.Option{queue.WithMaxInFlight(2), queue.WithLease(lease)}
	c := newClient(t, s)
	crashes, q := queueOf(t, c, limited...), newQueue(t, s, limited...)
	other := newQueue(t, s, limited...) // one client begins one task at a time that was interrupted
	enqueue(t, q, "", "1", "2", "3")
	receiveAll(t, crashes, "1", "2")
	none(t, q)
	require.NoError(t, c.Close())
	clock := testkit.NewStopwatch(t)
	first := receive(t, q, "1")
	second := receive(t, other, "2")
	clock.Within(lease+lease/2, "the leases have ended")
	none(t, q)
	require.Equal(t, 1, first.Attempt)
	require.NoError(t, second.Ack(t.Context()))
	third := receive(t, q, "3")
	require.NoError(t, first.Ack(t.Context()))
	require.NoError(t, third.Ack(t.Context()))
}

// A receiver that waits for the limit is notified as soon as a task has ended.
func TestMaxInFlightWakes(t *testing.T) {
	s := redistest.Start(t)
	one := queue.WithMaxInFlight(1)
	queues := []*queue.Queue{newQueue(t, s, one), newQueue(t, s, one)}
	const tasks = 20
	for i := range tasks {
		enqueue(t, queues[0], "", fmt.Sprint(i))
	}
	d := receive(t, queues[0], "0")
	for i := 1; i < tasks; i++ {
		next := queues[i%2]
		got := make(chan *queue.Delivery, 1)
		result := testkit.Async(t, func() error {
			all, err := next.Receive(t.Context(), 1)
			if err == nil {
				got <- all[0]
			}
			return err
		})
		eventually(t, next, "it waits", func(s queue.Stats) bool { return s.Idle == 1 })
		clock := testkit.NewStopwatch(t)
		require.NoError(t, d.Ack(t.Context()))
		require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
		clock.Within(100*time.Millisecond, "it was notified")
		d = <-got
		require.Equal(t, fmt.Sprint(i), d.ID)
	}
	require.NoError(t, d.Ack(t.Context()))
}
