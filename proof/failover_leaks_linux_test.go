package proof

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

// Masters that sentinels manage fail under load, again and again: killed,
// stopped, and replaced by an operator. Afterwards this process has not a
// goroutine, a socket or a connection more than at the start, at any server or
// sentinel.
//
// It counts the goroutines of the process, so it runs beside no other test.
func TestFailoversLeaveNothingBehind(t *testing.T) {
	set := redistest.StartSentinels(t, downAfter)
	servers := slices.Concat(set.Servers, set.Sentinels)
	var clients []*relock.Client
	for range 3 {
		clients = append(clients, clientOfSet(t, set, relock.WithMaxIdle(2)))
	}
	ends := []func(*redistest.Server, testing.TB){
		(*redistest.Server).Kill, (*redistest.Server).Pause, func(s *redistest.Server, t testing.TB) { set.TakeOver(t, s) },
	}
	series := func(failovers int) {
		next := -1
		l := locktest.NewFailoverLoad(t, set, [2]string{"unfair", "fair"},
			func() *relock.Client { next++; return clients[next] }, 1)
		for i := range failovers {
			l.FailOver(ends[i%len(ends)])
		}
		l.Stop()
		l.RequireNoOverlap()
		require.Positive(t, l.Holds())
	}
	series(1) // with all that a client opens once
	before := restOf(t, servers...)
	start := time.Now()
	failovers := pick(50, 2)
	series(failovers)
	t.Logf("%d failovers in %v", failovers, time.Since(start).Round(time.Second))
	before.requireBack(t, func() { series(1) }, servers...)
}
