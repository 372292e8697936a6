package locktest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
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
	RestoreReplication(tb testing.TB)
	TakeOver(tb testing.TB, master *redistest.Server)
}

var (
	_ FailingSet = (*redistest.Sentinels)(nil)
	_ FailingSet = (*redistest.Cluster)(nil)
)

// MasterEnds are the ways in which a master fails.
var MasterEnds = map[string]func(s *redistest.Server, tb testing.TB){
	"killed": (*redistest.Server).Kill, "stopped": (*redistest.Server).Pause,
}

// AwaitPromotion waits until a replica accepts a write of this key, and returns
// it.
func AwaitPromotion(t testing.TB, set FailingSet, old *redistest.Server, key string) (next *redistest.Server) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() bool {
		for _, next = range set.Replicas(old) {
			if _, err := next.Try(t, "SET", key, 1); err == nil {
				return true
			}
		}
		return false
	}, "no replica was promoted")
	return next
}

// RequireOverlap checks that a lock is granted again before the lease of its
// hold has ended, since that is lost with its master: no replica has it. Both
// are valid until the client of the first one has asked the new master. It is
// the control of RequireNoOverlap. A lock that waits for a replica is refused.
// The master of the lock is killed in the end.
func RequireOverlap(
	t testing.TB, set FailingSet, lock string, newClient func() *relock.Client, end func(*redistest.Server, testing.TB),
) {
	t.Helper()
	one, other := newClient(), newClient()
	first := set.MasterOf(t, lock)
	set.CutReplication(t, first)
	_, err := relock.NewRedisLock(lock, one, relock.WithReplicas(1, 200*time.Millisecond)).Acquire(t.Context())
	require.ErrorIs(t, err, relock.ErrReplicas)
	take := func(c *relock.Client) relock.Hold {
		return Take(t, relock.NewRedisLock(lock, c, relock.WithExpiry(time.Minute), relock.WithBlock()).Acquire)
	}
	lost := take(one)
	// A hold that a message has granted is not, before its claim is answered.
	testkit.Eventually(t, testkit.Patience,
		func() bool { return time.Until(lost.ValidUntil()) > 30*time.Second }, "confirmed")
	promised := lost.ValidUntil()
	end(first, t)
	set.AwaitSuccessor(t, first)
	require.NoError(t, take(other).Err())
	granted := time.Now()
	require.Less(t, granted, promised)
	left := lost.Remaining()
	require.ErrorIs(t, testkit.EndedWithin(t, lost.Context(), testkit.Patience), relock.ErrLockLost)
	t.Logf("both were valid for %v", min(left, time.Since(granted)).Round(time.Millisecond))
	first.Kill(t)
}
