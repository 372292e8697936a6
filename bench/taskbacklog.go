package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/queue"
)

// backlog is a queue with a million tasks over 100,000 keys, beside one with
// 1,000 tasks over 100 keys. No other library has keys.
var backlog = scenario{
	name: "backlog", libraries: []string{oursQueue},
	needs: []string{
		fewEnqueued, manyEnqueued, enqueueShare, fewProcessed, manyProcessed, processShare,
		enqueueP50, enqueueMax, receiveP50, receiveMax, settleP50, settleMax,
	},
	load: load{Goroutines: 64, Tasks: 1_000_000}, tasks: measureBacklog,
}

const (
	fewEnqueued   = "1,000 queued: enqueued a second, in 64s"
	manyEnqueued  = "a million queued: enqueued a second, in 64s"
	enqueueShare  = "enqueued with a million by 1,000"
	fewProcessed  = "1,000 queued: processed a second"
	manyProcessed = "a million queued: processed a second"
	processShare  = "processed with a million by 1,000"
	enqueueP50    = "enqueue script p50"
	enqueueMax    = "enqueue script max"
	receiveP50    = "receive script p50"
	receiveMax    = "receive script max"
	settleP50     = "settle script p50"
	settleMax     = "settle script max"
)

// What a round enqueues and processes, what one call enqueues, and how many
// tasks have one key.
const (
	roundSize  = 1000
	batchSize  = 64
	tasksOfKey = 10
)

func measureBacklog(r taskRun) (figures, error) {
	q, err := openRelockQueue(r.srv.address)
	if err != nil {
		return nil, err
	}
	defer q.close() //nolint:errcheck // the calls' errors count
	rounds := min(40, max(1, r.Tasks/roundSize/10))
	few, err := rates(q, r.Goroutines, rounds, roundSize/tasksOfKey)
	if err != nil {
		return nil, err
	}
	keys := max(r.Tasks/tasksOfKey, batchSize)
	if _, err := q.enqueueKeyed(r.Tasks, keys); err != nil {
		return nil, err
	}
	many, err := rates(q, r.Goroutines, rounds, keys)
	if err != nil {
		return nil, err
	}
	f := figures{}.
		add(fewEnqueued, few.enqueued).add(manyEnqueued, many.enqueued).add(enqueueShare, many.enqueued/few.enqueued).
		add(fewProcessed, few.processed).add(manyProcessed, many.processed).add(processShare, many.processed/few.processed)
	return f, q.scripts(r, keys, f)
}

// taskRates are medians over the rounds.
type taskRates struct{ enqueued, processed float64 }

// rates enqueues and processes tasks in rounds, so that the queue keeps its
// size.
func rates(q *relockQueue, workers, rounds, keys int) (taskRates, error) {
	var enqueued, processed []float64
	for range rounds {
		took, err := q.enqueueKeyed(roundSize, keys)
		if err != nil {
			return taskRates{}, err
		}
		enqueued = append(enqueued, roundSize/took.Seconds())
		if took, err = drain(q, workers, roundSize); err != nil {
			return taskRates{}, err
		}
		processed = append(processed, (roundSize-1)/took.Seconds())
	}
	return taskRates{median(enqueued), median(processed)}, nil
}

// enqueueKeyed enqueues n tasks in batches, over so many keys in turn. It
// returns how long the calls took.
func (l *relockQueue) enqueueKeyed(n, keys int) (took time.Duration, err error) {
	for from := 0; from < n; from += batchSize {
		tasks := make([]queue.Task, min(batchSize, n-from))
		for i := range tasks {
			tasks[i] = queue.Task{Key: fmt.Sprintf("key-%d", (from+i)%keys), Payload: payloadOf(int64(from + i))}
		}
		start := time.Now()
		if _, err := l.queue.Enqueue(context.Background(), tasks...); err != nil {
			return took, err
		}
		took += time.Since(start)
	}
	return took, nil
}

// scripts adds how long scripts for 64 tasks take the server, by its own clock.
func (l *relockQueue) scripts(r taskRun, keys int, f figures) error {
	if err := r.srv.logAllCommands(10_000); err != nil {
		return err
	}
	for range 50 {
		if _, err := l.enqueueKeyed(batchSize, keys); err != nil {
			return err
		}
		all, err := l.queue.TryReceive(context.Background(), batchSize)
		if err != nil {
			return err
		}
		if err := inParallel(len(all), func(i int) error { return all[i].Ack(context.Background()) }); err != nil {
			return err
		}
	}
	times, err := r.srv.scriptTimes(10_000, func(args []string) bool {
		return len(args) == slowlogArgs || slices.Contains(args, fmt.Sprint(batchSize))
	})
	for _, s := range []struct {
		script   *script.TaskScript
		p50, max string
	}{{script.TaskEnqueue, enqueueP50, enqueueMax}, {script.TaskReceive, receiveP50, receiveMax}, {
		script.TaskSettle, settleP50, settleMax,
	}} {
		f.add(s.p50, percentile(times[s.script.SHA], 50)).add(s.max, percentile(times[s.script.SHA], 100))
	}
	return err
}

// logAllCommands makes the server log each command, up to so many.
func (s *server) logAllCommands(most int) error {
	for _, args := range [][]any{{"SET", "slowlog-max-len", most}, {"SET", "slowlog-log-slower-than", 0}} {
		if _, err := s.admin.Do("CONFIG", args...); err != nil {
			return err
		}
	}
	_, err := s.admin.Do("SLOWLOG", "RESET")
	return err
}

// scriptTimes returns how long each script took that was logged and whose
// arguments count, in seconds, by its digest. The log has at most so many.
func (s *server) scriptTimes(most int, counts func(args []string) bool) (map[string][]float64, error) {
	entries, err := redis.Values(s.admin.Do("SLOWLOG", "GET", most))
	if err != nil {
		return nil, err
	}
	times := map[string][]float64{}
	for _, entry := range entries {
		var id, at, took int64
		var args []string
		values, err := redis.Values(entry, nil)
		if err == nil {
			_, err = redis.Scan(values, &id, &at, &took, &args)
		}
		if err != nil {
			return nil, err
		}
		if len(args) > 1 && strings.EqualFold(args[0], "EVALSHA") && counts(args) {
			times[args[1]] = append(times[args[1]], (time.Duration(took) * time.Microsecond).Seconds())
		}
	}
	return times, nil
}

// slowlogArgs is how many arguments of a command the server logs at most.
const slowlogArgs = 32
