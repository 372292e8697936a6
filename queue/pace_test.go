package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/queue"
)

// large enqueues tasks of 400 KiB, and returns their IDs.
func large(t *testing.T, q *queue.Queue, n int) (ids []string) {
	t.Helper()
	for i := range n {
		ids = append(ids, fmt.Sprint(i))
		require.NoError(t, put(t.Context(), q, queue.Task{ID: ids[i], Payload: make([]byte, 400<<10)}))
	}
	return ids
}

// slowLink returns a queue whose client gets so many bytes of the answers to a
// script in a second.
func slowLink(t *testing.T, s *redistest.Server, rate int, of *script.TaskScript, opts ...queue.Option) *queue.Queue {
	t.Helper()
	q, p := behindProxy(t, s, opts...)
	s.Do(t, "SCRIPT", "LOAD", of.Source)
	p.On(faults.Script(of.SHA), faults.Every, faults.AnswerRate(rate))
	return q
}

// What is due together need not come in one answer: over a link on which that
// takes too long, fewer tasks are received, also under a short lease.
func TestLargeTasksOverASlowLink(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	for name, tt := range map[string]struct {
		rate  int // 4 MiB take 4 s, and the limit is 3 s; or 1.5 s for 1 s
		lease time.Duration
	}{"slow": {1 << 20, 30 * time.Second}, "short lease": {8 << 20 / 3, 3 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, producer := slowLink(t, s, tt.rate, script.TaskReceive, queue.WithLease(tt.lease)), newQueue(t, s)
			ids := large(t, producer, 10)
			done := make(chan string, len(ids))
			stop := processing(t, q, func(_ context.Context, d *queue.Delivery) error {
				if d.Attempt > 1 {
					return errors.New("what did not come counts as an attempt")
				}
				done <- d.ID
				return nil
			})
			eventually(t, producer, "all are done", isEmpty)
			require.NoError(t, stop())
			require.Len(t, done, len(ids))
		})
	}
}

// A page of dead letters that does not come in time is requested again,
// shorter. All are listed once, in their order.
func TestDeadLettersOverASlowLink(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	q, producer := slowLink(t, s, 1<<20, script.TaskDead), newQueue(t, s)
	ids := large(t, producer, 10)
	for _, id := range ids {
		require.NoError(t, receive(t, producer, id).DeadLetter(t.Context(), nil))
	}
	var listed []string
	for letter, err := range q.DeadLetters(t.Context()) {
		require.NoError(t, err)
		require.Len(t, letter.Payload, 400<<10)
		listed = append(listed, letter.ID)
	}
	require.Equal(t, ids, listed)
}

// A page that never comes ends the list with an error.
func TestDeadLettersWithoutAnswer(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	s.Do(t, "SCRIPT", "LOAD", script.TaskDead.Source)
	p := faults.Start(t, s.Network, s.Address)
	dead := faults.Script(script.TaskDead.SHA)
	p.On(dead, faults.Every, faults.DropAnswer)
	q := queueOf(t, newClient(t, &redistest.Server{Network: p.Network, Address: p.Address},
		relock.WithCommandTimeout(500*time.Millisecond)))
	var ends []error
	for _, err := range q.DeadLetters(t.Context()) {
		ends = append(ends, err)
	}
	require.Len(t, ends, 1)
	require.Error(t, ends[0])
	var asked []string
	for _, r := range p.Seen() {
		if dead(r.Args) {
			asked = append(asked, r.Args[len(r.Args)-1])
		}
	}
	require.Equal(t, []string{"4194304", "1048576", "262144", "65536", "1"}, slices.Compact(asked), "%v", ends)
}
