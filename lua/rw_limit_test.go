package lua_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

func rwLimitedTo(w scripttest.RWWait, limit any) script.Call {
	s := w.Enqueue()
	s.Args = append(s.Args, limit)
	return s
}

// A newcomer is refused when as many wait as may; one that is in the queue
// already, or has a ticket, is not a newcomer. What can be had is handed over
// all the same, and a newcomer takes what nobody who lives waits for.
func TestRWScriptEnqueueIsLimited(t *testing.T) {
	s := redistest.Shared(t)
	first, second, third := scripttest.RWWaitNamed("c1", 1, "sf"), scripttest.RWWaitNamed("c2", 1, "wf"), scripttest.RWWaitNamed("c3", 1, "sf")
	b := scripttest.NewReadWrite(t, s)
	require.Equal(t, "1", b.Code(scripttest.RWWaitNamed("c9", 1, "wf").Try()))
	require.Equal(t, "0", b.Code(rwLimitedTo(first, 2)))
	require.Equal(t, "0", b.Code(rwLimitedTo(second, 2)))
	require.Equal(t, "5", b.Code(rwLimitedTo(third, 2)))
	b.RequireQueue("full", first, second)
	require.Equal(t, "0", b.Code(rwLimitedTo(second, 2)), "is in the queue")
	again := third.EnqueueAgain("1")
	again.Args = append(again.Args, 2)
	require.Equal(t, "0", b.Code(again), "has a ticket")
	for _, limit := range []any{"", "0", "-1", "x"} {
		_, err := b.Send(rwLimitedTo(first, limit))
		require.ErrorContains(t, err, "bad arguments")
	}

	b = scripttest.NewReadWrite(t, s)
	b.Show(map[string]scripttest.Beat{"c2": {Age: 0, Counted: 0}})
	b.Stand(time.Minute, second)
	require.Equal(t, "5", b.Code(rwLimitedTo(first, 1)))
	require.Equal(t, []string{second.Reserved()}, b.Lock())

	b = scripttest.NewReadWrite(t, s)
	b.Stand(time.Minute, scripttest.RWGone(3, "wf")...)
	require.Equal(t, "1", b.Code(rwLimitedTo(first, 3)))
	require.Equal(t, []string{first.Reads()}, b.Lock())

	b = scripttest.NewReadWrite(t, s)
	b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}})
	b.Stand(time.Minute, append(scripttest.RWGone(3, "wf"), first)...)
	require.Equal(t, "5", b.Code(rwLimitedTo(second, 3)), "others read now")
	require.Equal(t, []string{first.Reserved()}, b.Lock())
}
