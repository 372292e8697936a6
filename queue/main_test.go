package queue_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

func TestMain(m *testing.M) {
	redistest.OverlapMore()
	goleak.VerifyTestMain(m)
}

func newClient(t testing.TB, s *redistest.Server, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	c, err := relock.NewClient(s.Network, s.Address, "", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// newQueue returns a queue that is named after the test, of a separate client.
func newQueue(t testing.TB, s *redistest.Server, opts ...queue.Option) *queue.Queue {
	t.Helper()
	return queueOf(t, newClient(t, s), opts...)
}

func queueOf(t testing.TB, c *relock.Client, opts ...queue.Option) *queue.Queue {
	t.Helper()
	q, err := queue.New(t.Name(), c, opts...)
	require.NoError(t, err)
	return q
}

// put enqueues tasks whose IDs the test knows.
func put(ctx context.Context, q *queue.Queue, tasks ...queue.Task) error {
	_, err := q.Enqueue(ctx, tasks...)
	return err
}

func enqueue(t testing.TB, q *queue.Queue, key string, ids ...string) {
	t.Helper()
	var tasks []queue.Task
	for _, id := range ids {
		tasks = append(tasks, queue.Task{ID: id, Key: key, Payload: []byte("of " + id)})
	}
	require.NoError(t, put(t.Context(), q, tasks...))
}

// receive receives one task, which must have this id.
func receive(t testing.TB, q *queue.Queue, id string) *queue.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	got, err := q.Receive(ctx, 1)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, id, got[0].ID)
	return got[0]
}

// end makes something of a task end now that has an end: its lease (l), its
// delay (d, or w for a task with a key), or its window (u).
func end(t testing.TB, s *redistest.Server, set, id string) {
	t.Helper()
	s.Do(t, "ZADD", "relock:queue:{"+t.Name()+"}:"+set, "XX", 1, id)
}

// receiveEnded receives a task, and ends the lease that others may have of it.
func receiveEnded(t testing.TB, s *redistest.Server, q *queue.Queue, id string) *queue.Delivery {
	t.Helper()
	var got []*queue.Delivery
	testkit.Eventually(t, testkit.Patience, func() bool {
		end(t, s, "l", id)
		var err error
		got, err = q.TryReceive(t.Context(), 1)
		require.NoError(t, err)
		return len(got) == 1
	}, "it is received")
	require.Equal(t, id, got[0].ID)
	return got[0]
}

// none requires that no task is due.
func none(t testing.TB, q *queue.Queue) {
	t.Helper()
	got, err := q.TryReceive(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, got)
}
