package relocktest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/queue"
)

// looks is what an operator's code reads of a queue.
type looks interface {
	Get(ctx context.Context, id string) (queue.TaskInfo, error)
	Stats(ctx context.Context) (queue.Stats, error)
}

// why answers why a task is not processed, in three calls at most. A shorter
// one is in docs/oncall.md.
func why(ctx context.Context, q looks, id string) (string, error) {
	info, err := q.Get(ctx, id)
	if errors.Is(err, queue.ErrNotFound) {
		return "it is done, or was removed, or was never enqueued", nil
	}
	first := info
	if err == nil && info.Before != "" {
		first, err = q.Get(ctx, info.Before)
	}
	if err != nil {
		return "", err
	}
	s, err := q.Stats(ctx)
	if err != nil {
		return "", err
	}
	text := fmt.Sprint("it is ", describe(first))
	if info.Before != "" {
		text = fmt.Sprintf("it is behind %s, which is %s", first.ID, describe(first))
	}
	switch {
	case s.Paused:
		text += "; the queue is paused"
	case info.Paused:
		text += "; its key is paused"
	case first.State == queue.StateReady && s.Idle == 0:
		text += fmt.Sprintf("; no worker waits, %d tasks are in flight", s.InFlight)
	}
	return text, nil
}

// describe returns the state of a task.
func describe(t queue.TaskInfo) string {
	switch t.State {
	case queue.StateDelayed:
		return fmt.Sprintf("due in %v after %d attempts: %s", time.Until(t.Due).Round(time.Hour), t.Attempts, t.LastError)
	case queue.StateDead:
		return fmt.Sprintf("dead after %d attempts: %s", t.Attempts, t.LastError)
	case queue.StateInFlight:
		return fmt.Sprintf("in flight in process %d for %v", t.Holder.PID, time.Since(t.Holder.Since))
	}
	return string(t.State)
}

// counted counts the calls of why.
type counted struct {
	tasks
	calls int
}

func (c *counted) Get(ctx context.Context, id string) (queue.TaskInfo, error) {
	c.calls++
	return c.tasks.Get(ctx, id)
}

func (c *counted) Stats(ctx context.Context) (queue.Stats, error) {
	c.calls++
	return c.tasks.Stats(ctx)
}

// Why is order 42 not processed? Three calls answer it, whatever the reason.
func TestWhyIsOrder42NotProcessed(t *testing.T) {
	onBoth(t, func(q either) {
		says := func(text string) {
			q.Helper()
			c := &counted{tasks: q.tasks}
			answer, err := why(q.Context(), c, "42")
			require.NoError(q, err)
			require.Contains(q, answer, text)
			require.LessOrEqual(q, c.calls, 3)
		}
		says("never enqueued")
		q.put(queue.Task{ID: "41", Key: "customer 7"}, queue.Task{ID: "42", Key: "customer 7"})
		d := q.next("41")
		says("it is behind 41, which is in flight in process ")
		require.NoError(q, d.Nack(q.Context(), 3*time.Hour, errors.New("no such warehouse")))
		says("it is behind 41, which is due in 3h0m0s after 1 attempts: no such warehouse")
		require.NoError(q, q.Remove(q.Context(), "41"))
		says("it is ready; no worker waits, 0 tasks are in flight")
		require.NoError(q, q.PauseKey(q.Context(), "customer 7"))
		q.none()
		says("it is behind; its key is paused")
		require.NoError(q, q.Pause(q.Context()))
		says("the queue is paused")
		require.NoError(q, errors.Join(q.Resume(q.Context()), q.ResumeKey(q.Context(), "customer 7")))
		d = q.next("42")
		says("it is in flight")
		require.NoError(q, d.DeadLetter(q.Context(), errors.New("no such customer")))
		says("it is dead after 1 attempts: no such customer")
		_, err := q.Requeue(q.Context(), "42")
		require.NoError(q, err)
		require.NoError(q, q.next("42").Ack(q.Context()))
		says("it is done")
	})
}
