package proof

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
)

// A server is stopped for longer than the lease. The holder has reported the
// loss by then, and its requests do not create the key again. A waiter gets the
// lock after the validity of the first hold has ended.
func TestServerStoppedLongerThanTheLease(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	s := redistest.Start(t)
	c, other := clientOf(t, s), clientOf(t, s)
	var stopped []stoppedHold
	for _, kind := range serverKinds {
		one := stoppedHold{kind: kind, hold: kind.hold(t, c, relock.WithWatchdog(lease)), result: make(chan stoppedGrant, 1)}
		one.value = content(t, s, kind.name)
		stopped = append(stopped, one)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	s.Pause(t)
	for i := range stopped {
		one := &stopped[i]
		one.until = one.hold.ValidUntil() // renewals that are not answered do not move it
		group.Go(func() {
			next, err := one.kind.lock(one.kind.name, other, relock.WithBlock(), relock.WithExpiry(time.Minute)).Acquire(ctx)
			one.result <- stoppedGrant{next, err, time.Now()}
		})
	}
	for _, one := range stopped {
		requireLost(t, one.hold)
	}
	time.Sleep(lease / 2) // the key has ended by now, by the clock of a server that cannot look at it
	s.Resume(t)
	for _, one := range stopped {
		one.check(t, s)
	}
}

type stoppedGrant struct {
	hold relock.Hold
	err  error
	at   time.Time
}

type stoppedHold struct {
	kind   serverKind
	hold   relock.Hold
	until  time.Time // its valid until
	value  string    // at the server
	result chan stoppedGrant
}

func (one *stoppedHold) check(t *testing.T, s *redistest.Server) {
	t.Helper()
	next := <-one.result
	require.NoError(t, next.err)
	require.True(t, next.at.After(one.until), "two holds were valid together")
	require.NotEqual(t, one.value, content(t, s, one.kind.name), "the first hold is back")
	require.ErrorIs(t, one.hold.Unlock(t.Context()), relock.ErrLockLost)
	require.NoError(t, next.hold.Err())
	require.NoError(t, next.hold.Unlock(t.Context()))
}

// validTime is a time in which a hold reported to be valid.
type validTime struct{ from, to time.Time }

// Two clients want one lock while the server is stopped repeatedly, for shorter
// and for longer than the lease. Their holds are never valid at the same time.
func TestStoppedServerDoesNotMakeTwoHolders(t *testing.T) {
	t.Parallel()
	pauses := 3
	if *long {
		pauses = 40
	}
	const lease = 400 * time.Millisecond
	s := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	var mu sync.Mutex
	var all []validTime
	var holds [2]int
	for i := range holds {
		c := clientOf(t, s)
		group.Go(func() {
			for ctx.Err() == nil {
				if b, ok := holdForAWhile(ctx, c, lease); ok {
					mu.Lock()
					all, holds[i] = append(all, b), holds[i]+1
					mu.Unlock()
				}
			}
		})
	}
	count := func() [2]int {
		mu.Lock()
		defer mu.Unlock()
		return holds
	}
	for range pauses {
		before := count()
		require.Eventually(t, func() bool {
			now := count()
			return now[0] > before[0] && now[1] > before[1]
		}, patience, time.Millisecond, "each of them gets the lock between two stops")
		time.Sleep(rand.N(lease / 2))
		s.Pause(t)
		time.Sleep(lease/4 + rand.N(2*lease))
		s.Resume(t)
	}
	cancel()
	group.Wait()
	slices.SortFunc(all, func(a, b validTime) int { return a.from.Compare(b.from) })
	for i, b := range all[1:] {
		require.False(t, b.from.Before(all[i].to), "two holders for %v", all[i].to.Sub(b.from))
	}
	t.Logf("%d holds over %d stops of the server", len(all), pauses)
}

// holdForAWhile returns the time from the grant to the last moment at which the
// hold reported to be valid.
func holdForAWhile(ctx context.Context, c *relock.Client, lease time.Duration) (validTime, bool) {
	h, err := relock.NewRedisLock("k", c,
		relock.WithWatchdog(lease), relock.WithBlock(), relock.WithPollInterval(5*time.Millisecond)).Acquire(ctx)
	if err != nil {
		return validTime{}, false // ctx has ended
	}
	b := validTime{from: time.Now()}
	b.to = b.from
	for end := b.from.Add(rand.N(lease / 4)); time.Now().Before(end); time.Sleep(time.Millisecond) {
		now := time.Now()
		if h.Err() != nil {
			break
		}
		b.to = now
	}
	_ = h.Unlock(ctx) // lost, now and then
	return b, true
}
