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

// While a task is acknowledged, its worker has the next one. If that may need
// the settle, because of a key or a limit, it has it only while there is
// plenty. However long the answer takes, there is one such settle for each
// worker.
func TestWorkersReceiveBesideTheirSettles(t *testing.T) {
	s := redistest.StartTCP(t)
	for name, one := range map[string]struct {
		keyed       bool
		limit       int
		before      int // tasks before the one that is not acknowledged
		aheadOfThat int // tasks that begin meanwhile
	}{
		"the first task":           {before: 0, aheadOfThat: 1},
		"keys":                     {before: 31, keyed: true, aheadOfThat: 1},
		"keys, the first tasks":    {before: 5, keyed: true, aheadOfThat: 0},
		"a limit":                  {before: 31, limit: 2, aheadOfThat: 1},
		"a limit, the first tasks": {before: 5, limit: 2, aheadOfThat: 0},
		"a limit that they reach":  {before: 31, limit: 1, aheadOfThat: 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, p := behindProxy(t, s, queue.WithMaxInFlight(one.limit))
			other, tasks := newQueue(t, s), []queue.Task{}
			for i := range one.before + 10 {
				task := queue.Task{ID: fmt.Sprint(i)}
				if one.keyed {
					task.Key = task.ID
				}
				tasks = append(tasks, task)
			}
			require.NoError(t, put(t.Context(), other, tasks...))
			began, answered := make(chan string, len(tasks)), make(chan struct{})
			stop := processing(t, q, func(_ context.Context, d *queue.Delivery) error {
				if d.ID == fmt.Sprint(one.before) {
					p.On(faults.Script(script.TaskSettle.SHA), faults.Every, faults.DelayUntil(answered))
				}
				began <- d.ID
				return nil
			}, queue.WithWorkers(1))
			begin := one.before + 1 + one.aheadOfThat
			testkit.Eventually(t, testkit.Patience, func() bool { return len(began) >= begin }, "they begin")
			time.Sleep(100 * time.Millisecond) // what is tested is that no other one begins
			require.Len(t, began, begin)
			close(answered)
			eventually(t, other, "all are done", isEmpty)
			require.NoError(t, stop())
			require.Len(t, began, len(tasks))
		})
	}
}

// A worker of one key goes on though a receive came before the settle that
// makes the next task due, also if no message of that reaches it: it does not
// wait for its next poll, a second later.
func TestWorkerOfOneKeyGoesOn(t *testing.T) {
	s := redistest.StartTCP(t)
	q, p := behindProxy(t, s)
	other := newQueue(t, s)
	const before = 31 // from the next one on there is plenty
	enqueue(t, other, "k", named(before+2)...)
	began, settles := make(chan string, before+2), make(chan struct{})
	stop := processing(t, q, func(_ context.Context, d *queue.Delivery) error {
		if d.ID == fmt.Sprint("t", before) {
			p.On(faults.Script(script.TaskSettle.SHA), 1, faults.DelayRequestUntil(settles))
		}
		began <- d.ID
		return nil
	}, queue.WithWorkers(1))
	eventually(t, other, "a receive came first", func(s queue.Stats) bool { return s.Idle == 1 && s.InFlight == 1 })
	require.Len(t, began, before+1)
	s.Do(t, "DEL", "relock:queue:{"+t.Name()+"}:i") // so that nobody is notified
	clock := testkit.NewStopwatch(t)
	close(settles)
	testkit.Eventually(t, testkit.Patience, func() bool { return len(began) == before+2 }, "the last one begins")
	clock.Within(500*time.Millisecond, "it does not wait for the next poll")
	require.NoError(t, stop())
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
