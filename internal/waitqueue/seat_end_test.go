package waitqueue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/internal/waitqueue"
)

// Many callers of few objects, whose contexts end at any time, and two clients: nobody is inside with another, and
// nothing is left behind.
func TestStormOfSeats(t *testing.T) { locktest.EachKind(t, false, stormOfSeats) }

func stormOfSeats(t testing.TB, m locktest.QueueMode) {
	q := locktest.NewQueueBench(t, m, 2)
	objects := []locktest.AnyLock{q.Lock(q.Clients[0]), q.Lock(q.Clients[1])}
	var inside, total, passed int // guarded by the lock
	var group sync.WaitGroup
	for g := range 24 {
		lock, reentrant := objects[g%2], m.Kind == "ReentrantLock"
		switch {
		case g%3 == 0:
			lock = q.Lock(q.Clients[g%2], relock.WithLabel(fmt.Sprint(g%2)))
		case g > 20 && reentrant: // several goroutines of one owner
			lock, reentrant = q.Lock(q.Clients[0], relock.WithOwner("one")), false
		}
		group.Go(func() {
			for n := range 60 {
				ctx, cancel := context.WithCancel(t.Context())
				if n%3 == 0 {
					time.AfterFunc(rand.N(3*time.Millisecond), cancel)
				}
				err := lock.Do(ctx, func(ctx context.Context) error {
					h, ok := relock.HoldFromContext(ctx, locktest.QueueKey)
					if !strings.HasSuffix(locktest.Level(h).Owner(), ":one") {
						if inside++; inside != 1 || !ok {
							t.Error("two at once")
						}
						total++
						passed = max(passed, locktest.LeaseOf(h).State().Passes)
						inside--
					}
					if n%7 == 0 {
						time.Sleep(100 * time.Microsecond)
					}
					if reentrant && n%5 == 0 {
						return lock.Do(ctx, locktest.NoWork)
					}
					return nil
				})
				if err != nil && (n%3 != 0 || !errors.Is(err, context.Canceled)) {
					t.Errorf("Do: %v", err)
				}
				cancel()
			}
		})
	}
	group.Wait()
	t.Logf("%d times inside, up to %d passes in a row", total, passed)
	require.Positive(t, passed)
	q.RequireNothingLeft()
	q.RequireNoLines()
	q.RequireForgotten()
}

// Close ends those who wait in memory, and a lock that was passed on.
func TestCloseEndsSeats(t *testing.T) {
	locktest.EachKind(t, false, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 2)
		c := locktest.Sibling(t, q.Server, q.Clients[0])
		q.Clients[0] = c
		h := q.Take(c)
		all := []*locktest.Waiting{}
		for n := range 5 {
			all = append(all, q.Sits(context.Background(), n))
		}
		locktest.Fresh(h)
		q.Unlock(h)
		next := all[0].Granted()
		require.NoError(t, c.Close())
		for _, w := range all[1:] {
			require.ErrorIs(t, w.End(), relock.ErrClosed)
		}
		require.ErrorIs(t, next.Err(), relock.ErrClosed)
		require.Empty(t, locktest.Engine(c).Queue.State().Lines)
	})
}

// A seat that is given the lock at the moment when it is woken leaves the wake-up to its place, which is another's then.
func TestPassedOnAtTheLastMoment(t *testing.T) {
	t.Parallel()
	q := locktest.NewSeatBench(t)
	h := q.Take(q.Clients[0])
	w := q.Sits(t.Context(), 0)
	c, l := q.Clients[0], locktest.Level(h).Lease()
	next, left := locktest.Engine(c).Queue.Next(q.Key, time.Now().Add(time.Hour), 0, locktest.Level(h).Settings())
	require.Nil(t, left)
	place := locktest.Engine(c).Queue.State().Lines[q.Key].Retained
	place.Nudge() // it wakes, finds that it was given the lock, and waits for that
	testkit.Eventually(t, testkit.Patience, func() bool { return len(place.Wake) == 0 }, "awake")
	passed := l.PassTo(next)
	require.Same(t, passed, locktest.Level(w.Granted()))
	require.Len(t, place.Wake, 1)
	l.Lose(relock.ErrLockLost) // the first hold was not unlocked
	q.RequireNothingLeft()
	q.RequireNoLines()
}

// An Extend that was under way as the lock was passed on says that its hold is over.
func TestExtendDuringAPass(t *testing.T) {
	t.Parallel()
	q, proxy := locktest.NewSeatBenchBehind(t)
	h := q.Take(q.Clients[0])
	w := q.Sits(t.Context(), 0)
	renewal := faults.Script(script.Renew.SHA)
	proxy.On(renewal, 1, faults.Delay(500*time.Millisecond))
	extended := testkit.Async(t, func() error { return h.Extend(t.Context(), time.Hour) })
	require.True(t, proxy.Await(renewal, 1, testkit.Patience))
	locktest.Fresh(h)
	q.Unlock(h)
	next := w.Granted()
	require.ErrorIs(t, testkit.ResultWithin(t, extended, testkit.Patience), relock.ErrNotHeld)
	require.NoError(t, next.Err())
	q.Unlock(next)
	q.RequireNothingLeft()
}

// Neither does one that comes when the lock was passed on.
func TestExtendAfterAPass(t *testing.T) {
	t.Parallel()
	q := locktest.NewSeatBench(t)
	h := q.Take(q.Clients[0])
	w := q.Sits(t.Context(), 0)
	locktest.Fresh(h)
	next, _ := q.HandOver(h, w)
	require.Same(t, locktest.LeaseOf(h), locktest.LeaseOf(next))
	require.Equal(t, relock.ErrNotHeld, locktest.Level(h).Lengthen(time.Hour), "it has looked before")
	require.Equal(t, lockspec.DefaultLease, locktest.LeaseOf(next).State().Length)
	q.Unlock(next)
	q.RequireNothingLeft()
}

// The key stays for no longer than the next holder asks for.
func TestExtendAndPass(t *testing.T) {
	t.Parallel()
	q := locktest.NewSeatBench(t)
	h := q.Take(q.Clients[0])
	require.NoError(t, h.Extend(t.Context(), time.Hour))
	w := q.Sits(t.Context(), 0)
	locktest.Fresh(h)
	next, _ := q.HandOver(h, w)
	require.LessOrEqual(t, locktest.Pttl(t, q.Server, q.Clients[0], locktest.QueueKey), lockspec.DefaultLease)
	q.Unlock(next)
	q.RequireNothingLeft()
}

// Nobody says that others hold a lock of which Redis has said nothing.
func TestSeatsBeforeASilentServer(t *testing.T) {
	t.Parallel()
	q := locktest.NewSeatBench(t)
	q.Server.Pause(t)
	defer q.Server.Resume(t)
	var all []*locktest.Waiting
	for range 20 {
		all = append(all, q.Wait(t.Context(), q.Clients[0], relock.WithBlockTimeout(200*time.Millisecond)))
	}
	for _, w := range all {
		require.NotErrorIs(t, w.End(), relock.ErrLockAcquiredByOthers)
		require.True(t, relock.IsRetryableErr(w.Err), w.Err)
	}
}

// What is known of others in the queue is what the last answer has said.
func TestOthersAreForgotten(t *testing.T) {
	locktest.EachKind(t, false, func(t testing.TB, m locktest.QueueMode) {
		q := locktest.NewQueueBench(t, m, 2)
		h := q.Take(q.Clients[0])
		ctx, cancel := context.WithCancel(t.Context())
		remote := q.Wait(ctx, q.Clients[1])
		q.AwaitQueued(1)
		q.AwaitHeard(q.Clients[1]) // its first poll is over, which would put the wait back
		w := q.Sits(t.Context(), 0)
		require.True(t, locktest.Engine(q.Clients[0]).Queue.State().Lines[q.Key].Remote)
		cancel()
		require.ErrorIs(t, remote.End(), context.Canceled)
		q.AwaitQueued(1)
		locktest.GrantedAt(h, time.Now().Add(-waitqueue.PassBeside))
		q.Unlock(h)
		h = w.Granted() // by Redis
		q.Sits(t.Context(), 0)
		require.False(t, locktest.Engine(q.Clients[0]).Queue.State().Lines[q.Key].Remote)
		q.Unlock(h)
	})
}
