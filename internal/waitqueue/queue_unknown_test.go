package waitqueue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

// A wait in the queue that its client knows nothing of, as a late poll may leave one, gives its turn up at once: the next one does not wait
// for the end of the reservation.
func TestUnknownWaitGivesItsTurnUp(t *testing.T) {
	locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
		s := redistest.Start(t)
		q := locktest.NewQueueBenchOn(t, s, m, 2)
		waiter := q.Clients[1]
		var took []time.Duration
		for range 5 {
			h := q.Take(q.Clients[0])
			w := q.WaitNext(t.Context(), 0, waiter)
			q.AwaitHeard(waiter)
			settings := lockspec.Spec{Kind: map[string]*lockspec.Kind{"RedisLock": lockspec.Plain, "ReentrantLock": lockspec.Reentrant}[m.Kind], Fair: m.Fair}
			s.Do(t, "ZADD", q.Key+":q", 1, lockspec.WaitName(locktest.Engine(waiter).Identity.Hold(999), &settings))
			next, d := q.HandOver(h, w)
			took = append(took, d)
			q.Unlock(next)
		}
		require.Less(t, locktest.Middle(took), time.Second/2, "a reservation lasts for 1.25s")
		q.RequireNothingLeft()
	})
}
