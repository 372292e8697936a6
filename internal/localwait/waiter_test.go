package localwait_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestMain(m *testing.M) { os.Exit(locktest.Run(m)) }

// While a request of the first local waiter is under way, the lock goes to the
// second one. The first is next.
func TestLocalHandOffSkipsABusyWaiter(t *testing.T) {
	t.Parallel()
	q, proxy := locktest.NewQueueBenchBehind(t, locktest.PlainUnfair)
	h := q.Take(q.Clients[0])
	enqueue := faults.Script(script.Enqueue.SHA)
	answered := make(chan struct{})
	proxy.On(enqueue, 1, faults.DelayUntil(answered))
	first := q.Wait(t.Context(), q.Clients[0])
	require.True(t, proxy.Await(enqueue, 1, testkit.Patience))
	second := q.Wait(t.Context(), q.Clients[0])
	testkit.Eventually(t, testkit.Patience, func() bool {
		return q.Clients[0].Stats().Waiting == 1 && locktest.Engine(q.Clients[0]).Local.Count(q.Key) == 2
	}, "both wait")
	value := q.Value()
	next := q.PassTo(h, second)
	require.False(t, first.HasEnded())
	require.Equal(t, value, q.Value())
	close(answered)
	q.Unlock(next)
	q.Unlock(first.Granted())
	q.RequireIdle()
}

// A parked first waiter that asks for another hold is not overtaken by the
// second one: the lock goes to it by a message.
func TestParkedWaiterIsNotOvertaken(t *testing.T) {
	t.Parallel()
	q := locktest.NewQueueBench(t, locktest.PlainUnfair, 1)
	c := q.Clients[0]
	h := q.Take(c)
	first := q.WaitLocally(t.Context(), 0, relock.WithLabel("another"))
	parked := func() bool { return locktest.Engine(c).Local.FirstIsParked(q.Key) }
	testkit.Eventually(t, testkit.Patience, parked, "its request was answered")
	second := q.WaitLocally(t.Context(), 1)
	q.UnlockFresh(h)
	next := first.Granted()
	require.False(t, second.HasEnded())
	q.Unlock(next)
	q.Unlock(second.Granted())
	q.RequireIdle()
}
