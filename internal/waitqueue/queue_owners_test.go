package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/testkit"
)

// Two goroutines of one owner wait: when one of them is granted, the other one is inside at once, one level deeper.
func TestTwoGoroutinesOfOneOwnerWait(t *testing.T) {
	for _, fair := range []bool{false, true} {
		name := locktest.QueueMode{Kind: "ReentrantLock", Fair: fair}.Title()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := locktest.NewQueueBench(t, locktest.QueueMode{Kind: "ReentrantLock", Fair: fair}, 3)
			var took []time.Duration
			for range 10 {
				h := q.Take(q.Clients[0])
				opts := []relock.LockOption{relock.WithOwner("both"), relock.WithPollInterval(locktest.Leisure)}
				first := q.WaitNext(t.Context(), 0, q.Clients[1], opts...)
				stranger := q.WaitNext(t.Context(), 1, q.Clients[2], relock.WithPollInterval(locktest.Leisure))
				second := q.WaitToo(t.Context(), 2, q.Clients[1], opts...)
				q.AwaitHeard(q.Clients[1])
				start := time.Now()
				q.Unlock(h)
				outer, inner := first.Granted(), second.Granted()
				took = append(took, testkit.Later(first.At, second.At).Sub(start))
				require.False(t, stranger.IsOver(), "granted while another one has it")
				locktest.RequireCount(t, q.Server, q.Clients[1], locktest.QueueKey, 2)
				q.AwaitQueued(1) // what the second one waited for is cancelled
				q.Unlock(outer)
				time.Sleep(5 * time.Millisecond)
				require.NoError(t, inner.Err())
				require.False(t, stranger.IsOver())
				q.Unlock(inner)
				q.Unlock(stranger.Granted())
			}
			q.RequireNothingLeft()
			t.Logf("median %v, longest %v", locktest.Middle(took), took[len(took)-1])
			require.Less(t, locktest.Middle(took), locktest.PushLimit)
		})
	}
}

// The wait of the second goroutine may be the one that the lock is handed to, while the first has it already.
func TestOwnerIsGrantedWhatItsOtherGoroutineWaitedFor(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		if m.Kind != "ReentrantLock" {
			return
		}
		q := locktest.NewQueueBench(t, m, 2)
		h := q.Take(q.Clients[0])
		const goroutines = 20
		var all []*locktest.Waiting
		for i := range goroutines {
			all = append(all, q.WaitToo(context.Background(), i, q.Clients[1], relock.WithOwner("all")))
		}
		q.Unlock(h)
		for _, w := range all {
			w.Granted()
		}
		locktest.RequireCount(t, q.Server, q.Clients[1], locktest.QueueKey, goroutines)
		q.AwaitQueued(0)
		for _, w := range all {
			q.Unlock(w.Hold)
		}
		q.RequireNothingLeft()
	})
}
