package relocktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/queue"
)

func (q either) get(id string) queue.TaskInfo {
	q.Helper()
	info, err := q.Get(q.Context(), id)
	require.NoError(q, err)
	return info
}

func (q either) stats() queue.Stats {
	q.Helper()
	s, err := q.Stats(q.Context())
	require.NoError(q, err)
	s.Oldest = 0 // the real one's clock goes on
	return s
}

// in returns the tasks in a state.
func (q either) in(state queue.State) (ids []string) {
	q.Helper()
	for info, err := range q.Tasks(q.Context(), state) {
		require.NoError(q, err)
		require.Equal(q, state, info.State)
		require.Equal(q, info.Task, q.get(info.ID).Task)
		ids = append(ids, info.ID)
	}
	return ids
}

// A task is shown with its state, and with what it waits for.
func TestQueueGet(t *testing.T) {
	onBoth(t, func(q either) {
		start := time.Now().Truncate(time.Microsecond)
		one := queue.Task{ID: "1", Key: "k", Payload: []byte("work"), Header: map[string]string{"trace": "7"}, MaxAttempts: 3}
		q.put(one, queue.Task{ID: "2", Key: "k"}, queue.Task{ID: "late", Delay: time.Hour}, queue.Task{ID: "sick"})
		info := q.get("1")
		require.Equal(q, one, info.Task)
		require.Equal(q, info.EnqueuedAt, info.Due)
		require.False(q, info.Due.Before(start))
		require.Zero(q, info.Attempts)
		d := q.next("1")
		info = q.get("1")
		require.Equal(q, os.Getpid(), info.Holder.PID)
		require.NotEmpty(q, info.Holder.Host)
		require.False(q, info.Holder.Since.Before(start))
		require.True(q, info.LeaseEnd.After(info.Holder.Since))
		require.Equal(q, 1, info.Attempts)
		require.Equal(q, "1", q.get("2").Before)
		require.NoError(q, q.next("sick").DeadLetter(q.Context(), errors.New("no use")))
		require.False(q, q.get("sick").DiedAt.Before(start))
		require.NoError(q, d.Nack(q.Context(), time.Hour, errors.New("no route")))
		require.Equal(q, "no route", q.get("1").LastError)
		require.False(q, q.get("1").Due.Before(start.Add(time.Hour)))
		q.put(queue.Task{ID: "3"})
		require.Equal(q, []string{"3"}, q.in(queue.StateReady))
		require.ElementsMatch(q, []string{"1", "late"}, q.in(queue.StateDelayed))
		require.Equal(q, []string{"2"}, q.in(queue.StateBehind))
		require.Equal(q, []string{"sick"}, q.in(queue.StateDead))
		d = q.next("3")
		require.Equal(q, []string{"3"}, q.in(queue.StateInFlight))
		require.NoError(q, d.Nack(q.Context(), 0, nil))
		require.Empty(q, q.get("3").LastError)
		for _, err := range q.Tasks(q.Context(), queue.StateDelayed) {
			require.NoError(q, err)
			break
		}
	})
}

func TestQueueGetMistakes(t *testing.T) {
	onBoth(t, func(q either) {
		_, err := q.Get(q.Context(), "none")
		require.EqualError(q, err, fmt.Sprintf(`relock: get "tasks": %v: "none"`, queue.ErrNotFound))
		_, err = q.Get(q.Context(), "")
		require.ErrorIs(q, err, relock.ErrInvalid)
		for _, err := range q.Tasks(q.Context(), "unknown") {
			require.EqualError(q, err, `relock: tasks "tasks": invalid: state: there is no "unknown"`)
		}
		ended, cancel := context.WithCancel(q.Context())
		cancel()
		_, err = q.Get(ended, "1")
		require.ErrorIs(q, err, context.Canceled)
		for _, err := range q.Tasks(ended, queue.StateReady) {
			require.ErrorIs(q, err, context.Canceled)
		}
		require.ErrorIs(q, q.Pause(ended), context.Canceled)
		for _, key := range []string{"", "a\x00b", strings.Repeat("k", 513)} {
			require.ErrorIs(q, q.PauseKey(q.Context(), key), relock.ErrInvalid)
			require.ErrorIs(q, q.ResumeKey(q.Context(), key), relock.ErrInvalid)
		}
		_, err = q.Requeue(q.Context(), "1", "")
		require.ErrorContains(q, err, "ids[1]: is empty")
		_, err = q.RequeueDied(q.Context(), time.Now(), time.Now().Add(-time.Hour))
		require.ErrorIs(q, err, relock.ErrInvalid)
	})
}

// A paused queue delivers nothing until it is resumed.
func TestQueuePause(t *testing.T) {
	onBoth(t, func(q either) {
		q.put(queue.Task{ID: "flies"})
		flies := q.next("flies")
		require.NoError(q, q.Pause(q.Context()))
		require.NoError(q, q.Pause(q.Context()))
		q.put(queue.Task{ID: "1"})
		q.none()
		require.Equal(q, queue.Stats{InFlight: 1, Ready: 1, Paused: true}, q.stats())
		require.True(q, q.get("1").Paused)
		require.NoError(q, flies.Ack(q.Context()))
		require.NoError(q, q.Resume(q.Context()))
		require.NoError(q, q.Resume(q.Context()))
		require.NoError(q, q.next("1").Ack(q.Context()))
		require.Equal(q, queue.Stats{}, q.stats())
	})
}

// The tasks of a paused key wait in their order, also a retry.
func TestQueuePauseKey(t *testing.T) {
	onBoth(t, func(q either) {
		q.put(queue.Task{ID: "1", Key: "k"}, queue.Task{ID: "2", Key: "k"}, queue.Task{ID: "3", Key: "k"})
		first := q.next("1")
		require.NoError(q, q.PauseKey(q.Context(), "k"))
		require.NoError(q, first.Nack(q.Context(), 0, nil))
		q.put(queue.Task{ID: "free", Key: "free"})
		require.NoError(q, q.next("free").Ack(q.Context()))
		q.none()
		require.Equal(q, queue.Stats{Behind: 3, PausedKeys: 1}, q.stats())
		info := q.get("1")
		require.Equal(q, queue.StateBehind, info.State)
		require.True(q, info.Paused)
		require.Empty(q, info.Before)
		require.NoError(q, q.Remove(q.Context(), "2"))
		require.NoError(q, q.Pause(q.Context()))
		require.NoError(q, q.ResumeKey(q.Context(), "k"))
		q.none()
		require.NoError(q, q.Resume(q.Context()))
		again := q.next("1")
		require.Equal(q, 2, again.Attempt)
		require.NoError(q, again.Ack(q.Context()))
		require.NoError(q, q.next("3").Ack(q.Context()))
	})
}

// Each paused key is named once, with since when.
func TestQueuePausedKeys(t *testing.T) {
	onBoth(t, func(q either) {
		start := time.Now().Truncate(time.Microsecond)
		require.NoError(q, q.Pause(q.Context()))
		for paused, err := range q.PausedKeys(q.Context()) {
			require.Fail(q, "the queue is paused, and no key", "%v %v", paused, err)
		}
		var keys []string
		for _, key := range []string{"a", "b", "a"} {
			require.NoError(q, q.PauseKey(q.Context(), key))
		}
		for paused, err := range q.PausedKeys(q.Context()) {
			require.NoError(q, err)
			require.False(q, paused.Since.Before(start))
			keys = append(keys, paused.Key)
		}
		require.ElementsMatch(q, []string{"a", "b"}, keys)
		require.NoError(q, q.ResumeKey(q.Context(), "a"))
		for paused, err := range q.PausedKeys(q.Context()) {
			require.NoError(q, err)
			require.Equal(q, "b", paused.Key)
			break
		}
		ended, cancel := context.WithCancel(q.Context())
		cancel()
		for _, err := range q.PausedKeys(ended) {
			require.ErrorIs(q, err, context.Canceled)
		}
	})
}

// Dead letters are requeued by when they died.
func TestQueueRequeueDied(t *testing.T) {
	onBoth(t, func(q either) {
		died := map[string]time.Time{}
		for _, id := range []string{"a", "b", "c"} {
			q.put(queue.Task{ID: id})
			require.NoError(q, q.next(id).DeadLetter(q.Context(), nil))
			died[id] = q.get(id).DiedAt
			time.Sleep(2 * time.Microsecond) // the clock of the bubble stands still otherwise
		}
		n, err := q.RequeueDied(q.Context(), died["b"], died["c"])
		require.NoError(q, err)
		require.Equal(q, 1, n)
		require.Equal(q, []string{"a", "c"}, q.in(queue.StateDead))
		require.NoError(q, q.next("b").Ack(q.Context()))
		n, err = q.RequeueDied(q.Context(), time.Time{}, time.Time{})
		require.NoError(q, err)
		require.Equal(q, 2, n)
		require.Empty(q, q.dead())
	})
}
