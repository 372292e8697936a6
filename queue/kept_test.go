package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// Dead letters that are no longer kept are not shown, though nothing has
// deleted them yet. A worker that waits deletes them, and ids that are no
// longer refused.
func TestWhatIsNoLongerKept(t *testing.T) {
	s := redistest.Shared(t)
	q, few := newQueue(t, s, queue.WithUnique(time.Hour)), newQueue(t, s, queue.WithDeadLetterLimit(1, time.Hour))
	enqueue(t, q, "", "done", "old", "first", "second")
	require.NoError(t, receive(t, q, "done").Ack(t.Context()))
	for _, id := range []string{"old", "first", "second"} {
		require.NoError(t, receive(t, q, id).DeadLetter(t.Context(), nil))
	}
	end(t, s, "z", "old")
	end(t, s, "u", "done")
	requireLetters(t, q, "first", "second")
	requireLetters(t, few, "second")
	kept := func(set string) int64 {
		return s.Do(t, "ZCARD", "relock:queue:{"+t.Name()+"}:"+set).(int64)
	}
	require.Equal(t, int64(3), kept("z"), "nothing has deleted them")
	stop := processing(t, few, func(context.Context, *queue.Delivery) error { return nil })
	testkit.Eventually(t, testkit.Patience, func() bool { return kept("z") == 1 && kept("u") == 0 }, "they are deleted")
	require.NoError(t, stop())
	requireLetters(t, q, "second")
	enqueue(t, q, "", "old")
}

// requireLetters requires the dead letters that the queue shows.
func requireLetters(t *testing.T, q *queue.Queue, ids ...string) {
	t.Helper()
	var got []string
	for letter, err := range q.DeadLetters(t.Context()) {
		require.NoError(t, err)
		got = append(got, letter.ID)
	}
	require.Equal(t, ids, got)
	stats, err := q.Stats(t.Context())
	require.NoError(t, err)
	require.Equal(t, len(ids), stats.Dead)
}
