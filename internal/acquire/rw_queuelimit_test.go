package acquire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
)

// A call finds the queue full, and does not wait.
func TestRWLockQueueLimit(t *testing.T) {
	t.Parallel()
	q := newRWLine(t, false, 2)
	h := q.Take(q.Clients[0])
	w := q.next(q.read(t.Context(), q.Clients[1], relock.WithQueueLimit(1)), 1)
	require.ErrorIs(t, q.rw(q.Clients[0], relock.WithQueueLimit(1)).Lock(locktest.As(t, "another")), relock.ErrQueueFull)
	q.Unlock(h)
	q.Unlock(w.Granted())
	q.RequireNothingLeft()
}
