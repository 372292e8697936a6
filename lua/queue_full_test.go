package lua_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// limitedTo is a call of enqueue that may be one of so many.
func limitedTo(w scripttest.Wait, limit any) script.Call {
	s := w.Enqueue()
	s.Args = append(s.Args, limit)
	return s
}

// A newcomer is refused when as many wait as may; one that is in the queue
// already, or has a ticket, is not a newcomer.
func TestEnqueueIsLimited(t *testing.T) {
	s := redistest.Shared(t)
	first, second, third := scripttest.WaitNamed("c1", 1, "pf"), scripttest.WaitNamed("c2", 1, "pf"), scripttest.WaitNamed("c3", 1, "pf")
	b := scripttest.NewQueue(t, s)
	require.Equal(t, "1", b.Code(scripttest.WaitNamed("c9", 1, "pf").Try()))
	require.Equal(t, "0", b.Code(limitedTo(first, 2)))
	require.Equal(t, "0", b.Code(limitedTo(second, 2)))
	require.Equal(t, "5", b.Code(limitedTo(third, 2)))
	require.Equal(t, []string{string(first), string(second)}, b.Waits())
	require.Equal(t, "0", b.Code(limitedTo(second, 2)), "is in the queue")
	again := third.EnqueueAgain("1", "")
	again.Args = append(again.Args, 2)
	require.Equal(t, "0", b.Code(again), "has a ticket")
	require.Equal(t, "0", b.Code(limitedTo(scripttest.WaitNamed("c4", 1, "pf"), 4)))
}

// A full queue of a free lock: it is handed over, or taken when nobody of those
// who wait lives.
func TestEnqueueAtAFullQueueOfAFreeLock(t *testing.T) {
	s := redistest.Shared(t)
	w, other := scripttest.WaitNamed("c1", 1, "pf"), scripttest.WaitNamed("c2", 1, "pf")
	t.Run("handed over", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		b.Show(map[string]scripttest.Beat{"c2": {Age: 0, Counted: 0}})
		b.Line(time.Minute, other)
		require.Equal(t, "5", b.Code(limitedTo(w, 1)))
		require.Equal(t, other.Reserved(), b.Lock())
		require.Empty(t, b.Waits())
	})
	t.Run("all are gone", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		b.Line(time.Minute, scripttest.StaleWaits(3)...)
		require.Equal(t, "1", b.Code(limitedTo(w, 3)))
		require.Equal(t, w.Held(), b.Lock())
	})
	t.Run("more are gone than one script looks at", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		b.Line(time.Minute, scripttest.StaleWaits(130)...)
		require.Equal(t, "5", b.Code(limitedTo(w, 3)))
		require.Empty(t, b.Lock())
		require.Len(t, b.Waits(), 2)
	})
}

func TestEnqueueRefusesBadLimits(t *testing.T) {
	b := scripttest.NewQueue(t, redistest.Shared(t))
	for _, limit := range []any{"", "0", "-1", "x"} {
		_, err := b.Send(limitedTo(scripttest.WaitNamed("c1", 1, "pf"), limit))
		require.ErrorContains(t, err, "bad arguments")
	}
}
