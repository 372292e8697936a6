package proof

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// masterEnds are the ways in which a master fails.
var masterEnds = map[string]func(s *redistest.Server, tb testing.TB){
	"killed": (*redistest.Server).Kill, "stopped": (*redistest.Server).Pause,
}

// downAfter is when a master counts as down. A machine that stalls must not
// cause a failover.
const downAfter = time.Second

// Masters fail under load, and sentinels replace them. Every waiter gets its
// turn at the new master. With WithReplicas no two holds are valid together.
// The first grant comes soon after the sentinels name the new master.
func TestHandOffsWhileMastersDie(t *testing.T) {
	t.Parallel()
	together(t, masterEnds, func(t *testing.T, end func(*redistest.Server, testing.TB)) {
		l := newFailoverLoad(t, relock.WithReplicas(1, 500*time.Millisecond))
		for range pick(20, 2) {
			l.failOver(end)
		}
		l.stop()
		slices.Sort(l.afterWrite)
		slices.Sort(l.afterNamed)
		t.Logf("%d failovers, %d holds; first grant after the first accepted write %v, after a sentinel named the master %v",
			len(l.afterWrite), l.holds(), l.afterWrite, l.afterNamed)
		for _, key := range l.sections {
			v := &verdict{}
			v.judgeOverlaps(key)
			require.Empty(t, v.violations)
		}
		require.Less(t, l.afterNamed[pick(len(l.afterNamed)/2, 0)], 300*time.Millisecond)
	})
}

// The control: a lock that no replica has is lost with its master, and two
// holds are valid together. With WithReplicas it is not granted.
func TestFailoverWithoutReplicationOverlaps(t *testing.T) {
	t.Parallel()
	together(t, masterEnds, func(t *testing.T, end func(*redistest.Server, testing.TB)) {
		s := redistest.StartSentinels(t, downAfter)
		start := time.Now()
		one, other := sentinelClient(t, s), sentinelClient(t, s)
		first := s.Agreed(t)
		s.CutReplication(t, first)
		_, err := relock.NewRedisLock("refused", one, relock.WithReplicas(1, 200*time.Millisecond)).Acquire(t.Context())
		require.ErrorIs(t, err, relock.ErrReplicas)
		var sections []section
		for _, c := range []*relock.Client{one, other} {
			h, err := relock.NewRedisLock("k", c, relock.WithExpiry(time.Minute), relock.WithBlock()).Acquire(t.Context())
			require.NoError(t, err)
			sections = append(sections, section{from: int64(time.Since(start)), until: int64(h.ValidUntil().Sub(start))})
			if c == one {
				end(first, t)
				s.AwaitSuccessor(t, first)
			}
		}
		v := &verdict{}
		v.judgeOverlaps(sections)
		require.Len(t, v.violations, 1)
		first.Kill(t)
	})
}

func sentinelClient(t testing.TB, s *redistest.Sentinels) *relock.Client {
	t.Helper()
	c, err := relock.NewClientSentinel(redistest.SentinelName, s.Addresses(), "", relock.WithKeyPrefix(prefix))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// A hung master costs the caller only the time of the failover, however long
// its command timeout is. Its holds end by their validity.
func TestMasterThatHangs(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t, downAfter)
	c, err := relock.NewClientSentinel(redistest.SentinelName, s.Addresses(), "", relock.WithCommandTimeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	h, err := relock.NewRedisLock("kept", c, relock.WithReplicas(2, time.Second)).Acquire(t.Context())
	require.NoError(t, err)
	first := s.Agreed(t)
	first.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got := make(chan error, 1)
	go func() {
		_, err := relock.NewRedisLock("k", c, relock.WithBlock(), relock.WithExpiry(10*time.Minute)).Acquire(ctx)
		got <- err
	}()
	s.AwaitSuccessor(t, first)
	start := time.Now()
	require.NoError(t, <-got)
	require.Less(t, time.Since(start), 5*time.Second)
	require.NoError(t, h.Err())
	require.NoError(t, h.Unlock(t.Context()))
}
