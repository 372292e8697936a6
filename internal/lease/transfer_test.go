package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// The last Unlock gives the lock to the next call of the client by one request,
// in the order of their calls. The hold before is over, and cannot touch the
// next one, which has the whole lease. Its maximum hold counts from the
// transfer.
func TestTransferred(t *testing.T) {
	t.Parallel()
	q, proxy := locktest.NewQueueBenchBehind(t, locktest.ReentrantUnfair)
	longest := relock.WithMaxHold(10 * time.Hour)
	h := q.Take(q.Clients[0], longest)
	first, second := q.WaitLocally(t.Context(), 0, longest), q.WaitLocally(t.Context(), 1, longest)
	entry := q.Entries()
	q.Server.Do(t, "PEXPIRE", q.Key, 5000)
	asked, slept := time.Now(), second.Sleeps()
	next := q.PassTo(h, first)
	require.False(t, second.HasEnded())
	require.Equal(t, 1, passes(next))
	require.False(t, locktest.Level(next).StopMaxHold().Before(asked.Add(10*time.Hour)))
	require.False(t, next.ValidUntil().Before(asked.Add(lockspec.DefaultLease-lockspec.Drift(lockspec.DefaultLease))),
		"the whole lease")
	require.Greater(t, locktest.PTTL(t, q.Server, q.Clients[0], locktest.QueueKey), lockspec.DefaultLease-10*time.Second)
	requireStored(q, next, 1)
	require.NotEqual(t, holdOf(h), holdOf(next))
	require.Equal(t, entry, q.Entries(), "one entry for all of them")
	for name, s := range map[string]*script.Script{"release": script.ReentrantRelease, "claim": script.Claim} {
		require.Zero(t, proxy.Count(faults.Script(s.SHA)), name)
	}
	require.Equal(t, 1, proxy.Count(locktest.TransferOnly))

	require.ErrorIs(t, h.Err(), relock.ErrNotHeld)
	require.ErrorIs(t, context.Cause(h.Context()), relock.ErrNotHeld)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrNotHeld)
	require.ErrorIs(t, h.Extend(t.Context(), time.Minute), relock.ErrNotHeld)
	require.NoError(t, next.Err())
	require.NoError(t, next.Context().Err())

	inner, err := q.Lock(q.Clients[0]).Acquire(next.Context())
	require.NoError(t, err)
	requireStored(q, next, 2)
	neverStale(next)
	q.Unlock(inner)
	require.False(t, second.HasEnded(), "a level is left")
	requireStored(q, next, 1)
	require.NoError(t, next.Extend(t.Context(), time.Hour))
	awaitNext(second, slept)
	q.Unlock(next)
	last := second.Granted()
	require.Equal(t, 2, passes(last))
	require.LessOrEqual(t, locktest.PTTL(t, q.Server, q.Clients[0], locktest.QueueKey), lockspec.DefaultLease,
		"what the one before asked for does not count")
	requireStored(q, last, 1)
	q.Unlock(last)
	q.RequireIdle()
}

// When one of an owner's goroutines is given the lock, the others that wait go
// one level deeper, and keep no queue entry.
func TestWaitersOfOneOwner(t *testing.T) {
	q, h := takeToTransfer(t)
	both := locktest.As(t, "both")
	first, stranger, second := q.WaitLocally(both, 0), q.WaitLocally(t.Context(), 1), q.WaitLocally(both, 2)
	slept := stranger.Sleeps()
	q.UnlockFresh(h)
	outer, inner := first.Granted(), second.Granted()
	require.Same(t, leaseOf(outer), leaseOf(inner))
	requireStored(q, outer, 2)
	require.False(t, stranger.HasEnded())
	testkit.Eventually(t, testkit.Patience, func() bool { return q.Clients[0].Stats().Waiting == 1 }, "one waits")
	q.UnlockFresh(outer)
	requireStored(q, inner, 1)
	require.False(t, stranger.HasEnded())
	awaitNext(stranger, slept)
	q.UnlockFresh(inner)
	next := stranger.Granted()
	require.Equal(t, 2, passes(next))
	q.Unlock(next)
	q.RequireIdle()
}
