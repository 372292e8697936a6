package proof

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// A worker that was stopped for longer than its leases settles nothing when it
// goes on. Others have its tasks by then, under higher fences.
func TestTasksOfStoppedWorker(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	verbs := []string{"ack", "nack", "release", "dead-letter"}
	server := redistest.Start(t)
	q, err := queue.New(tasksQueue, newParentClient(t, server))
	require.NoError(t, err)
	for i, verb := range verbs {
		require.NoError(t, putTasks(t.Context(), q, queue.Task{ID: verb, Key: fmt.Sprint(i)},
			queue.Task{ID: "behind " + verb, Key: fmt.Sprint(i)}))
	}
	child := spawnTaskHolder(t, server, lease, len(verbs))
	child.Next("took", patience)
	child.Stop()
	again := receiveAll(t, q, len(verbs))
	child.Continue()
	for i, d := range again {
		require.Equal(t, verbs[i], d.ID)
		require.Equal(t, 1, d.Attempt)
		if i > 0 {
			require.Greater(t, d.Fence(), again[i-1].Fence())
		}
		child.Send(d.ID)
		require.Equal(t, []string{"true", "true", "true"}, child.Next("settled", patience).Values[:3],
			"%s: lost before, ErrLockLost and ErrNotHeld", d)
	}
	child.End(patience)
	s, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, queue.Stats{InFlight: len(verbs), Behind: len(verbs)}, s)
	for _, d := range again {
		require.NoError(t, d.Err())
		require.NoError(t, d.Ack(t.Context()))
	}
	for _, d := range receiveAll(t, q, len(verbs)) {
		require.Equal(t, 1, d.Attempt)
		require.NoError(t, d.Ack(t.Context()))
	}
}

func spawnTaskHolder(t *testing.T, s *redistest.Server, lease time.Duration, n int) *faults.Child {
	t.Helper()
	return faults.Spawn(t, "taskholder", s.Network, s.Address,
		strconv.FormatInt(lease.Milliseconds(), 10), strconv.Itoa(n))
}

// receiveAll waits for so many deliveries.
func receiveAll(t *testing.T, q *queue.Queue, n int) (all []*queue.Delivery) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for len(all) < n {
		got, err := q.Receive(ctx, n-len(all))
		require.NoError(t, err)
		all = append(all, got...)
	}
	return all
}

// The task of a worker that is killed runs again within its lease and 1.5 s.
func TestTaskOfKilledWorkerRunsAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	q, err := queue.New(tasksQueue, newParentClient(t, server))
	require.NoError(t, err)
	for _, lease := range []time.Duration{time.Second, pick(5*time.Second, 2*time.Second)} {
		for range pick(5, 2) {
			require.NoError(t, putTasks(t.Context(), q, queue.Task{ID: "a"}))
			child := spawnTaskHolder(t, server, lease, 1)
			child.Next("took", patience)
			ctx, cancel := context.WithCancel(t.Context())
			began := make(chan int64, 1)
			process := testkit.Async(t, func() error {
				return q.Process(ctx, func(_ context.Context, d *queue.Delivery) error {
					began <- faults.Now()
					return nil
				})
			})
			testkit.Eventually(t, patience, func() bool {
				s, err := q.Stats(t.Context())
				return err == nil && s.Idle == 1 && s.InFlight == 1
			}, "the other worker is idle")
			child.Kill()
			killed, watch := faults.Now(), testkit.NewStopwatch(t)
			at, ok := testkit.Await(began, patience)
			require.True(t, ok)
			after := time.Duration(at - killed)
			t.Logf("lease %v: run again %v after the kill", lease, after.Round(time.Millisecond))
			watch.Check(after, lease+1500*time.Millisecond)
			watch.Net() // stops it
			testkit.Eventually(t, patience, func() bool {
				s, err := q.Stats(t.Context())
				return err == nil && s.InFlight == 0
			}, "it is done")
			cancel()
			require.NoError(t, testkit.ResultWithin(t, process, patience))
		}
	}
}
