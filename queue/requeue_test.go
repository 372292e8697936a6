package queue_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/queue"
)

// RequeueDied queues what died in a time, however much that is, and nothing
// else.
func TestRequeueDied(t *testing.T) {
	q := newQueue(t, redistest.Shared(t))
	died := map[string]time.Time{}
	letter := func(ids ...string) {
		enqueue(t, q, "", ids...)
		for range ids {
			got, err := q.Receive(t.Context(), 1)
			require.NoError(t, err)
			require.NoError(t, got[0].DeadLetter(t.Context(), errors.New("why")))
		}
		for one, err := range q.DeadLetters(t.Context()) {
			require.NoError(t, err)
			died[one.ID] = one.DiedAt
		}
	}
	requeue := func(from, until time.Time) int {
		n, err := q.RequeueDied(t.Context(), from, until)
		require.NoError(t, err)
		return n
	}
	letter("first")
	letter("second")
	letter(named(150)...)
	require.Zero(t, requeue(died["second"].Add(time.Hour), time.Time{}))
	require.Zero(t, requeue(time.Time{}, died["first"]))
	require.Equal(t, 1, requeue(died["second"], died["t0"]))
	require.NoError(t, receive(t, q, "second").Ack(t.Context()))
	require.Equal(t, 150, requeue(died["t0"], time.Now().Add(time.Hour)))
	require.Equal(t, 1, requeue(time.Time{}, time.Time{}))
	require.Zero(t, requeue(time.Time{}, time.Time{}))
	_, err := q.RequeueDied(t.Context(), time.Now(), time.Now().Add(-time.Hour))
	require.ErrorIs(t, err, relock.ErrInvalid)
	_, err = (*queue.Queue)(nil).RequeueDied(t.Context(), time.Time{}, time.Time{})
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.Zero(t, requeue(time.Unix(-5, 0), time.Unix(-4, 0)))
}
