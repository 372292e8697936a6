package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// idleStart is workers that are idle: how long a task takes from the call of
// Enqueue to its start.
var idleStart = scenario{
	name: "idle start", libraries: bothQueues, needs: []string{tasksStarted, startP50, startP99, startMax},
	load: load{Goroutines: 4, Tasks: 300, Think: 20 * time.Millisecond, Duration: 12 * time.Second}, tasks: measureIdle,
}

// delayed is tasks that are due in 200 ms: how late they start.
var delayed = scenario{
	name: "delayed", libraries: bothQueues, needs: []string{tasksStarted, startP50, startP99, startMax},
	load:  load{Goroutines: 4, Tasks: 300, Think: 20 * time.Millisecond, Hold: 200 * time.Millisecond},
	tasks: measureDelayed,
}

const (
	tasksStarted = "tasks started"

	// asynq rounds times to seconds, so a delayed task may be late by 0.
	startP50 = "start p50"
	startP99 = "start p99"
	startMax = "start max"
)

// starts has the times at which tasks have started, by their numbers.
type starts struct {
	mu    sync.Mutex
	times map[int64]time.Time
	news  chan struct{}
}

func newStarts() *starts {
	return &starts{times: map[int64]time.Time{}, news: make(chan struct{}, 1)}
}

// note is the function of a task.
func (s *starts) note(payload []byte) {
	now := time.Now()
	s.mu.Lock()
	s.times[numberOf(payload)] = now
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// wait waits for the start of the task with the number.
func (s *starts) wait(ctx context.Context, number int64) (time.Time, error) {
	for {
		s.mu.Lock()
		at, ok := s.times[number]
		s.mu.Unlock()
		if ok {
			return at, nil
		}
		select {
		case <-s.news:
		case <-ctx.Done():
			return at, context.Cause(ctx)
		}
	}
}

// measureIdle enqueues one task after the other. Each starts before the next
// one comes, and the workers are idle in between. A library that takes long
// gets fewer tasks.
func measureIdle(r taskRun) (figures, error) {
	return r.withIdleWorkers(func(ctx context.Context, q taskQueue, s *starts) ([]float64, error) {
		var waits []float64
		end := time.Now().Add(r.Duration)
		for i := range int64(r.Tasks) {
			if i > 0 && time.Now().After(end) {
				break
			}
			time.Sleep(r.Think + rand.N(r.Think))
			asked := time.Now()
			if err := q.enqueue(ctx, payloadOf(i), 0); err != nil {
				return nil, err
			}
			at, err := s.wait(ctx, i)
			if err != nil {
				return nil, err
			}
			waits = append(waits, at.Sub(asked).Seconds())
		}
		return waits, nil
	})
}

// measureDelayed enqueues delayed tasks at a slow pace, and then waits for all
// of them.
func measureDelayed(r taskRun) (figures, error) {
	return r.withIdleWorkers(func(ctx context.Context, q taskQueue, s *starts) ([]float64, error) {
		due := make([]time.Time, r.Tasks)
		for i := range due {
			due[i] = time.Now().Add(r.Hold)
			if err := q.enqueue(ctx, payloadOf(int64(i)), r.Hold); err != nil {
				return nil, err
			}
			time.Sleep(r.Think)
		}
		late := make([]float64, r.Tasks)
		for i := range late {
			at, err := s.wait(ctx, int64(i))
			if err != nil {
				return nil, err
			}
			late[i] = max(0, at.Sub(due[i]).Seconds())
		}
		return late, nil
	})
}

// withIdleWorkers measures times with workers of another client, that have
// processed a task and found no more.
func (r taskRun) withIdleWorkers(
	measure func(context.Context, taskQueue, *starts) ([]float64, error),
) (figures, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	producer, err := r.open()
	if err != nil {
		return nil, err
	}
	defer producer.close() //nolint:errcheck // the enqueues' errors count
	worker, err := r.open()
	if err != nil {
		return nil, err
	}
	defer worker.close() //nolint:errcheck // the tasks' starts count
	s := newStarts()
	stop, err := worker.process(r.Goroutines, s.note)
	if err != nil {
		return nil, err
	}
	defer stop() //nolint:errcheck // the tasks' starts count
	if err := producer.enqueue(ctx, payloadOf(-1), 0); err != nil {
		return nil, err
	}
	if _, err := s.wait(ctx, -1); err != nil {
		return nil, err
	}
	times, err := measure(ctx, producer, s)
	return figures{}.add(tasksStarted, float64(len(times))).
		add(startP50, percentile(times, 50)).add(startP99, percentile(times, 99)).add(startMax, percentile(times, 100)), err
}
