package relocktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/queue"
)

// soon is a lease whose loss a renewal finds soon.
const soon = 2 * time.Second

// A lost delivery settles nothing. It was interrupted, which is no attempt, and
// the last interruption makes the task a dead letter. Its key goes on then.
func TestQueueInterruptions(t *testing.T) {
	onBoth(t, func(q either) {
		q.put(queue.Task{ID: "1", Key: "k"}, queue.Task{ID: "2", Key: "k"}, queue.Task{ID: "free"})
		d := q.next("1")
		require.Zero(q, d.Interruptions)
		q.lose(d)
		require.ErrorIs(q, d.Err(), relock.ErrLockLost)
		require.ErrorIs(q, d.Ack(q.Context()), relock.ErrLockLost)

		again := q.next("1") // at its old place, before the free one
		require.Equal(q, []int{1, 1}, []int{again.Attempt, again.Interruptions})
		require.Greater(q, again.Fence(), d.Fence())
		require.Equal(q, 1, q.get("1").Interruptions)
		require.NoError(q, again.Nack(q.Context(), 0, errors.New("no route")))
		require.NoError(q, q.next("free").Ack(q.Context()))
		again = q.next("1")
		require.Equal(q, []int{2, 1}, []int{again.Attempt, again.Interruptions})

		q.lose(again)
		again = q.next("1")
		require.Equal(q, []int{2, 2}, []int{again.Attempt, again.Interruptions})
		require.Equal(q, "no route", q.get("1").LastError)
		q.lose(again)
		require.NoError(q, q.next("2").Ack(q.Context()))
		dead := q.dead()
		require.Len(q, dead, 1)
		require.Equal(q, []int{1, 3}, []int{dead[0].Attempts, dead[0].Interruptions})
		require.Equal(q, "interrupted 3 times: its worker was gone", dead[0].Reason)
		require.Equal(q, 3, q.get("1").Interruptions)

		_, err := q.Requeue(q.Context(), "1")
		require.NoError(q, err)
		again = q.next("1")
		require.Equal(q, []int{1, 0}, []int{again.Attempt, again.Interruptions})
		require.NoError(q, again.Ack(q.Context()))
	}, queue.WithLease(soon), queue.WithMaxInterruptions(3), queue.WithMaxAttempts(2))
}

// Tasks that were interrupted run one at a time, beside others, until one has
// ended or run for a lease.
func TestQueueInterruptedOneAtATime(t *testing.T) {
	onBoth(t, func(q either) {
		q.put(queue.Task{ID: "1"}, queue.Task{ID: "2"}, queue.Task{ID: "3"})
		for _, d := range []*queue.Delivery{q.next("1"), q.next("2"), q.next("3")} {
			q.lose(d)
		}
		one := q.next("1")
		began := time.Now()
		q.put(queue.Task{ID: "other"})
		require.NoError(q, q.next("other").Ack(q.Context()))
		q.none()
		two := q.next("2")
		require.GreaterOrEqual(q, time.Since(began), soon*9/10)
		q.none()
		require.NoError(q, two.Ack(q.Context()))
		require.NoError(q, q.next("3").Ack(q.Context()))
		require.NoError(q, one.Ack(q.Context()))
	}, queue.WithLease(soon))
}

// A function that takes its process with it ends as a dead letter, after its
// neighbours.
func TestQueuePoison(t *testing.T) {
	onBoth(t, func(q either) {
		q.put(queue.Task{ID: "poison"}, queue.Task{ID: "honest"})
		var runs []string
		q.runDue(func(ctx context.Context, d *queue.Delivery) error {
			runs = append(runs, d.ID)
			if d.ID == "poison" {
				q.lose(d)
			}
			return ctx.Err()
		})
		require.Equal(q, []string{"poison", "poison", "honest"}, runs)
		require.Len(q, q.dead(), 1)
		require.Zero(q, q.dead()[0].Attempts)
	}, queue.WithLease(soon), queue.WithMaxInterruptions(2))
}
