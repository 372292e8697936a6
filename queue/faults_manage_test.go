package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/queue"
)

// A task is removed once, or the error is one that may pass.
func TestFaultsOfRemove(t *testing.T) {
	each(t, func(c *faultCell) {
		enqueue(c, c.other, "k", "a", "behind")
		c.meets(script.TaskRemove)
		err := c.q.Remove(c.Context(), "a")
		c.temporary(err)
		if err != nil {
			if err = c.other.Remove(c.Context(), "a"); err != nil {
				require.ErrorIs(c, err, queue.ErrNotFound)
			}
		}
		d := receive(c, c.other, "behind")
		c.late()
		require.NoError(c, d.Ack(c.Context()))
		none(c, c.other)
	})
}

// What is read is right, or an error that may pass.
func TestFaultsOfReads(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]*script.TaskScript{"stats": script.TaskStats, "dead letters": script.TaskDead} {
		t.Run(name, func(t *testing.T) {
			each(t, func(c *faultCell) {
				enqueue(c, c.other, "k", "a", "behind")
				require.NoError(c, receive(c, c.other, "a").DeadLetter(c.Context(), errors.New("why")))
				c.meets(one)
				stats, err := c.q.Stats(c.Context())
				if c.temporary(err); err == nil {
					stats.Oldest = 0
					require.Equal(c, queue.Stats{Ready: 1, Dead: 1}, stats)
				}
				for letter, err := range c.q.DeadLetters(c.Context()) {
					if c.temporary(err); err == nil {
						require.Equal(c, "a: why", letter.ID+": "+letter.Reason)
					}
				}
				c.late()
				require.NoError(c, receive(c, c.other, "behind").Ack(c.Context()))
			})
		})
	}
}

// A dead letter is queued once, by its ID or by its time.
func TestFaultsOfRequeue(t *testing.T) {
	testFaultsOfRequeue(t, script.TaskRequeue,
		func(q *queue.Queue, ctx context.Context) (int, error) { return q.Requeue(ctx, "a") })
}

func TestFaultsOfRequeueDied(t *testing.T) {
	testFaultsOfRequeue(t, script.TaskRequeueDied, func(q *queue.Queue, ctx context.Context) (int, error) {
		return q.RequeueDied(ctx, time.Time{}, time.Time{})
	})
}

func testFaultsOfRequeue(t *testing.T, s *script.TaskScript, requeue func(*queue.Queue, context.Context) (int, error)) {
	each(t, func(c *faultCell) {
		enqueue(c, c.other, "k", "a")
		require.NoError(c, receive(c, c.other, "a").DeadLetter(c.Context(), nil))
		c.meets(s)
		_, err := requeue(c.q, c.Context())
		c.temporary(err)
		if err != nil {
			_, err = requeue(c.other, c.Context())
			require.NoError(c, err)
		}
		d := receive(c, c.other, "a")
		c.late()
		none(c, c.other)
		require.NoError(c, d.Ack(c.Context()))
	})
}
