package queue_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// hanging is a function that hangs with the task "hangs", whatever its context
// says, until free is called. It does others.
type hanging struct {
	mu      sync.Mutex
	running int // of "hangs", now
	most    int
	begun   int
	others  atomic.Int64
	goOn    chan struct{}
	free    func()
}

func newHanging() *hanging {
	h := &hanging{goOn: make(chan struct{})}
	h.free = sync.OnceFunc(func() { close(h.goOn) })
	return h
}

func (h *hanging) run(_ context.Context, d *queue.Delivery) error {
	if d.ID != "hangs" {
		h.others.Add(1)
		return nil
	}
	h.mu.Lock()
	h.running++
	h.begun++
	h.most = max(h.most, h.running)
	h.mu.Unlock()
	<-h.goOn
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running--
	return nil
}

func (h *hanging) counts() (begun, most int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.begun, h.most
}

func reasons(t *testing.T, q *queue.Queue) map[string]string {
	t.Helper()
	all := map[string]string{}
	for letter, err := range q.DeadLetters(t.Context()) {
		require.NoError(t, err)
		all[letter.ID] = letter.Reason
	}
	return all
}

const short = 30 * time.Millisecond

// A function that hangs takes one worker of each process at most. Each attempt
// is failed by its own client, also in a process where it cannot begin, until
// the task is a dead letter. Others go on.
func TestHangingFunctionEndsAsADeadLetter(t *testing.T) {
	t.Parallel()
	for name, processes := range map[string]int{"one process": 1, "three processes": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Shared(t)
			producer := newQueue(t, s)
			var all []*hanging
			var logs []*testkit.Log
			var stops []func() error
			for range processes {
				h := newHanging()
				q, log := logged(t, s, queue.WithMaxAttempts(3))
				stops = append(stops, processing(t, q, h.run, queue.WithWorkers(2), queue.WithTimeout(short), queue.WithGrace(0)))
				t.Cleanup(h.free) // before Process is waited for
				all, logs = append(all, h), append(logs, log)
			}
			enqueue(t, producer, "k", "hangs", "behind it")
			enqueue(t, producer, "", "1", "2", "3")
			eventually(t, producer,
				"the others are done, and it is dead", func(s queue.Stats) bool { return isEmpty(s) && s.Dead == 1 })
			count := func(line ...string) (n int) {
				for _, log := range logs {
					n += log.Lines(line...)
				}
				return n
			}
			testkit.Eventually(t, testkit.Patience, func() bool { // a line comes after the server's answer
				return count("level=INFO", "an attempt at a task failed", " id=hangs ") == 2 &&
					count("level=WARN", "a task is a dead letter", " id=hangs key=k attempt=3 ") == 1
			}, "two failed attempts and a dead letter are logged")
			others := int64(0)
			for i, h := range all {
				others += h.others.Load()
				begun, most := h.counts()
				require.LessOrEqual(t, most, 1, "in one process")
				require.Equal(t, begun, logs[i].Lines("level=WARN", "still runs", " id=hangs key=k attempt=",
					" what=function after=30ms"), logs[i].String())
			}
			require.Equal(t, int64(4), others)
			for i, stop := range stops {
				all[i].free()
				require.NoError(t, stop())
			}
		})
	}
}

// A delivery that is overdue is counted and reported once, and its end is
// logged. Its worker goes on then.
func TestOverdueIsReported(t *testing.T) {
	t.Parallel()
	var overdue []queue.Overdue
	var finished []queue.Finished
	var mu sync.Mutex
	h := newHanging()
	q, log := logged(t, redistest.Shared(t), queue.WithObserver(queue.Observer{
		Overdue: func(_ context.Context, e queue.Overdue) {
			mu.Lock()
			defer mu.Unlock()
			overdue = append(overdue, e)
		},
		Finished: func(_ context.Context, e queue.Finished) {
			mu.Lock()
			defer mu.Unlock()
			finished = append(finished, e)
		},
	}), queue.WithMaxAttempts(1))
	stop := processing(t, q, h.run, queue.WithWorkers(1), queue.WithTimeout(short))
	t.Cleanup(h.free) // before Process is waited for
	enqueue(t, q, "", "hangs", "next")
	eventually(t, q, "it is counted", func(s queue.Stats) bool { return s.Overdue == 1 && s.Dead == 1 && s.Ready == 1 })
	require.Equal(t, map[string]string{"hangs": "still runs after 30ms: context deadline exceeded"}, reasons(t, q))
	h.free()
	eventually(t, q, "the worker goes on", func(s queue.Stats) bool { return isEmpty(s) && s.Overdue == 0 })
	require.NoError(t, stop())
	require.Equal(t, 1, log.Lines("level=INFO", "that was overdue has returned", " id=hangs "), log.String())
	require.Equal(t, 1, log.Lines("level=WARN", "still runs", "what=function"), log.String())
	require.Len(t, overdue, 1)
	require.Equal(t, []any{"hangs", 1, short}, []any{overdue[0].ID, overdue[0].Attempt, overdue[0].Limit})
	require.Len(t, finished, 2)
	require.Equal(t, queue.Dead, finished[0].Outcome)
	require.ErrorIs(t, finished[0].Err, context.DeadlineExceeded)
}

// Without a timeout a delivery is reported after 100 leases, and not settled.
func TestOverdueWithoutTimeout(t *testing.T) {
	t.Parallel()
	reported := make(chan queue.Overdue, 2)
	q, log := logged(t, redistest.Shared(t), queue.WithLease(30*time.Millisecond), queue.WithObserver(queue.Observer{
		Overdue: func(_ context.Context, e queue.Overdue) { reported <- e },
	}))
	h := newHanging()
	stop := processing(t, q, h.run)
	t.Cleanup(h.free) // before Process is waited for
	enqueue(t, q, "", "hangs")
	e := testkit.Next(t, reported)
	require.Equal(t, 3*time.Second, e.Limit)
	require.NotContains(t, log.String(), "failed", "it is not settled")
	h.free()
	eventually(t, q, "it is done", isEmpty)
	require.NoError(t, stop())
}

// Hooks and back-offs that hang are found likewise, and take one worker.
func TestHooksThatHang(t *testing.T) {
	for what, isSettledBy := range map[string]queue.Outcome{
		"hook Received": queue.Failed, "WithBackoff": queue.Failed, "hook Finished": queue.Acknowledged,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newHanging()
			hangs := func(in, id string) {
				if in == what && id == "hangs" {
					<-h.goOn
				}
			}
			outcomes, ran := make(chan queue.Outcome, 10), atomic.Bool{}
			q, log := logged(t, redistest.Shared(t), queue.WithObserver(queue.Observer{
				Received: func(_ context.Context, e queue.Received) { hangs("hook Received", e.ID) },
				Finished: func(_ context.Context, e queue.Finished) {
					if e.ID == "hangs" {
						outcomes <- e.Outcome
					}
					hangs("hook Finished", e.ID)
				},
			}), queue.WithBackoff(func(_ int, err error) time.Duration {
				hangs("WithBackoff", err.Error())
				return time.Hour
			}))
			stop := processing(t, q, func(_ context.Context, d *queue.Delivery) error {
				switch {
				case d.ID == "hangs" && what == "WithBackoff":
					return errors.New(d.ID)
				case d.ID == "hangs":
					ran.Store(true)
				}
				return nil
			}, queue.WithWorkers(2), queue.WithTimeout(short))
			t.Cleanup(h.free) // before Process is waited for
			enqueue(t, q, "", "hangs", "other")
			testkit.Eventually(t, testkit.Patience, func() bool {
				return log.Lines("level=WARN", "still runs", " id=hangs ", "what=", what) == 1
			}, "it is reported")
			outcome := testkit.Next(t, outcomes)
			require.Equal(t, isSettledBy, outcome)
			eventually(t, q, "the other one is done", func(s queue.Stats) bool { return s.InFlight == 0 && s.Ready == 0 })
			h.free()
			require.NoError(t, stop())
			if what == "hook Received" {
				require.False(t, ran.Load(), "its task was settled before")
			}
		})
	}
}

// A function that settles and then hangs is overdue, and not settled again.
func TestOverdueAfterItsOwnSettle(t *testing.T) {
	t.Parallel()
	h := newHanging()
	q, log := logged(t, redistest.Shared(t))
	stop := processing(t, q, func(ctx context.Context, d *queue.Delivery) error {
		return errors.Join(d.Ack(ctx), h.run(ctx, d))
	}, queue.WithTimeout(short))
	t.Cleanup(h.free) // before Process is waited for
	enqueue(t, q, "", "hangs")
	testkit.Eventually(t, testkit.Patience,
		func() bool { return log.Lines("level=WARN", "still runs") == 1 }, "it is reported")
	eventually(t, q, "it is done", isEmpty)
	h.free()
	require.NoError(t, stop())
	require.NotContains(t, log.String(), "failed")
}

// What a function does too late has no effect on the next attempt.
func TestOverdueFunctionSettlesTooLate(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	h := newHanging()
	q, _ := logged(t, s)
	late := make(chan error, 1)
	stop := processing(t, q, func(ctx context.Context, d *queue.Delivery) error {
		err := h.run(ctx, d)
		late <- d.Ack(ctx)
		return err
	}, queue.WithTimeout(short), queue.WithWorkers(1))
	t.Cleanup(h.free) // before Process is waited for
	enqueue(t, q, "", "hangs")
	testkit.Eventually(t, testkit.Patience, func() bool { begun, _ := h.counts(); return begun == 1 }, "it runs")
	d := receive(t, newQueue(t, s), "hangs")
	require.Equal(t, 2, d.Attempt)
	h.free()
	err := testkit.Next(t, late)
	require.ErrorIs(t, err, relock.ErrNotHeld)
	require.NoError(t, stop())
	require.NoError(t, d.Err())
	require.NoError(t, d.Ack(t.Context()))
}

// A function that hangs keeps its place among those in flight until it is
// settled, and no longer.
func TestOverdueFreesItsPlaceInFlight(t *testing.T) {
	t.Parallel()
	h := newHanging()
	q, _ := logged(t, redistest.Shared(t), queue.WithMaxInFlight(1), queue.WithMaxAttempts(1))
	stop := processing(t, q, h.run, queue.WithTimeout(short), queue.WithWorkers(2))
	t.Cleanup(h.free) // before Process is waited for
	enqueue(t, q, "", "hangs", "next")
	eventually(t, q, "the next one is done", func(s queue.Stats) bool { return isEmpty(s) && s.Overdue == 1 })
	h.free()
	require.NoError(t, stop())
}

// A process that stops names functions whose tasks were settled.
func TestProcessLeavesOverdueFunctionBehind(t *testing.T) {
	t.Parallel()
	h := newHanging()
	q, _ := logged(t, redistest.Shared(t), queue.WithMaxAttempts(1))
	stop := processing(t, q, h.run, queue.WithTimeout(short), queue.WithGrace(0))
	t.Cleanup(h.free) // before Process is waited for
	enqueue(t, q, "", "hangs")
	eventually(t, q, "it is dead", func(s queue.Stats) bool { return s.Dead == 1 })
	require.ErrorContains(t, stop(), `their tasks were settled: ["hangs"]`)
	h.free()
	eventually(t, q, "it has returned", func(s queue.Stats) bool { return s.Overdue == 0 })
}

// A function that settles before it returns never runs beside the next attempt
// in its process. That waits for it, or is released, uncounted.
func TestNoTwoRunsOfATaskInAProcess(t *testing.T) {
	q, log := logged(t, redistest.Shared(t))
	var running, runs atomic.Int64
	released := make(chan struct{})
	free := sync.OnceFunc(func() { close(released) })
	stop := processing(t, q, func(ctx context.Context, d *queue.Delivery) error {
		if running.Add(1) > 1 {
			t.Error("two together")
		}
		defer running.Add(-1)
		switch runs.Add(1) {
		case 1: // the next one waits for this moment
			return d.Release(ctx)
		case 2: // the next one is released, at least once
			err := d.Release(ctx)
			<-released
			return err
		}
		if d.Attempt != 1 {
			t.Errorf("attempt %d", d.Attempt)
		}
		return nil
	}, queue.WithWorkers(4))
	t.Cleanup(free) // before Process is waited for
	enqueue(t, q, "k", "a")
	eventually(t, q, "it is released for a moment", func(s queue.Stats) bool { return s.Delayed == 1 })
	free()
	eventually(t, q, "it is done", isEmpty)
	require.NoError(t, stop())
	require.Equal(t, int64(3), runs.Load())
	require.Empty(t, log.String())
}

// A task whose lease was lost while its function goes on is left to other
// processes, uncounted.
func TestLostFunctionIsNotRunBesideItself(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	h := newHanging()
	q, _ := logged(t, s)
	stop := processing(t, q, h.run, queue.WithWorkers(3))
	t.Cleanup(h.free) // before Process is waited for
	enqueue(t, q, "", "hangs")
	testkit.Eventually(t, testkit.Patience, func() bool { begun, _ := h.counts(); return begun == 1 }, "it runs")
	end(t, s, "l", "hangs")
	eventually(t, q, "it was released", func(s queue.Stats) bool { return s.Delayed == 1 })
	d := receive(t, newQueue(t, s), "hangs")
	require.Equal(t, 1, d.Attempt)
	require.NoError(t, d.Ack(t.Context()))
	h.free()
	require.NoError(t, stop())
	begun, _ := h.counts()
	require.Equal(t, 1, begun)
}
