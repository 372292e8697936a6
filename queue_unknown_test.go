package relock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
)

// A wait in the queue that its client knows nothing of, as a late poll may leave one, gives its turn up at once: the next one does not wait
// for the end of the reservation.
func TestUnknownWaitGivesItsTurnUp(t *testing.T) {
	eachMode(t, func(t testing.TB, m queueMode) {
		s := redistest.Start(t)
		q := newQueueBenchOn(t, s, m, 2)
		waiter := q.clients[1]
		var took []time.Duration
		for range 5 {
			h := q.take(q.clients[0])
			w := q.waitNext(t.Context(), 0, waiter)
			q.awaitHeard(waiter)
			settings := newBase(queueKey, waiter, nil, map[string]*lockspec.Kind{"RedisLock": lockspec.Plain, "ReentrantLock": lockspec.Reentrant}[m.kind]).target.Settings
			settings.Fair = m.fair
			s.Do(t, "ZADD", q.key+":q", 1, lockspec.WaitName(waiter.engine.Identity.Hold(999), &settings))
			next, d := q.handOver(h, w)
			took = append(took, d)
			q.unlock(next)
		}
		require.Less(t, middle(took), time.Second/2, "a reservation lasts for 1.25s")
		q.requireNothingLeft()
	})
}
