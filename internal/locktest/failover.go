package locktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// FailingSet is servers of which one is the master of a key. Another one
// replaces it if it fails.
type FailingSet interface {
	MasterOf(tb testing.TB, key string) *redistest.Server
	Replicas(master *redistest.Server) []*redistest.Server
	Replaced(tb testing.TB, old *redistest.Server) bool
	AwaitSuccessor(tb testing.TB, old *redistest.Server) *redistest.Server
	Return(tb testing.TB, old *redistest.Server) *redistest.Server
	CutReplication(tb testing.TB, master *redistest.Server)
}

var (
	_ FailingSet = (*redistest.Sentinels)(nil)
	_ FailingSet = (*redistest.Cluster)(nil)
)

// MasterEnds are the ways in which a master fails.
var MasterEnds = map[string]func(s *redistest.Server, tb testing.TB){
	"killed": (*redistest.Server).Kill, "stopped": (*redistest.Server).Pause,
}

// RequireOverlap checks that two holds of one lock are valid together, since
// the first one is lost with its master: no replica has it. It is the control
// of RequireNoOverlap. A lock that waits for a replica is refused. The master
// of the lock is killed in the end.
func RequireOverlap(t testing.TB, set FailingSet, lock string, newClient func() *relock.Client, end func(*redistest.Server, testing.TB)) {
	t.Helper()
	start := time.Now()
	one, other := newClient(), newClient()
	first := set.MasterOf(t, lock)
	set.CutReplication(t, first)
	_, err := relock.NewRedisLock(lock, one, relock.WithReplicas(1, 200*time.Millisecond)).Acquire(t.Context())
	require.ErrorIs(t, err, relock.ErrReplicas)
	var holds []relock.Hold
	var visits []Visit
	for _, c := range []*relock.Client{one, other} {
		h := Take(t, relock.NewRedisLock(lock, c, relock.WithExpiry(time.Minute), relock.WithBlock()).Acquire)
		holds = append(holds, h)
		visits = append(visits, Visit{Span: Span{From: int64(time.Since(start))}})
		if c == one {
			// A hold that a message has granted is not, before its claim is
			// answered.
			testkit.Eventually(t, testkit.Patience, func() bool { return time.Until(h.ValidUntil()) > 30*time.Second }, "confirmed")
			end(first, t)
			set.AwaitSuccessor(t, first)
		}
	}
	for i, h := range holds {
		visits[i].Until = int64(h.ValidUntil().Sub(start))
	}
	require.Len(t, Overlaps(visits, func(v Visit) Span { return v.Span }), 1)
	first.Kill(t)
}
