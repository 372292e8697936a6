package queue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// While a task is acknowledged, its worker has the next one. Not so if the
// settle makes that due, or room for it. However long the answer takes, there
// is one such settle for each worker at most.
func TestWorkersReceiveBesideTheirSettles(t *testing.T) {
	s := redistest.StartTCP(t)
	for name, one := range map[string]struct {
		key   string
		opts  []queue.Option
		begin int
	}{
		"tasks":             {begin: 2},
		"tasks of one key":  {key: "k", begin: 1},
		"a limit in flight": {opts: []queue.Option{queue.WithMaxInFlight(2)}, begin: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, p := behindProxy(t, s, one.opts...)
			answered := make(chan struct{})
			p.On(faults.Script(script.TaskSettle.SHA), faults.Every, faults.DelayUntil(answered))
			other := newQueue(t, s)
			enqueue(t, other, one.key, "1", "2", "3", "4")
			began := make(chan string, 4)
			stop := processing(t, q, func(_ context.Context, d *queue.Delivery) error {
				began <- d.ID
				return nil
			}, queue.WithWorkers(1))
			for i := range one.begin {
				id, ok := testkit.Await(began, testkit.Patience)
				require.True(t, ok)
				require.Equal(t, fmt.Sprint(i+1), id)
			}
			time.Sleep(100 * time.Millisecond) // what is tested is that no other one begins
			require.Empty(t, began)
			close(answered)
			eventually(t, other, "all are done", isEmpty)
			require.Len(t, began, 4-one.begin)
			require.NoError(t, stop())
		})
	}
}

// However few the workers are, no more functions run together.
func TestNoMoreFunctionsThanWorkers(t *testing.T) {
	s := redistest.Shared(t)
	for _, workers := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			q := newQueue(t, s)
			enqueue(t, q, "", named(500)...)
			var running, most atomic.Int64
			stop := processing(t, q, func(context.Context, *queue.Delivery) error {
				n := running.Add(1)
				defer running.Add(-1)
				for {
					before := most.Load()
					if n <= before || most.CompareAndSwap(before, n) {
						return nil
					}
				}
			}, queue.WithWorkers(workers))
			eventually(t, q, "all are done", isEmpty)
			require.NoError(t, stop())
			require.LessOrEqual(t, most.Load(), int64(workers))
		})
	}
}
