package lease_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// Leases that end together, as in an outage, are all lost in time, without a goroutine for each.
func TestManyBeliefsEndTogether(t *testing.T) {
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s)
	const leases, lease = 2000, 3 * time.Second
	contexts, holds := make([]context.Context, leases), make([]relock.Hold, leases)
	var group sync.WaitGroup
	for g := range 16 {
		group.Go(func() {
			for i := g; i < leases; i += 16 {
				h, err := relock.NewRedisLock(fmt.Sprint("k", i), c, relock.WithExpiry(lease)).Acquire(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				holds[i], contexts[i] = h, h.Context()
			}
		})
	}
	group.Wait()
	require.False(t, t.Failed())
	before, most := runtime.NumGoroutine(), 0
	for _, ctx := range contexts {
		for ctx.Err() == nil {
			most = max(most, runtime.NumGoroutine())
			time.Sleep(100 * time.Microsecond)
		}
		require.ErrorIs(t, context.Cause(ctx), relock.ErrLockLost)
	}
	t.Logf("%d goroutines before, %d at most", before, most)
	require.Less(t, most, before+50)
	for _, h := range holds {
		require.ErrorIs(t, h.Unlock(context.Background()), relock.ErrLockLost)
	}
	require.Zero(t, locktest.Engine(c).State().Timers)
}

// The context of a hold of several keys does not end behind what is logged of other locks.
func TestBeliefsOfManyEndBeforeAnyIsLogged(t *testing.T) {
	t.Parallel()
	stuck := locktest.NewStuckLog(t)
	c := locktest.NewTestClient(t, redistest.Shared(t), stuck.Option())
	end := time.Now().Add(time.Second)
	rush := func(l *lease.Lease, after time.Duration) {
		l.Set(func(s *lease.State) { s.ValidUntil = end.Add(after) })
		l.StartTimer()
	}
	for i := range 100 {
		h, err := relock.NewRedisLock(fmt.Sprint("k", i), c, relock.WithExpiry(time.Hour)).Acquire(t.Context())
		require.NoError(t, err)
		rush(locktest.Level(h).Lease(), 0)
	}
	several, err := relock.NewMultiLock([]string{"a", "b"}, c, relock.WithExpiry(time.Hour)).Acquire(t.Context())
	require.NoError(t, err)
	for _, one := range locktest.MembersOf(several) {
		rush(one.Lease(), time.Nanosecond) // the last ones of the batch
	}
	ctx := several.Context()
	stuck.Await(t)
	require.ErrorIs(t, testkit.EndedWithin(t, ctx, testkit.Patience), relock.ErrLockLost)
	stuck.Free()
}

// A belief ends when it ends, whichever of the others end before, are lengthened or are over meanwhile.
func TestBeliefsEndInTheirOrder(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	take := func(name string, lease time.Duration) relock.Hold {
		h, err := relock.NewRedisLock(name, c, relock.WithExpiry(lease)).Acquire(t.Context())
		require.NoError(t, err)
		return h
	}
	start := time.Now()
	long, short, extended, unlocked := take("long", 6*time.Second), take("short", 2100*time.Millisecond), take("extended", 2700*time.Millisecond), take("unlocked", 2700*time.Millisecond)
	require.NoError(t, extended.Extend(t.Context(), 3900*time.Millisecond))
	require.NoError(t, unlocked.Unlock(t.Context()))
	for _, tt := range []struct {
		hold  relock.Hold
		after time.Duration
	}{{short, 2100 * time.Millisecond}, {extended, 3900 * time.Millisecond}, {long, 6 * time.Second}} {
		require.ErrorIs(t, testkit.EndedWithin(t, tt.hold.Context(), 5*time.Second), relock.ErrLockLost)
		require.Greater(t, time.Since(start), tt.after-lease.Drift(tt.after), tt.hold.Key())
		require.Less(t, time.Since(start), tt.after+time.Second, tt.hold.Key())
	}
	require.ErrorIs(t, context.Cause(unlocked.Context()), relock.ErrNotHeld)
}
