package waitqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// The server forgets everything while many wait: all of them get the lock, one after another.
func TestServerForgetsTheQueue(t *testing.T) {
	t.Parallel()
	var cells []locktest.CellRun
	for name, forget := range map[string]func(t testing.TB, s *redistest.Server){
		"FLUSHALL":         func(t testing.TB, s *redistest.Server) { s.Do(t, "FLUSHALL") },
		"killed, restarts": func(t testing.TB, s *redistest.Server) { s.Kill(t); s.Boot(t) },
		"away for a while": func(t testing.TB, s *redistest.Server) { s.Kill(t); time.Sleep(1500 * time.Millisecond); s.Boot(t) },
		"only the queue":   func(t testing.TB, s *redistest.Server) { dropQueue(t, s, "*:q", "*:b") },
		"only the beats":   func(t testing.TB, s *redistest.Server) { dropQueue(t, s, "*:b") },
	} {
		for _, m := range locktest.QueueModes() {
			cells = append(cells, locktest.CellRun{Name: name + ", " + m.Title(), Run: func(t testing.TB) {
				q := locktest.NewQueueBench(t, m, 4)
				h := q.Take(q.Clients[0])
				served, inside := 0, 0
				var results []<-chan error
				for i := range 12 {
					lock := q.Lock(q.Clients[1+i%3])
					results = append(results, q.Async(context.Background(), func(ctx context.Context) error {
						return lock.Do(ctx, func(context.Context) error {
							inside++
							if inside != 1 {
								t.Errorf("two at once")
							}
							served++
							inside--
							return nil
						})
					}))
					q.AwaitQueued(q.InRedis(i+1, 3))
				}
				start := time.Now()
				forget(t, q.Server)
				if err := h.Unlock(t.Context()); err != nil {
					require.ErrorIs(t, err, relock.ErrLockLost)
				}
				for _, result := range results {
					require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
				}
				t.Logf("%s: all served after %v", name, time.Since(start))
				require.Less(t, time.Since(start), 15*time.Second)
				require.Equal(t, 12, served)
				q.RequireNothingLeft()
			}})
		}
	}
	locktest.Together(t, cells)
}

func dropQueue(t testing.TB, s *redistest.Server, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		s.Do(t, "EVAL", "for _, k in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', k) end", 0, pattern)
	}
}

// A server that stood still for longer than any client may be silent makes nobody lose their place.
func TestOrderSurvivesAServerThatStoodStill(t *testing.T) {
	locktest.EachKind(t, true, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 4, relock.WithCommandTimeout(20*time.Second))
		h := q.Take(q.Clients[0])
		var order []int // guarded by the lock
		var results []<-chan error
		for i := range 16 {
			lock := q.Lock(q.Clients[i%4])
			results = append(results, q.Async(context.Background(), func(ctx context.Context) error {
				return lock.Do(ctx, func(context.Context) error {
					order = append(order, i)
					return nil
				})
			}))
			q.AwaitQueued(i + 1)
		}
		for _, c := range q.Clients {
			q.AwaitHeard(c)
		}
		q.Server.Pause(t)
		unlocked := testkit.Async(t, func() error { return h.Unlock(context.Background()) }) // comes ahead of the polls
		time.Sleep(3 * time.Second)
		q.Server.Resume(t)
		require.NoError(t, testkit.ResultWithin(t, unlocked, testkit.Patience))
		for _, result := range results {
			require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
		}
		for i, n := range order {
			require.Equal(t, i, n, "order: %v", order)
		}
		require.Len(t, order, 16)
		q.RequireNothingLeft()
	})
}
