package waitqueue_test

import (
	"context"
	"slices"
	"strings"
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

// newRetained returns a lock that was handed off to its only local waiter,
// whose entry is retained.
func newRetained(t testing.TB, m mode) (q *bench, h relock.Hold, entries []string) {
	t.Helper()
	q = locktest.NewQueueBench(t, m, 2)
	h = q.Take(q.Clients[0])
	w := q.WaitLocally(t.Context(), 0)
	q.AwaitSubscribed(q.Clients[0]) // nobody polls for a retained entry
	entries = q.Entries()
	return q, q.PassTo(h, w), entries
}

// A first local waiter that gives up does so immediately, and leaves its entry
// to the next one, for which that takes the lock. The last one removes it. An
// indeterminate entry of a reentrant lock is not inherited: a late copy would
// take the lock in the name of the call before.
func TestEntryGoesToTheNextLocalWaiter(t *testing.T) {
	const far = 7 * time.Second // the poll interval
	locktest.EachCase(t, locktest.Unfair, map[string]bool{
		"resolved": false, "indeterminate": true,
	}, func(t testing.TB, m mode, indeterminate bool) {
		q, proxy := locktest.NewQueueBenchBehind(t, m)
		if indeterminate {
			proxy.On(faults.Script(script.Enqueue.SHA), 1, faults.HoldAndCut) // and sent again
		}
		givesUp := func(cancel context.CancelFunc, w *waiting) {
			watch := testkit.NewStopwatch(t)
			cancel()
			require.ErrorIs(t, w.End(), context.Canceled)
			watch.Within(time.Second)
		}
		h := q.Take(q.Clients[1])
		ctx, cancel := context.WithCancel(t.Context())
		seldom := relock.WithPollInterval(far)
		first, second, third := q.WaitLocally(ctx, 0, seldom), q.WaitLocally(t.Context(), 1, seldom),
			q.WaitLocally(t.Context(), 2, seldom)
		entries := q.Entries()
		givesUp(cancel, first)
		inherits := m == locktest.PlainUnfair || !indeterminate
		testkit.Eventually(t, testkit.Patience, func() bool {
			return q.QueueLength() == 1 && slices.Equal(entries, q.Entries()) == inherits
		}, "its entry, or a separate one")
		q.Unlock(h)
		next := second.Granted()
		if m == locktest.ReentrantUnfair {
			q.RequireStored(next, 1)
			hold := string(q.Server.Do(q, "HGET", q.Key, "hold").([]byte))
			require.Equal(t, inherits, strings.HasPrefix(entries[0], hold+":"), "it had the entry")
		}
		proxy.Release()
		q.Unlock(q.PassTo(next, third))
		q.RequireIdle(far)

		h = q.Take(q.Clients[1])
		ctx, cancel = context.WithCancel(t.Context())
		givesUp(cancel, q.WaitLocally(ctx, 0, seldom))
		q.AwaitQueued(0)
		q.Unlock(h)
		q.RequireIdle(far)
	})
}

// The entry of a waiter that was granted the lock is retained if there is no
// other waiter. The next waiter takes it, or the end of the lease removes it.
// What is handed off to it meanwhile goes to others immediately.
func TestRetainedEntry(t *testing.T) {
	locktest.EachCase(t, locktest.Unfair, map[string]func(*bench, relock.Hold){
		"taken again": func(q *bench, h relock.Hold) {
			entries := q.Entries()
			for range 5 {
				w := q.WaitLocally(q.Context(), 0)
				require.Equal(q, entries, q.Entries())
				h = q.PassTo(h, w)
				require.Equal(q, entries, q.Entries())
			}
			q.Unlock(h)
		},
		"unlocked": func(q *bench, h relock.Hold) { q.Unlock(h) },
		"detached": func(q *bench, h relock.Hold) {
			token, err := q.Clients[0].Detach(q.Context(), h, time.Minute)
			require.NoError(q, err)
			testkit.Eventually(q, testkit.Patience, func() bool { return len(q.Entries()) == 0 }, "the entry stays in the queue")
			h, err = q.Clients[1].Resume(q.Context(), token)
			require.NoError(q, err)
			q.Unlock(h)
		},
		"lost": func(q *bench, h relock.Hold) {
			q.Server.Do(q, "DEL", q.Key)
			locktest.RenewNow(h)
			require.ErrorIs(q, testkit.EndedWithin(q, h.Context(), testkit.Patience), relock.ErrLockLost)
			require.ErrorIs(q, h.Unlock(q.Context()), relock.ErrLockLost)
		},
		"handed off to": func(q *bench, h relock.Hold) {
			other := q.Wait(q.Context(), q.Clients[1])
			q.AwaitQueued(2)
			time.Sleep(20 * time.Millisecond) // the lock is reserved for the entry then
			watch := testkit.NewStopwatch(q)
			require.NoError(q, q.Clients[1].ForceUnlock(q.Context(), locktest.QueueKey, "maintenance"))
			next := other.Granted()
			watch.Within(time.Second)
			require.ErrorIs(q, h.Unlock(q.Context()), relock.ErrLockLost)
			q.Unlock(next)
		},
	}, func(t testing.TB, m mode, end func(*bench, relock.Hold)) {
		q, h, entries := newRetained(t, m)
		require.Equal(t, entries, q.Entries())
		end(q, h)
		q.RequireIdle()
	})
}

// A retained entry is of no use to a call with other options: the entry asks
// Redis for something else.
func TestRetainedEntryForOtherOptions(t *testing.T) {
	locktest.EachCase(t, locktest.Unfair, map[string]relock.LockOption{
		"shorter, fixed": relock.WithExpiry(20 * time.Second), "longer, fixed": relock.WithExpiry(2 * time.Minute),
		"label": relock.WithLabel("other"), "maximum hold": relock.WithMaxHold(time.Hour),
	}, func(t testing.TB, m mode, opt relock.LockOption) {
		q, h, entries := newRetained(t, m)
		w := q.WaitLocally(t.Context(), 0, opt)
		testkit.Eventually(t, testkit.Patience, func() bool {
			now := q.Entries()
			return len(now) == 1 && now[0] != entries[0]
		}, "a separate entry")
		q.UnlockFresh(h)
		next := w.Granted()
		valid := next.ValidUntil() // read before the claim of a grant by message can lengthen both
		left := locktest.PTTL(t, q.Server, q.Clients[0], locktest.QueueKey)
		require.LessOrEqual(t, time.Until(valid), left)
		q.Unlock(next)
		q.RequireIdle()
	})
}

// Redis may have removed an entry that was retained for a while: the waiter
// that takes it makes sure immediately.
func TestRetainedEntryThatIsGone(t *testing.T) {
	locktest.EachMode(t, locktest.Unfair, func(t testing.TB, m mode) {
		q, h, _ := newRetained(t, m)
		time.Sleep(lockspec.DefaultPollInterval)
		q.Server.Do(t, "DEL", q.Key+":q", q.Key+":b")
		watch := testkit.NewStopwatch(t)
		w := q.WaitLocally(t.Context(), 0)
		q.AwaitQueued(1)
		watch.Within(500*time.Millisecond, "back in the queue by a poll")
		next := q.PassTo(h, w)
		require.Equal(t, 1, q.QueueLength(), "handed off with the entry that it took, which is retained")
		q.UnlockLast(next)
	})
}

// A first local waiter that was notified is handed off nothing: Redis may have
// reserved the lock for its entry.
func TestNoLocalHandOffToANotifiedWaiter(t *testing.T) {
	t.Parallel()
	q, proxy := locktest.NewQueueBenchBehind(t, locktest.PlainUnfair)
	h := q.Take(q.Clients[0])
	w := q.WaitLocally(t.Context(), 0)
	claims := make(chan struct{})
	proxy.On(faults.Script(script.Claim.SHA), 1, faults.DelayRequestUntil(claims))
	value := q.Value()
	locktest.Engine(q.Clients[0]).Queue.Notify(q.Entries()[0], q.Key)
	require.False(t, isResting(q))
	q.UnlockFresh(h)
	close(claims)
	next := w.Granted()
	require.NotEqual(t, value, q.Value())
	q.UnlockLast(next)
}
