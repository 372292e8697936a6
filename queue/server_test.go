package queue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/queue"
)

// Mistakes in a queue are reported together.
func TestNewMistakes(t *testing.T) {
	c := newClient(t, redistest.Shared(t))
	_, err := queue.New("", nil, nil, queue.WithLease(time.Millisecond), queue.WithMaxAttempts(0), queue.WithBackoff(nil), queue.WithUnique(-1),
		queue.WithDeadLetterLimit(-1, 0))
	require.ErrorIs(t, err, relock.ErrInvalid)
	for _, what := range []string{"key: is empty", "client:", "opts[0]", "WithLease", "WithMaxAttempts", "WithBackoff", "WithUnique", "WithDeadLetterLimit: -1", "WithDeadLetterLimit: 0s"} {
		require.ErrorContains(t, err, what)
	}
	_, err = queue.New("a", &relock.Client{})
	require.ErrorContains(t, err, "client:")
	q, err := queue.New("a", c)
	require.NoError(t, err)
	require.Equal(t, "a", q.Name())
	require.Equal(t, `queue "a"`, q.String())
	for _, none := range []*queue.Queue{nil, {}} {
		require.ErrorIs(t, none.Enqueue(t.Context()), relock.ErrInvalid)
	}
	var e *relock.Error
	require.ErrorAs(t, q.Remove(t.Context(), ""), &e)
	require.Equal(t, "a", e.Key)
}

// A bad task is named, and the others are queued.
func TestEnqueueMistakes(t *testing.T) {
	q := newQueue(t, redistest.Shared(t))
	long := strings.Repeat("x", 1<<20+1)
	err := q.Enqueue(t.Context(),
		queue.Task{ID: long[:257]}, queue.Task{ID: "1", Key: long[:513]}, queue.Task{ID: "2", Key: "a\x00b"}, queue.Task{ID: "3", Payload: []byte(long)},
		queue.Task{ID: "4", Delay: -1}, queue.Task{ID: "5", Delay: 11 * 365 * 24 * time.Hour}, queue.Task{ID: "6", Header: map[string]string{"a": long[:4<<10]}},
		queue.Task{ID: "good"}, queue.Task{ID: "good"}, queue.Task{ID: "largest", Key: long[:512], Payload: []byte(long[1:])})
	require.ErrorIs(t, err, relock.ErrInvalid)
	for _, what := range []string{"tasks[0]", "ID: 257 bytes are above 256", `tasks[1] "1": invalid: Key: 513 bytes are above 512`, "Key: has a zero byte", "Payload: 1048577 bytes are above 1048576", "Delay: -1ns is negative", "Delay: 96360h", "Header: 4097 bytes are above 4096"} {
		require.ErrorContains(t, err, what)
	}
	var d *queue.DuplicateError
	require.ErrorAs(t, err, &d)
	require.ErrorIs(t, err, queue.ErrDuplicate)
	require.Equal(t, []string{"good"}, d.IDs)
	got, err := q.TryReceive(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, "largest", got[1].ID)
	require.Len(t, got[1].Payload, 1<<20)
	_, err = q.Receive(t.Context(), 0)
	require.ErrorIs(t, err, relock.ErrInvalid)
	for _, one := range got {
		require.NoError(t, one.Ack(t.Context()))
	}
}

// Many and large tasks are queued in order.
func TestEnqueueMany(t *testing.T) {
	q := newQueue(t, redistest.Shared(t))
	var tasks []queue.Task
	for i := range 150 {
		tasks = append(tasks, queue.Task{ID: fmt.Sprintf("%03d", i), Payload: make([]byte, 40<<10)})
	}
	require.NoError(t, q.Enqueue(t.Context(), tasks...))
	var d *queue.DuplicateError
	require.ErrorAs(t, q.Enqueue(t.Context(), tasks...), &d)
	require.Len(t, d.IDs, 150)
	require.ErrorContains(t, d, `"009"] and 140 more`)
	for i := 0; i < 150; {
		got, err := q.TryReceive(t.Context(), 64)
		require.NoError(t, err)
		require.NotEmpty(t, got)
		for _, one := range got {
			require.Equal(t, tasks[i].ID, one.ID)
			require.NoError(t, one.Ack(t.Context()))
			i++
		}
	}
}

// An id that is done is refused within its window.
func TestUnique(t *testing.T) {
	s := redistest.Shared(t)
	q := newQueue(t, s, queue.WithUnique(time.Hour))
	enqueue(t, q, "", "a")
	require.NoError(t, receive(t, q, "a").Ack(t.Context()))
	require.ErrorIs(t, q.Enqueue(t.Context(), queue.Task{ID: "a"}), queue.ErrDuplicate)
	end(t, s, "u", "a")
	enqueue(t, q, "", "a")
	require.NoError(t, receive(t, q, "a").Ack(t.Context()))
}

// While the memory is used up, Enqueue is refused, and a settle passes.
func TestOutOfMemory(t *testing.T) {
	s := redistest.Start(t)
	q := newQueue(t, s)
	enqueue(t, q, "", "a", "b")
	enqueue(t, q, "k", "1", "2")
	got, err := q.Receive(t.Context(), 3)
	require.NoError(t, err)
	s.Do(t, "CONFIG", "SET", "maxmemory", 1)
	err = q.Enqueue(t.Context(), queue.Task{ID: "c"})
	require.True(t, relock.IsRetryableErr(err), "%v", err)
	require.ErrorContains(t, err, "OOM")
	require.ErrorContains(t, err, `"c"`)
	require.NoError(t, got[0].Ack(t.Context()))
	require.NoError(t, got[1].Release(t.Context()))
	require.NoError(t, got[2].Ack(t.Context()))
	s.Do(t, "CONFIG", "SET", "maxmemory", 0)
	require.NoError(t, receive(t, q, "b").Ack(t.Context()))
	require.NoError(t, receive(t, q, "2").Ack(t.Context()))
}

// Without the permission to publish, to subscribe, or to find who is idle,
// workers poll.
func TestWithoutMessages(t *testing.T) {
	for _, rule := range []string{"-publish", "-subscribe", "-zpopmin", "resetchannels"} {
		t.Run(rule, func(t *testing.T) {
			s := redistest.Start(t)
			s.Do(t, "ACL", "SETUSER", "less", "on", ">secret", "~*", "&*", "+@all", rule)
			c, err := relock.NewClient(s.Network, s.Address, "secret", relock.WithUsername("less"))
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			q := queueOf(t, c)
			got := make(chan struct{})
			stop := processing(t, q, func(context.Context, *queue.Delivery) error {
				close(got)
				return nil
			})
			eventually(t, q, "it waits", func(s queue.Stats) bool { return s.Idle == 1 })
			enqueue(t, q, "", "a")
			_, ok := testkit.Await(got, testkit.Patience)
			require.True(t, ok)
			require.NoError(t, stop())
		})
	}
}

// A user without the commands of the queue gets ErrDenied.
func TestDenied(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "less", "on", ">secret", "~*", "&*", "+@all", "-evalsha", "-eval")
	c, err := relock.NewClient(s.Network, s.Address, "secret", relock.WithUsername("less"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	q := queueOf(t, c)
	require.ErrorIs(t, q.Enqueue(t.Context(), queue.Task{}), relock.ErrDenied)
	_, err = q.Receive(t.Context(), 1)
	require.ErrorIs(t, err, relock.ErrDenied)
	require.ErrorIs(t, q.Process(t.Context(), func(context.Context, *queue.Delivery) error { return nil }), relock.ErrDenied)
	_, err = q.Stats(t.Context())
	require.ErrorIs(t, err, relock.ErrDenied)
	for _, err := range q.DeadLetters(t.Context()) {
		require.ErrorIs(t, err, relock.ErrDenied)
	}
}

// FLUSHALL loses tasks and leases, and nothing hangs.
func TestFlush(t *testing.T) {
	s := redistest.Start(t)
	q := newQueue(t, s, queue.WithLease(time.Second))
	enqueue(t, q, "k", "a", "b")
	d := receive(t, q, "a")
	s.Do(t, "FLUSHALL")
	require.ErrorIs(t, testkit.EndedWithin(t, d.Context(), testkit.Patience), relock.ErrLockLost)
	require.ErrorIs(t, d.Ack(t.Context()), relock.ErrLockLost)
	enqueue(t, q, "k", "c")
	again := receive(t, q, "c")
	require.Greater(t, again.Fence(), d.Fence())
	require.NoError(t, again.Ack(t.Context()))
}

// After FLUSHALL, workers that ran or waited go on with new tasks.
func TestFlushWhileProcessing(t *testing.T) {
	s := redistest.Start(t)
	q, producer := newQueue(t, s, queue.WithLease(3*time.Second)), newQueue(t, s)
	cause, done := make(chan error, 1), make(chan string, 10)
	var first atomic.Bool
	stop := processing(t, q, func(ctx context.Context, d *queue.Delivery) error {
		if first.CompareAndSwap(false, true) {
			<-ctx.Done()
			cause <- context.Cause(ctx)
		}
		done <- d.ID
		return nil
	}, queue.WithWorkers(2))
	enqueue(t, producer, "k", "running", "flushed")
	eventually(t, producer, "one runs, and one waits", func(s queue.Stats) bool { return s.InFlight == 1 && s.Idle == 1 })
	s.Do(t, "FLUSHALL")
	enqueue(t, producer, "k", "running", "new") // one has the ID of the one that still runs
	err, ok := testkit.Await(cause, testkit.Patience)
	require.True(t, ok)
	require.ErrorIs(t, err, relock.ErrLockLost)
	eventually(t, producer, "the new ones are done", isEmpty)
	require.NoError(t, stop())
	close(done)
	var all []string
	for id := range done {
		all = append(all, id)
	}
	require.ElementsMatch(t, []string{"running", "running", "new"}, all, "the lost one, and the new ones")
}

// Close and cancellation end each call.
func TestClose(t *testing.T) {
	c := newClient(t, redistest.Shared(t))
	q := queueOf(t, c)
	enqueue(t, q, "", "a")
	d := receive(t, q, "a")
	waiting := testkit.Async(t, func() error {
		_, err := q.Receive(t.Context(), 1)
		return err
	})
	eventually(t, q, "it waits", func(s queue.Stats) bool { return s.Idle == 1 })
	require.NoError(t, c.Close())
	require.ErrorIs(t, testkit.ResultWithin(t, waiting, testkit.Patience), relock.ErrClosed)
	require.ErrorIs(t, d.Ack(t.Context()), relock.ErrClosed)
	require.ErrorIs(t, context.Cause(d.Context()), relock.ErrClosed)
	require.ErrorIs(t, q.Enqueue(t.Context(), queue.Task{}), relock.ErrClosed)
	require.ErrorIs(t, q.Remove(t.Context(), "a"), relock.ErrClosed)
	_, err := q.TryReceive(t.Context(), 1)
	require.ErrorIs(t, err, relock.ErrClosed)
	_, err = q.Requeue(t.Context(), "a")
	require.ErrorIs(t, err, relock.ErrClosed)
	_, err = q.Stats(t.Context())
	require.ErrorIs(t, err, relock.ErrClosed)

	q = newQueue(t, redistest.Shared(t))
	why := errors.New("why")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	require.ErrorIs(t, q.Enqueue(ctx, queue.Task{}), why)
	_, err = q.Receive(ctx, 1)
	require.ErrorIs(t, err, why)
}

// The pauses between attempts grow to an hour, and differ.
func TestBackoff(t *testing.T) {
	for attempt, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 12: 2048 * time.Second, 13: time.Hour, 25: time.Hour, 1000: time.Hour, 0: time.Second} {
		different := map[time.Duration]bool{}
		for range 20 {
			pause := queue.Backoff(attempt, nil)
			require.LessOrEqual(t, pause, want)
			require.Greater(t, pause, want*4/5-1)
			different[pause] = true
		}
		require.Greater(t, len(different), 1)
	}
}

// The observer sees each task that is queued, received and finished.
func TestObserver(t *testing.T) {
	var seen []string
	q := newQueue(t, redistest.Shared(t), queue.WithObserver(queue.Observer{
		Enqueued: func(_ context.Context, e queue.Enqueued) { seen = append(seen, "enqueued "+e.ID) },
		Received: func(_ context.Context, e queue.Received) {
			seen = append(seen, fmt.Sprintf("received %s %d %t", e.ID, e.Attempt, e.Waited < time.Minute))
		},
		Finished: func(_ context.Context, e queue.Finished) {
			seen = append(seen, fmt.Sprintf("%s %s %v", e.Outcome, e.ID, e.Err))
		},
	}))
	enqueue(t, q, "k", "a")
	require.Error(t, q.Enqueue(t.Context(), queue.Task{ID: "a"}))
	d := receive(t, q, "a")
	require.NoError(t, d.Nack(t.Context(), 0, errors.New("why")))
	require.Error(t, d.Ack(t.Context()))
	require.NoError(t, receive(t, q, "a").Ack(t.Context()))
	require.Equal(t, []string{"enqueued a", "received a 1 true", "failed a why", "received a 2 true", "acknowledged a <nil>"}, seen)
}

// The permissions in docs/queue.md are enough for everything, and each of them
// is needed.
func TestPermissions(t *testing.T) {
	s := redistest.Start(t)
	text, err := os.ReadFile("../docs/queue.md")
	require.NoError(t, err)
	commands := regexp.MustCompile(`\+\w+`).FindAllString(string(text), -1)
	require.Greater(t, len(commands), 20)
	allow := func(commands ...string) {
		args := []any{"SETUSER", "worker", "reset", "on", ">secret", "~relock:queue:{" + t.Name() + "}:*", "&relock:*"}
		for _, command := range commands {
			args = append(args, command)
		}
		s.Do(t, "ACL", args...)
	}
	allow(commands...)
	var log bytes.Buffer
	c, err := relock.NewClient(s.Network, s.Address, "secret", relock.WithUsername("worker"), relock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	q := queueOf(t, c, queue.WithUnique(time.Millisecond), queue.WithMaxAttempts(2))
	plain := queueOf(t, c)
	renewal := 1 // 0 where it may be refused
	all := func() error {
		ctx := t.Context()
		err := errors.Join(
			q.Enqueue(ctx, queue.Task{ID: "a", Key: "k"}, queue.Task{ID: "b", Key: "k"}, queue.Task{ID: "c", Key: "k"}, queue.Task{ID: "late", Delay: time.Hour}),
			plain.Enqueue(ctx, queue.Task{ID: "plain", Delay: time.Hour}))
		err = errors.Join(err, plain.Enqueue(ctx, queue.Task{ID: "now"}), plain.Remove(ctx, "now"))
		if err != nil {
			return err
		}
		for range 3 {
			got, err := q.TryReceive(ctx, 1)
			if err != nil {
				return err
			}
			if len(got) == 0 {
				break
			}
			until := got[0].ValidUntil()
			got[0].RenewNow()
			for range renewal {
				testkit.Eventually(t, testkit.Patience, func() bool { return got[0].ValidUntil().After(until) }, "renewed")
			}
			switch got[0].ID {
			case "a":
				err = got[0].DeadLetter(ctx, nil)
			case "b":
				err = errors.Join(got[0].Release(ctx), q.Remove(ctx, "b"))
			default:
				err = got[0].Ack(ctx)
			}
			if err != nil {
				return err
			}
		}
		_, err1 := q.Stats(ctx)
		for _, err := range q.DeadLetters(ctx) {
			err1 = errors.Join(err1, err)
		}
		_, err2 := q.Requeue(ctx, "a")
		return errors.Join(err1, err2, q.Remove(ctx, "late"), plain.Remove(ctx, "plain"))
	}
	require.NoError(t, all())
	s.Do(t, "FLUSHALL")
	allow(locktest.ReadCategories(t, "README.md").Least[3:]...)
	require.NoError(t, all(), "the README's line by categories")
	require.NotContains(t, log.String(), "NOPERM")

	renewal = 0
	for i, command := range commands {
		switch command {
		case "+eval", "+evalsha", "+publish", "+subscribe", "+zpopmin": // TestDenied, TestWithoutMessages
			continue
		}
		s.Do(t, "FLUSHALL")
		allow(slices.Delete(slices.Clone(commands), i, i+1)...)
		require.ErrorIs(t, all(), relock.ErrDenied, command)
	}
}
