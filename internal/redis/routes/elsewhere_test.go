package routes_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/routes"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// slow has limits that no test reaches. What ends a wait is something else.
var slow = []relock.ClientOption{relock.WithDialTimeout(time.Hour), relock.WithCommandTimeout(time.Hour)}

// A failover is over. The first TryLock and the first TryDo of idle clients
// succeed, although each client knows the old master only. That one refuses
// connections, or it hangs.
func TestFirstTryAfterAFailover(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(testing.TB, *redistest.Server){
		"killed": func(t testing.TB, s *redistest.Server) { s.Kill(t) },
		"hung":   func(t testing.TB, s *redistest.Server) { s.Pause(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartCluster(t, 3, 1)
			old := s.Servers[0]
			lock := s.NameAt(t, old, "k")
			var idle []*relock.Client
			for range 6 {
				c := locktest.CloseLater(t)(relock.NewClientCluster(s.Addresses(), "", slow...))
				require.NoError(t, relock.NewRedisLock(lock, c).TryDo(t.Context(), func(context.Context) error { return nil }))
				idle = append(idle, c)
			}
			last := time.Now()
			end(t, old)
			s.AwaitSuccessor(t, old)
			<-time.After(time.Until(last.Add(routes.RouteIdle)))
			for _, c := range idle {
				l := relock.NewRedisLock(lock, c, relock.WithExpiry(time.Hour))
				watch := testkit.NewStopwatch(t)
				tried := testkit.Async(t, func() error {
					return l.TryDo(t.Context(), func(context.Context) error { return nil })
				})
				require.NoError(t, testkit.ResultWithin(t, tried, testkit.Patience))
				watch.Within(2*time.Second, "it waits until the table is loaded anyway")
			}
		})
	}
}

// successor is the topology of a master and of the one that a look finds.
type successor struct {
	old, next *redistest.Server
	look      func(ctx context.Context) error // nil if it finds next immediately

	mu    sync.Mutex
	found bool
	looks int
}

func (s *successor) topology() *driver.Topology {
	return &driver.Topology{Master: s.master, Refresh: s.refresh}
}

func (s *successor) master(context.Context, string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found {
		return s.next.Address, nil
	}
	return s.old.Address, nil
}

func (s *successor) refresh(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	if s.look != nil {
		return s.look(ctx)
	}
	s.found = true
	return nil
}

// routed returns a router of the topology, closed when the test ends.
func routed(t testing.TB, s *successor) *routes.Router {
	t.Helper()
	r := routes.NewRouter(&driver.Config{
		Password: new(string), MaxIdle: 2, DialTimeout: time.Hour, CommandTimeout: time.Hour,
	}, s.topology())
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// set sends a request that shows where it was executed.
func set(ctx context.Context, r *routes.Router, limit driver.Limits) driver.Result {
	return r.Send(ctx, limit, driver.SetNX("k", "v", time.Hour))
}

// A request that the old server refuses goes on at the new one. One that was
// written to it does not, whatever happens then.
func TestRequestThatWasNotExecutedGoesOn(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (*successor, *routes.Router) {
		s := &successor{old: redistest.StartTCP(t), next: redistest.StartTCP(t)}
		return s, routed(t, s)
	}
	requireNext := func(t *testing.T, s *successor, o driver.Result) {
		require.NoError(t, o.Err)
		require.True(t, o.Answered)
		require.False(t, o.Resent, "the first copy was not executed")
		require.True(t, has(t, s.next, "k"))
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		s, r := start(t)
		s.old.Kill(t)
		requireNext(t, s, set(t.Context(), r, driver.Limits{}))
	})
	t.Run("read-only", func(t *testing.T) {
		t.Parallel()
		s, r := start(t)
		s.old.Follow(t, redistest.StartTCP(t))
		requireNext(t, s, set(t.Context(), r, driver.Limits{}))
	})
	t.Run("not if it was written", func(t *testing.T) {
		t.Parallel()
		old := redistest.StartTCP(t)
		proxy := faults.Start(t, old.Network, old.Address)
		s := &successor{old: &redistest.Server{Network: proxy.Network, Address: proxy.Address}, next: redistest.StartTCP(t)}
		r := routed(t, s)
		old.Pause(t)
		result := make(chan driver.Result, 1)
		sent := testkit.Async(t, func() error {
			result <- set(t.Context(), r, driver.Limits{})
			return nil
		})
		require.True(t, proxy.Await(faults.Command("SET"), 1, testkit.Patience), "is sent")
		old.Kill(t)
		require.NoError(t, testkit.ResultWithin(t, sent, testkit.Patience))
		o := <-result
		require.True(t, o.Unanswered(), "%+v", o)
		require.False(t, has(t, s.next, "k"))
		require.Zero(t, s.looks)
	})
}

// A look that hangs ends with the limits of the request, and the caller may
// leave before. A look that finds nothing leaves the error as it is.
func TestLookWithinTheLimit(t *testing.T) {
	t.Parallel()
	s := &successor{old: redistest.StartTCP(t), look: func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}}
	r := routed(t, s)
	s.old.Kill(t)
	limited := testkit.Async(t, func() error { return set(t.Context(), r, driver.Limits{Connect: time.Second / 5}).Err })
	require.ErrorContains(t, testkit.ResultWithin(t, limited, testkit.Patience), "connection refused")
	ended := testkit.Async(t, func() error {
		return set(t.Context(), r, driver.Limits{End: time.Now().Add(time.Second / 5)}).Err
	})
	require.ErrorContains(t, testkit.ResultWithin(t, ended, testkit.Patience), "connection refused")
	ctx, leave := context.WithCancel(t.Context())
	time.AfterFunc(time.Second/5, leave)
	left := testkit.Async(t, func() error { return set(ctx, r, driver.Limits{}).Err })
	require.ErrorIs(t, testkit.ResultWithin(t, left, testkit.Patience), driver.ErrAbandoned)

	s = &successor{old: s.old, look: func(context.Context) error { return nil }}
	r = routed(t, s)
	o := set(t.Context(), r, driver.Limits{})
	require.ErrorContains(t, o.Err, "connection refused")
	require.Zero(t, o.Sent)
	require.Equal(t, 1, s.looks)
}
