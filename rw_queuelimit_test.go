package relock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A call finds the queue full, and does not wait.
func TestRWLockQueueLimit(t *testing.T) {
	t.Parallel()
	q := newRWLine(t, false, 2)
	h := q.take(q.clients[0])
	w := q.next(q.read(t.Context(), q.clients[1], WithQueueLimit(1)), 1)
	require.ErrorIs(t, q.rw(q.clients[0], WithQueueLimit(1)).Lock(as(t, "another")), ErrQueueFull)
	q.unlock(h)
	q.unlock(w.granted())
	q.requireNothingLeft()
}
