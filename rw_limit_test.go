package relock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

func rwLimitedTo(w rwWait, limit any) script.Call {
	s := w.enqueue()
	s.Args = append(s.Args, limit)
	return s
}

// A newcomer is refused when as many wait as may; one that is in the queue already, or has a ticket, is not a newcomer. What can be had is
// handed over all the same, and a newcomer takes what nobody who lives waits for.
func TestRWScriptEnqueueIsLimited(t *testing.T) {
	s := redistest.Shared(t)
	first, second, third := rwWaitNamed("c1", 1, "sf"), rwWaitNamed("c2", 1, "wf"), rwWaitNamed("c3", 1, "sf")
	b := newRWBench(t, s)
	require.Equal(t, "1", b.code(rwWaitNamed("c9", 1, "wf").try()))
	require.Equal(t, "0", b.code(rwLimitedTo(first, 2)))
	require.Equal(t, "0", b.code(rwLimitedTo(second, 2)))
	require.Equal(t, "5", b.code(rwLimitedTo(third, 2)))
	b.requireQueue("full", first, second)
	require.Equal(t, "0", b.code(rwLimitedTo(second, 2)), "is in the queue")
	again := third.enqueueAgain("1")
	again.Args = append(again.Args, 2)
	require.Equal(t, "0", b.code(again), "has a ticket")
	for _, limit := range []any{"", "0", "-1", "x"} {
		_, err := b.send(rwLimitedTo(first, limit))
		require.ErrorContains(t, err, "bad arguments")
	}

	b = newRWBench(t, s)
	b.show(map[string]shownBeat{"c2": {0, 0}})
	b.stand(time.Minute, second)
	require.Equal(t, "5", b.code(rwLimitedTo(first, 1)))
	require.Equal(t, []string{second.reserved()}, b.lock())

	b = newRWBench(t, s)
	b.stand(time.Minute, rwGone(3, "wf")...)
	require.Equal(t, "1", b.code(rwLimitedTo(first, 3)))
	require.Equal(t, []string{first.reads()}, b.lock())

	b = newRWBench(t, s)
	b.show(map[string]shownBeat{"c1": {0, 0}})
	b.stand(time.Minute, append(rwGone(3, "wf"), first)...)
	require.Equal(t, "5", b.code(rwLimitedTo(second, 3)), "others read now")
	require.Equal(t, []string{first.reserved()}, b.lock())
}

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
