package queue_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// A task begins soon after its lock is free, also behind many whose keys are
// paused: the gate passes over them in one turn.
func TestGatePassesOverPausedKeys(t *testing.T) {
	s := redistest.Shared(t)
	c := newClient(t, s)
	q, locker := queueOf(t, c), newLocker(t, c)
	const paused = 1100
	began := make(chan string, paused+1)
	stop := locked(t, s, func(_ context.Context, d *queue.Delivery) error {
		began <- d.ID
		return nil
	})
	h := hold(t, locker, t.Name())
	var tasks []queue.Task
	for i := range paused {
		task := queue.Task{
			ID: fmt.Sprint("paused ", i), Key: fmt.Sprint("k", i), Header: map[string]string{lockHeader: t.Name()},
		}
		tasks = append(tasks, task)
	}
	require.NoError(t, put(t.Context(), q, tasks...))
	eventually(t, q, "they are behind the lock", func(s queue.Stats) bool { return s.Behind == paused && s.InFlight == 0 })
	enqueueUnder(t, q, t.Name(), "free")
	eventually(t, q, "so is the free one", func(s queue.Stats) bool { return s.Behind == paused+1 })
	for _, task := range tasks {
		require.NoError(t, q.PauseKey(t.Context(), task.Key))
	}
	calls := locktest.Calls(t, s, "evalsha")
	require.NoError(t, h.Unlock(t.Context()))
	id := testkit.Next(t, began)
	require.Equal(t, "free", id)
	// One turn reads 18 pages in some 23 requests. With a turn for each page,
	// the lock alone would take 36.
	require.Less(t, locktest.Calls(t, s, "evalsha")-calls, 36, "it passes over them in one turn")
	for _, task := range tasks {
		require.NoError(t, q.ResumeKey(t.Context(), task.Key))
	}
	require.NoError(t, stop())
}
