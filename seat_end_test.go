package relock

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

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/internal/waitqueue"
)

// Many callers of few objects, whose contexts end at any time, and two clients: nobody is inside with another, and
// nothing is left behind.
func TestStormOfSeats(t *testing.T) { eachKind(t, false, stormOfSeats) }

func stormOfSeats(t testing.TB, m queueMode) {
	q := newQueueBench(t, m, 2)
	objects := []anyLock{q.lock(q.clients[0]), q.lock(q.clients[1])}
	var inside, total, passed int // guarded by the lock
	var group sync.WaitGroup
	for g := range 24 {
		lock, reentrant := objects[g%2], m.kind == "ReentrantLock"
		switch {
		case g%3 == 0:
			lock = q.lock(q.clients[g%2], WithLabel(fmt.Sprint(g%2)))
		case g > 20 && reentrant: // several goroutines of one owner
			lock, reentrant = owned("one", q.lock(q.clients[0])), false
		}
		group.Go(func() {
			for n := range 60 {
				ctx, cancel := context.WithCancel(t.Context())
				if n%3 == 0 {
					time.AfterFunc(rand.N(3*time.Millisecond), cancel)
				}
				err := lock.Do(ctx, func(ctx context.Context) error {
					h, ok := HoldFromContext(ctx, queueKey)
					if !strings.HasSuffix(h.(hold).level.Owner(), ":one") {
						if inside++; inside != 1 || !ok {
							t.Error("two at once")
						}
						total++
						passed = max(passed, leaseOf(h).State().Passes)
						inside--
					}
					if n%7 == 0 {
						time.Sleep(100 * time.Microsecond)
					}
					if reentrant && n%5 == 0 {
						return lock.Do(ctx, noWork)
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
	q.requireNothingLeft()
	q.requireNoLines()
	q.requireForgotten()
}

// Close ends those who wait in memory, and a lock that was passed on.
func TestCloseEndsSeats(t *testing.T) {
	eachKind(t, false, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 2)
		c := sibling(t, q.server, q.clients[0])
		q.clients[0] = c
		h := q.take(c)
		all := []*waiting{}
		for n := range 5 {
			all = append(all, q.sits(context.Background(), n))
		}
		fresh(h)
		q.unlock(h)
		next := all[0].granted()
		require.NoError(t, c.Close())
		for _, w := range all[1:] {
			require.ErrorIs(t, w.end(), ErrClosed)
		}
		require.ErrorIs(t, next.Err(), ErrClosed)
		require.Empty(t, c.engine.Queue.State().Lines)
	})
}

// A seat that is given the lock at the moment when it is woken leaves the wake-up to its place, which is another's then.
func TestPassedOnAtTheLastMoment(t *testing.T) {
	t.Parallel()
	q := newSeatBench(t)
	h := q.take(q.clients[0])
	w := q.sits(t.Context(), 0)
	c, l := q.clients[0], h.(hold).level.Lease()
	next, left := c.engine.Queue.Next(q.key, time.Now().Add(time.Hour), 0, h.(hold).level.Settings())
	require.Nil(t, left)
	place := c.engine.Queue.State().Lines[q.key].Retained
	place.Nudge() // it wakes, finds that it was given the lock, and waits for that
	testkit.Eventually(t, testkit.Patience, func() bool { return len(place.Wake) == 0 }, "awake")
	passed := l.PassTo(next)
	require.Same(t, passed, w.granted().(hold).level)
	require.Len(t, place.Wake, 1)
	l.Lose(ErrLockLost) // the first hold was not unlocked
	q.requireNothingLeft()
	q.requireNoLines()
}

// An Extend that was under way as the lock was passed on says that its hold is over.
func TestExtendDuringAPass(t *testing.T) {
	t.Parallel()
	q, proxy := newSeatBenchBehind(t)
	h := q.take(q.clients[0])
	w := q.sits(t.Context(), 0)
	renewal := faults.Script(script.Renew.SHA)
	proxy.On(renewal, 1, faults.Delay(500*time.Millisecond))
	extended := testkit.Async(t, func() error { return h.Extend(t.Context(), time.Hour) })
	require.True(t, proxy.Await(renewal, 1, testkit.Patience))
	fresh(h)
	q.unlock(h)
	next := w.granted()
	require.ErrorIs(t, testkit.ResultWithin(t, extended, testkit.Patience), ErrNotHeld)
	require.NoError(t, next.Err())
	q.unlock(next)
	q.requireNothingLeft()
}

// Neither does one that comes when the lock was passed on.
func TestExtendAfterAPass(t *testing.T) {
	t.Parallel()
	q := newSeatBench(t)
	h := q.take(q.clients[0])
	w := q.sits(t.Context(), 0)
	fresh(h)
	next, _ := q.handOver(h, w)
	require.Same(t, leaseOf(h), leaseOf(next))
	require.Equal(t, ErrNotHeld, h.(hold).level.Lengthen(time.Hour), "it has looked before")
	require.Equal(t, lockspec.DefaultLease, leaseOf(next).State().Length)
	q.unlock(next)
	q.requireNothingLeft()
}

// The key stays for no longer than the next holder asks for.
func TestExtendAndPass(t *testing.T) {
	t.Parallel()
	q := newSeatBench(t)
	h := q.take(q.clients[0])
	require.NoError(t, h.Extend(t.Context(), time.Hour))
	w := q.sits(t.Context(), 0)
	fresh(h)
	next, _ := q.handOver(h, w)
	require.LessOrEqual(t, pttl(t, q.server, q.clients[0], queueKey), lockspec.DefaultLease)
	q.unlock(next)
	q.requireNothingLeft()
}

// Nobody says that others hold a lock of which Redis has said nothing.
func TestSeatsBeforeASilentServer(t *testing.T) {
	t.Parallel()
	q := newSeatBench(t)
	q.server.Pause(t)
	defer q.server.Resume(t)
	var all []*waiting
	for range 20 {
		all = append(all, q.wait(t.Context(), q.clients[0], WithBlockTimeout(200*time.Millisecond)))
	}
	for _, w := range all {
		require.NotErrorIs(t, w.end(), ErrLockAcquiredByOthers)
		require.True(t, IsRetryableErr(w.err), w.err)
	}
}

// What is known of others in the queue is what the last answer has said.
func TestOthersAreForgotten(t *testing.T) {
	eachKind(t, false, func(t testing.TB, m queueMode) {
		q := newQueueBench(t, m, 2)
		h := q.take(q.clients[0])
		ctx, cancel := context.WithCancel(t.Context())
		remote := q.wait(ctx, q.clients[1])
		q.awaitQueued(1)
		q.awaitHeard(q.clients[1]) // its first poll is over, which would put the wait back
		w := q.sits(t.Context(), 0)
		require.True(t, q.clients[0].engine.Queue.State().Lines[q.key].Remote)
		cancel()
		require.ErrorIs(t, remote.end(), context.Canceled)
		q.awaitQueued(1)
		grantedAt(h, time.Now().Add(-waitqueue.PassBeside))
		q.unlock(h)
		h = w.granted() // by Redis
		q.sits(t.Context(), 0)
		require.False(t, q.clients[0].engine.Queue.State().Lines[q.key].Remote)
		q.unlock(h)
	})
}
