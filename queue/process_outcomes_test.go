package queue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// What the function returns decides what becomes of the task.
func TestProcessOutcomes(t *testing.T) {
	var log bytes.Buffer
	s := redistest.Shared(t)
	c := newClient(t, s, relock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	var mu sync.Mutex
	var finished []queue.Finished
	q := queueOf(t, c, queue.WithMaxAttempts(2), queue.WithBackoff(func(attempt int, err error) time.Duration {
		return time.Duration(attempt) * 10 * time.Millisecond
	}), queue.WithObserver(queue.Observer{Finished: func(_ context.Context, e queue.Finished) {
		mu.Lock()
		defer mu.Unlock()
		finished = append(finished, e)
	}}))
	attempts := map[string]int{}
	broken := errors.New("broken")
	stop := processing(t, q, func(ctx context.Context, d *queue.Delivery) error {
		mu.Lock()
		attempts[d.ID]++
		mu.Unlock()
		switch d.ID {
		case "fails once":
			if d.Attempt == 1 {
				return broken
			}
		case "fails":
			return broken
		case "permanent":
			return queue.Permanent(broken)
		case "panics":
			panic("at the disco")
		case "settles itself":
			return errors.Join(d.Ack(ctx), broken)
		}
		return nil
	})
	for _, id := range []string{"works", "fails once", "fails", "permanent", "panics", "settles itself"} {
		enqueue(t, q, "", id)
	}
	eventually(t, q, "all have ended", isEmpty)
	require.NoError(t, stop())
	require.Equal(t,
		map[string]int{"works": 1, "fails once": 2, "fails": 2, "permanent": 1, "panics": 2, "settles itself": 1}, attempts)
	reasons := map[string]string{}
	for letter, err := range q.DeadLetters(t.Context()) {
		require.NoError(t, err)
		reasons[letter.ID] = letter.Reason
	}
	require.Len(t, reasons, 3)
	require.Equal(t, "broken", reasons["fails"])
	require.Equal(t, "broken", reasons["permanent"])
	require.Contains(t, reasons["panics"], "panic: at the disco\n")
	require.Contains(t, reasons["panics"], "process_outcomes_test.go")
	require.Contains(t, log.String(), "at the disco")
	outcomes := map[string][]queue.Outcome{}
	for _, e := range finished {
		outcomes[e.ID] = append(outcomes[e.ID], e.Outcome)
	}
	require.Equal(t, map[string][]queue.Outcome{
		"works": {queue.Acknowledged}, "fails once": {queue.Failed, queue.Acknowledged}, "fails": {queue.Failed, queue.Dead},
		"permanent": {queue.Dead}, "panics": {queue.Failed, queue.Dead}, "settles itself": {queue.Acknowledged},
	}, outcomes)
	require.NoError(t, queue.Permanent(nil))
	require.ErrorIs(t, queue.Permanent(broken), broken)
}

// A function's context ends with its timeout, which is the reason of the dead
// letter, whatever the function returns of that.
func TestProcessTimeout(t *testing.T) {
	for reason, of := range map[string]func(context.Context) error{
		"WithTimeout of 20ms: context deadline exceeded":                   context.Cause,
		"WithTimeout of 20ms: context deadline exceeded: context canceled": context.Context.Err,
	} {
		q := newQueue(t, redistest.Shared(t), queue.WithMaxAttempts(1))
		stop := processing(t, q, func(ctx context.Context, _ *queue.Delivery) error {
			<-ctx.Done()
			return of(ctx)
		}, queue.WithTimeout(20*time.Millisecond))
		id := fmt.Sprint(len(reason))
		enqueue(t, q, "", id)
		found := func() (all []string) {
			for letter, err := range q.DeadLetters(t.Context()) {
				require.NoError(t, err)
				if letter.ID == id {
					all = append(all, letter.Reason)
				}
			}
			return all
		}
		testkit.Eventually(t, testkit.Patience, func() bool { return len(found()) > 0 }, "it has failed")
		require.NoError(t, stop())
		require.Equal(t, []string{reason}, found())
	}
}

// A function that ends its goroutine has failed. Its worker goes on, and its
// lock is free.
func TestProcessGoexit(t *testing.T) {
	c := newClient(t, redistest.Shared(t))
	q := queueOf(t, c, queue.WithMaxAttempts(1))
	locker, err := relock.NewLocker(c)
	require.NoError(t, err)
	name := t.Name() + "lock"
	stop := processing(t, q, func(_ context.Context, d *queue.Delivery) error {
		if d.ID != "last" {
			runtime.Goexit()
		}
		return nil
	}, queue.WithWorkers(1), queue.WithLocker(locker, func(t queue.Task) string { return t.Header["lock"] }))
	require.NoError(t, put(t.Context(), q, queue.Task{ID: "plain"},
		queue.Task{ID: "locked", Header: map[string]string{"lock": name}}, queue.Task{ID: "last"}))
	eventually(t, q, "all have ended", isEmpty)
	hold, err := locker.TryLock(t.Context(), name)
	require.NoError(t, err)
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, stop())
	letters := 0
	for letter, err := range q.DeadLetters(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, "the function has ended its goroutine", letter.Reason)
		letters++
	}
	require.Equal(t, 2, letters)
}

// panicking panics where it can: as a Locker, and as an error.
type panicking struct{ relock.Locker }

// A panic beside the function fails the attempt, too.
func TestProcessPanicsBeside(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	q := newQueue(t, s, queue.WithMaxAttempts(2),
		queue.WithBackoff(func(int, error) time.Duration { panic("in the back-off") }))
	stop := processing(t, q, func(_ context.Context, d *queue.Delivery) error {
		if d.ID == "error" {
			return queue.Permanent(panicking{})
		}
		return errors.New("fails")
	}, queue.WithLocker(panicking{}, func(t queue.Task) string {
		switch t.ID {
		case "key":
			panic("in the key")
		case "locker":
			return t.ID
		}
		return ""
	}))
	enqueue(t, q, "", "error", "key", "locker")
	eventually(t, q, "they have ended", isEmpty)
	require.NoError(t, stop())
	reasons := map[string]string{}
	for letter, err := range q.DeadLetters(t.Context()) {
		require.NoError(t, err)
		reasons[letter.ID] = letter.Reason
	}
	require.Contains(t, reasons["key"], "panic: in the key\n")
	require.Contains(t, reasons["locker"], "panic: in the locker\n")
	require.Contains(t, reasons["error"], "panic: in the error\n")
}
