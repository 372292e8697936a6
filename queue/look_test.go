package queue_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/queue"
)

func get(t testing.TB, q *queue.Queue, id string) queue.TaskInfo {
	t.Helper()
	info, err := q.Get(t.Context(), id)
	require.NoError(t, err)
	return info
}

// idsOf returns the tasks in a state.
func idsOf(t testing.TB, q *queue.Queue, state queue.State) (ids []string) {
	t.Helper()
	for info, err := range q.Tasks(t.Context(), state) {
		require.NoError(t, err)
		require.Equal(t, state, info.State)
		ids = append(ids, info.ID)
	}
	return ids
}

// A task is shown with what it waits for, and so it is in the list of its
// state.
func TestGet(t *testing.T) {
	s := redistest.Shared(t)
	q := newQueue(t, s, queue.WithLabel("billing / 1"))
	operator := newQueue(t, s)
	before := time.Now()
	task := queue.Task{ID: "1", Key: "k", Payload: []byte("work"), Header: map[string]string{"trace": "7"}, MaxAttempts: 3}
	require.NoError(t, put(t.Context(), q, task,
		queue.Task{ID: "2", Key: "k"}, queue.Task{ID: "late", Delay: time.Hour}, queue.Task{ID: "sick"}))

	info := get(t, operator, "1")
	require.Equal(t, task, info.Task)
	require.Equal(t, queue.StateReady, info.State)
	requireBetween(t, before, time.Now(), info.Due)
	require.Equal(t, info.EnqueuedAt, info.Due)
	require.Zero(t, info.Attempts)
	require.Empty(t, info.LastError)
	require.Nil(t, info.Holder)

	d := receive(t, q, "1")
	info = get(t, operator, "1")
	require.Equal(t, queue.StateInFlight, info.State)
	require.Equal(t, 1, info.Attempts)
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, host, info.Holder.Host)
	require.Equal(t, os.Getpid(), info.Holder.PID)
	require.Equal(t, "billing / 1", info.Holder.Label)
	require.NotEmpty(t, info.Holder.Client)
	requireBetween(t, before, time.Now(), info.Holder.Since)
	require.Greater(t, info.LeaseEnd, info.Holder.Since.Add(29*time.Second))
	require.Equal(t, "1", get(t, operator, "2").Before)
	require.Equal(t, queue.StateBehind, get(t, operator, "2").State)

	require.NoError(t, d.Nack(t.Context(), time.Hour, errors.New("no\x00route "+strings.Repeat("é", 1000))))
	info = get(t, operator, "1")
	require.Equal(t, queue.StateDelayed, info.State)
	require.True(t, strings.HasPrefix(info.LastError, "no\x00route ééé"), info.LastError)
	require.Len(t, info.LastError, 1023, "cut between two characters")
	require.Greater(t, info.Due, before.Add(time.Hour-time.Second))
	d = receive(t, q, "sick")
	require.NoError(t, d.DeadLetter(t.Context(), errors.New("why")))
	info = get(t, operator, "sick")
	require.Equal(t, queue.StateDead, info.State)
	require.Equal(t, "why", info.LastError)
	requireBetween(t, before, time.Now(), info.DiedAt)
	end(t, s, "d", "1")
	require.Equal(t, queue.StateReady, get(t, operator, "1").State)
	receive(t, q, "1")
	require.Len(t, get(t, operator, "1").LastError, 1023, "while the next attempt runs")
	end(t, s, "l", "1")
	require.Equal(t, queue.StateReady, get(t, operator, "1").State)

	require.NoError(t, operator.PauseKey(t.Context(), "k"))
	none(t, q)
	info = get(t, operator, "1")
	require.Equal(t, queue.StateBehind, info.State)
	require.True(t, info.Paused)
	require.Empty(t, info.Lock+info.Before)
	require.Equal(t, 1, info.Attempts, "without the interrupted one")
	require.False(t, get(t, operator, "late").Paused)
	require.NoError(t, operator.Pause(t.Context()))
	require.True(t, get(t, operator, "late").Paused)
	require.False(t, get(t, operator, "sick").Paused)

	for state, ids := range map[queue.State][]string{
		queue.StateReady: nil, queue.StateDelayed: {"late"}, queue.StateInFlight: nil,
		queue.StateBehind: {"1", "2"}, queue.StateDead: {"sick"},
	} {
		require.ElementsMatch(t, ids, idsOf(t, operator, state), state)
	}
	_, err = operator.Get(t.Context(), "none")
	require.ErrorIs(t, err, queue.ErrNotFound)
	_, err = operator.Get(t.Context(), "")
	require.ErrorIs(t, err, relock.ErrInvalid)
	for _, err := range operator.Tasks(t.Context(), "unknown") {
		require.ErrorIs(t, err, relock.ErrInvalid)
	}
	for _, err := range (*queue.Queue)(nil).Tasks(t.Context(), queue.StateReady) {
		require.ErrorIs(t, err, relock.ErrInvalid)
	}
}

// A task that is behind a lock shows its name, whatever that is.
func TestGetBehindALock(t *testing.T) {
	s := redistest.Shared(t)
	c := newClient(t, s)
	q, lock := queueOf(t, c), t.Name()+" a/b%\n"
	h := hold(t, newLocker(t, c), lock)
	stop := locked(t, s, succeeds)
	enqueueUnder(t, q, lock, "1")
	eventually(t, q, "it is behind the lock", func(s queue.Stats) bool { return s.Behind == 1 })
	require.Equal(t, lock, get(t, q, "1").Lock)
	require.Equal(t, []string{"1"}, idsOf(t, q, queue.StateBehind))
	require.NoError(t, h.Unlock(t.Context()))
	eventually(t, q, "it is done", isEmpty)
	_, err := q.Get(t.Context(), "1")
	require.ErrorIs(t, err, queue.ErrNotFound)
	require.NoError(t, stop())
}

// All tasks of a state are listed, however many they are, and a caller may
// stop.
func TestTasks(t *testing.T) {
	q := newQueue(t, redistest.Shared(t))
	enqueue(t, q, "", named(200)...)
	enqueue(t, q, "k", "head")
	var behind, late []string
	for i := range 300 {
		behind = append(behind, fmt.Sprint("behind ", i))
		late = append(late, fmt.Sprint("late ", i))
	}
	enqueue(t, q, "k", behind...)
	for i, id := range late {
		require.NoError(t, put(t.Context(), q, queue.Task{ID: id, Delay: time.Hour, Key: []string{"", "k"}[i%2]}))
	}
	require.ElementsMatch(t, append(named(200), "head"), idsOf(t, q, queue.StateReady))
	require.ElementsMatch(t, late, idsOf(t, q, queue.StateDelayed))
	got := idsOf(t, q, queue.StateBehind)
	slices.Sort(got)
	slices.Sort(behind)
	require.Equal(t, behind, slices.Compact(got))
	n := 0
	for _, err := range q.Tasks(t.Context(), queue.StateReady) {
		require.NoError(t, err)
		if n++; n == 70 {
			break
		}
	}
	require.Equal(t, 70, n)
	for range 4 {
		got, err := q.Receive(t.Context(), 64)
		require.NoError(t, err)
		for _, d := range got {
			require.NoError(t, d.DeadLetter(t.Context(), nil))
		}
	}
	died := append(named(200), "head")
	require.Equal(t, died, idsOf(t, q, queue.StateDead)[:len(died)], "in the order of their deaths")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range q.Tasks(ctx, queue.StateDead) {
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		cancel()
	}
}

// A record that others have damaged is shown as it is.
func TestGetDamaged(t *testing.T) {
	s := redistest.Shared(t)
	q := newQueue(t, s)
	enqueue(t, q, "", "1", "2")
	receive(t, q, "1")
	for _, stored := range []string{"x", "1 17", "x 17@t/a|b 5 "} {
		s.Do(t, "HSET", "relock:queue:{"+t.Name()+"}:m", "1", stored)
		info := get(t, q, "1")
		require.Equal(t, queue.StateInFlight, info.State)
		require.Nil(t, info.Holder)
	}
	s.Do(t, "HSET", "relock:queue:{"+t.Name()+"}:p", "2", "x")
	info := get(t, q, "2")
	require.Equal(t, queue.Task{ID: "2", Payload: []byte("x")}, info.Task)
	require.Equal(t, queue.StateReady, info.State)
}

// Large tasks come over a slow link, fewer in each answer.
func TestTasksOverASlowLink(t *testing.T) {
	s := redistest.StartTCP(t)
	producer := newQueue(t, s)
	ids := large(t, producer, 8)
	q := slowLink(t, s, 4<<20, script.TaskGet)
	require.ElementsMatch(t, ids, idsOf(t, q, queue.StateReady))
}

// What is read is right, or an error that may pass.
func TestFaultsOfLooks(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]*script.TaskScript{"get": script.TaskGet, "list": script.TaskList} {
		t.Run(name, func(t *testing.T) {
			each(t, func(c *faultCell) {
				enqueue(c, c.other, "k", "a", "behind")
				require.NoError(c, c.other.PauseKey(c.Context(), "paused"))
				c.meets(one)
				info, err := c.q.Get(c.Context(), "behind")
				if c.temporary(err); err == nil {
					require.Equal(c, "a", info.Before)
				}
				for info, err := range c.q.Tasks(c.Context(), queue.StateReady) {
					if c.temporary(err); err == nil {
						require.Equal(c, "a", info.ID)
					}
				}
				for paused, err := range c.q.PausedKeys(c.Context()) {
					if c.temporary(err); err == nil {
						require.Equal(c, "paused", paused.Key)
					}
				}
				c.late()
				require.NoError(c, receive(c, c.other, "a").Ack(c.Context()))
			})
		})
	}
}
