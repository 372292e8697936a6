package proof

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/queue"
)

// meanGap returns for how long a place is unused between the end of one hold
// and the begin of the next. It is the mean, since a few waiters that nobody
// wakes do not show in the median.
func meanGap(spans []locktest.Span, limit int) time.Duration {
	var begins, ends []int64
	for _, s := range spans {
		begins, ends = append(begins, s.From), append(ends, s.Until)
	}
	slices.Sort(begins)
	slices.Sort(ends)
	sum := int64(0)
	for i, begin := range begins[limit:] {
		sum += begin - ends[i]
	}
	return time.Duration(sum / int64(len(begins)-limit))
}

// left returns how many tasks are not done. No more are in flight than the
// limit, those of killed workers included.
func (c *permitContest) left(q *queue.Queue, limit int) int {
	c.Helper()
	s, err := q.Stats(c.Context())
	require.NoError(c, err)
	require.Zero(c, s.Dead)
	require.LessOrEqual(c, s.InFlight, limit)
	return s.Ready + s.Delayed + s.InFlight
}

// Four processes work on the tasks of a queue with a limit, and one after the
// other is killed. Never more are in flight than the limit says, by the workers
// and by the server, and all are done. If nobody is killed, the limit is used
// for 0.9 of the time.
func TestMaxInFlightOverProcesses(t *testing.T) {
	const processes, limit = 4, 6
	for name, tt := range map[string]struct{ kills, tasks, ms int }{
		"killed": {pick(60, 3), pick(20_000, 300), 5},
		"alive":  {0, pick(5000, 200), 20},
	} {
		t.Run(name, func(t *testing.T) {
			c := startContest(t, "limited", processes, strconv.Itoa(limit), strconv.Itoa(tt.ms))
			q := taskQueueOf(t, newParentClient(t, c.server))
			testkit.Eventually(t, patience, func() bool {
				s, err := q.Stats(t.Context())
				return err == nil && s.Idle > 0
			}, "they wait")
			clock := testkit.NewStopwatch(t)
			require.NoError(t, putTasks(t.Context(), q, make([]queue.Task, tt.tasks)...))
			kills := 0
			for next := time.Now().Add(limitedLease); c.left(q, limit) > 0 ||
				kills < tt.kills; time.Sleep(5 * time.Millisecond) {
				if kills < tt.kills && time.Now().After(next) {
					c.crew.Kill(kills % processes)
					kills, next = kills+1, time.Now().Add(limitedLease)
				}
			}
			spans := c.finish()
			gap, takes := meanGap(spans, limit), time.Duration(tt.ms)*time.Millisecond
			t.Logf("%d runs, %d kills, %d together, a place is unused for %v of %v",
				len(spans), kills, locktest.MostTogether(spans), gap, takes)
			require.GreaterOrEqual(t, len(spans), tt.tasks)
			require.Equal(t, limit, locktest.MostTogether(spans))
			if kills == 0 {
				clock.Check(gap, takes/9, "the mean time until the next task begins")
			}
		})
	}
}

// 64 goroutines of four clients want 8 permits, which are used for 0.95 of the
// time: a permit is taken soon after it was returned.
func TestSemaphoreIsUsed(t *testing.T) {
	const clients, goroutines, limit, takes = 4, 16, 8, 20 * time.Millisecond
	times := pick(100, 5)
	for mode, opts := range map[string][]relock.LockOption{"unfair": nil, "fair": {relock.WithFair()}} {
		t.Run(mode, func(t *testing.T) {
			server := redistest.Start(t)
			var mu sync.Mutex
			var spans []locktest.Span
			work := func(context.Context) error {
				from := faults.Now()
				time.Sleep(takes/2 + rand.N(takes)) //nolint:gosec // no secret
				mu.Lock()
				defer mu.Unlock()
				spans = append(spans, locktest.Span{From: from, Until: faults.Now()})
				return nil
			}
			var group sync.WaitGroup
			clock := testkit.NewStopwatch(t)
			for range clients {
				s := relock.NewSemaphore("permits", limit, newParentClient(t, server), append(opts, relock.WithBlock())...)
				for range goroutines {
					group.Go(func() {
						for range times {
							if err := s.Do(t.Context(), work); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			group.Wait()
			gap := meanGap(spans, limit)
			t.Logf("%d holds, a permit is unused for %v of %v: it is used for %.3f",
				len(spans), gap, takes, float64(takes)/float64(takes+gap))
			require.Len(t, spans, clients*goroutines*times)
			require.Equal(t, limit, locktest.MostTogether(spans))
			clock.Check(gap, takes/19, "the mean time until a permit is taken again")
		})
	}
}
