package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// enqueueing is so many producers that enqueue tasks of 100 bytes, one a call.
func enqueueing(producers int) scenario {
	return scenario{
		name: fmt.Sprintf("enqueue %d", producers), libraries: bothQueues, needs: []string{tasksPerSecond},
		load:  load{Goroutines: producers, Ramp: 200 * time.Millisecond, Duration: 2 * time.Second},
		tasks: measureEnqueue,
	}
}

var (
	enqueue1  = enqueueing(1)
	enqueue64 = enqueueing(64)
)

// processing is so many workers without any work, on a queue that is not empty.
func processing(name string, workers, tasks int) scenario {
	return scenario{
		name: name, libraries: bothQueues, needs: []string{tasksPerSecond},
		load: load{Goroutines: workers, Tasks: tasks}, tasks: measureProcess,
	}
}

var (
	process1  = processing("process by 1", 1, 10_000)
	process2  = processing("process by 2", 2, 15_000)
	process10 = processing("process by 10", 10, 40_000)
	process64 = processing("process", 64, 60_000)
)

const tasksPerSecond = "tasks a second"

func measureEnqueue(r taskRun) (figures, error) {
	q, err := r.open()
	if err != nil {
		return nil, err
	}
	defer q.close() //nolint:errcheck // the enqueues' errors count
	c := &counter{pairs: make([]padded, r.Goroutines)}
	done := make(chan error, 1)
	go func() {
		done <- inParallel(r.Goroutines, func(i int) error {
			for c.phase.Load() != over {
				if err := q.enqueue(context.Background(), payloadOf(0), 0); err != nil {
					return err
				}
				if c.phase.Load() == counting {
					atomic.AddInt64(&c.pairs[i].n, 1)
				}
			}
			return nil
		})
	}()
	report := c.measure(r.load)
	return figures{}.add(tasksPerSecond, rateOf(report)), <-done
}

// rateOf returns how much all goroutines have counted in a second.
func rateOf(r report) float64 {
	var n int64
	for _, count := range r.Counts {
		n += count
	}
	return float64(n) / r.Time.Seconds()
}

// measureProcess counts from the first task to the last one.
func measureProcess(r taskRun) (figures, error) {
	q, err := r.open()
	if err != nil {
		return nil, err
	}
	defer q.close() //nolint:errcheck // the processing's errors count
	if err := fill(context.Background(), q, r.Tasks); err != nil {
		return nil, err
	}
	took, err := drain(q, r.Goroutines, r.Tasks)
	return figures{}.add(tasksPerSecond, float64(r.Tasks-1)/took.Seconds()), err
}

// drain processes n tasks, and returns the time from the start of the first one
// to the start of the last one.
func drain(q taskQueue, workers, n int) (time.Duration, error) {
	var started atomic.Int64
	var first time.Time
	took := make(chan time.Duration, 1)
	stop, err := q.process(workers, func([]byte) {
		switch started.Add(1) {
		case 1:
			first = time.Now()
		case int64(n):
			took <- time.Since(first)
		}
	})
	if err != nil {
		return 0, err
	}
	select {
	case d := <-took:
		return d, stop()
	case <-time.After(2 * time.Minute):
		return 0, fmt.Errorf("%d of %d tasks were processed in two minutes: %w", started.Load(), n, stop())
	}
}
