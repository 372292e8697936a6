package relock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
	"github.com/relock-go/relock/internal/testkit"
)

// ForceUnlock hands the lock over, and the holder learns who did it and why: at once when its client has a subscription, else
// with its next renewal, call or Unlock.
func TestForceUnlock(t *testing.T) {
	t.Parallel()
	requireForced := func(t testing.TB, err error) {
		t.Helper()
		require.ErrorIs(t, err, relock.ErrForced)
		require.ErrorIs(t, err, relock.ErrLockLost)
		require.ErrorContains(t, err, `"it hangs"`)
	}
	for name, tell := range map[string]func(t testing.TB, q *locktest.QueueBench, h relock.Hold){
		"by a message": func(t testing.TB, q *locktest.QueueBench, h relock.Hold) {
			ctx, cancel := context.WithCancel(t.Context())
			waits := testkit.Async(t, func() error { return relock.NewRedisLock("other", q.Clients[0], relock.WithBlock()).Lock(ctx) })
			testkit.Eventually(t, testkit.Patience, func() bool {
				return locktest.Engine(q.Clients[0]).Queue.State().Subscribed
			}, "listens")
			require.NoError(t, q.Clients[1].ForceUnlock(t.Context(), locktest.QueueKey, "it hangs"))
			requireForced(t, testkit.EndedWithin(t, h.Context(), 5*time.Second))
			cancel()
			require.ErrorIs(t, testkit.ResultWithin(t, waits, testkit.Patience), context.Canceled)
		},
		"by the renewal": func(t testing.TB, q *locktest.QueueBench, h relock.Hold) {
			require.NoError(t, q.Clients[1].ForceUnlock(t.Context(), locktest.QueueKey, "it hangs"))
			l := locktest.Level(h).Lease()
			l.RenewNow()
			requireForced(t, testkit.EndedWithin(t, h.Context(), 5*time.Second))
		},
		"by Extend": func(t testing.TB, q *locktest.QueueBench, h relock.Hold) {
			require.NoError(t, q.Clients[1].ForceUnlock(t.Context(), locktest.QueueKey, "it hangs"))
			requireForced(t, h.Extend(t.Context(), time.Minute))
		},
		"by Unlock": func(t testing.TB, q *locktest.QueueBench, h relock.Hold) {
			require.NoError(t, q.Clients[1].ForceUnlock(t.Context(), locktest.QueueKey, "it hangs"))
			requireForced(t, h.Unlock(t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			locktest.EachMode(t, func(t testing.TB, m locktest.QueueMode) {
				q := locktest.NewQueueBenchOn(t, locktest.Taught(t, redistest.Start(t)), m, 3)
				h := q.Take(locktest.Patient(q.Clients[0]))
				if name == "by a message" {
					other := q.Take2(t)
					defer func() { require.NoError(t, other.Unlock(t.Context())) }()
				}
				const poll = 5 * time.Second
				w := q.WaitNext(t.Context(), 0, q.Clients[2], relock.WithPollInterval(poll))
				q.AwaitHeard(q.Clients[2]) // by the poll that follows its subscription
				start := time.Now()
				tell(t, q, h)
				next := w.Granted()
				require.Less(t, w.At.Sub(start), poll/2, "its next poll comes later")
				require.Error(t, h.Err(), "over")
				require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrNotHeld)
				require.NoError(t, next.Err())
				q.Unlock(next)
				q.RequireNothingLeft(poll)
			})
		})
	}
}

// A re-entry into a hold that was ended by force says so.
func TestForceUnlockAndReentry(t *testing.T) {
	t.Parallel()
	c := locktest.Patient(locktest.NewTestClient(t, redistest.Shared(t)))
	l := relock.NewReentrantLock("k", c, relock.WithOwner("me"))
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, c.ForceUnlock(t.Context(), "k", "why"))
	require.ErrorIs(t, l.Lock(t.Context()), relock.ErrForced)
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrForced)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
}

// The release of an inner level may be the first to find it, in the background.
func TestForceUnlockIsFoundByAnInnerLevel(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Patient(locktest.NewTestClient(t, s))
	outer, err := relock.NewReentrantLock("k", c, relock.WithOwner("me")).Acquire(t.Context())
	require.NoError(t, err)
	inner, err := relock.NewReentrantLock("k", c, relock.WithOwner("me"), relock.WithMaxHold(time.Hour)).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, locktest.Sibling(t, s, c).ForceUnlock(t.Context(), "k", "why"))
	locktest.Level(inner).ReachMaxHold()
	require.ErrorIs(t, inner.Err(), relock.ErrMaxHold)
	require.ErrorIs(t, testkit.EndedWithin(t, outer.Context(), lockspec.DefaultLease/6), relock.ErrForced, "before a renewal")
	require.ErrorContains(t, outer.Err(), "why")
	require.ErrorIs(t, outer.Unlock(t.Context()), relock.ErrForced)
}

// What there is nothing to force, and what is not a lock.
func TestForceUnlockRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	require.ErrorIs(t, c.ForceUnlock(t.Context(), "free", ""), relock.ErrNotHeld)
	s.Do(t, "SET", locktest.KeyOf(c, "alien"), "x", "PX", 60_000)
	require.ErrorIs(t, c.ForceUnlock(t.Context(), "alien", ""), relock.ErrKeyConflict)
	require.ErrorIs(t, c.ForceUnlock(t.Context(), "", ""), relock.ErrInvalid)
	err := c.ForceUnlock(t.Context(), "k", strings.Repeat("x", 256+1))
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.ErrorContains(t, err, "reason")
}

// A ForceUnlock whose answer was lost is not sent again: it would end the hold of the next one.
func TestForceUnlockIsSentOnce(t *testing.T) {
	t.Parallel()
	s := locktest.Taught(t, redistest.Start(t))
	for name, fault := range map[string]faults.Action{"cut": faults.CutAfter, "in the answer": faults.CutInAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := faults.Start(t, s.Network, s.Address)
			c := locktest.NewTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
			first, next := locktest.Patient(locktest.Sibling(t, s, c)), locktest.Sibling(t, s, c)
			require.ErrorIs(t, c.ForceUnlock(t.Context(), "k", "the script is known now"), relock.ErrNotHeld)
			h, err := relock.NewRedisLock("k", first).Acquire(t.Context())
			require.NoError(t, err)
			forces := faults.Script(script.Force.SHA)
			cut := proxy.On(forces, 1, fault)
			proxy.On(forces, 2, faults.DelayRequest(500*time.Millisecond)) // the next one comes before a copy
			result := testkit.Async(t, func() error { return c.ForceUnlock(t.Context(), "k", "why") })
			<-cut
			n, err := relock.NewRedisLock("k", next).Acquire(t.Context())
			require.NoError(t, err)
			err = testkit.ResultWithin(t, result, testkit.Patience)
			require.NoError(t, n.Unlock(t.Context()), "is held")
			require.ErrorIs(t, err, relock.ErrUnconfirmed)
			require.False(t, relock.IsRetryableErr(err))
			require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrForced)
		})
	}
}

// A minimum hold and a reservation end by force too; the notice of another hold is none of ours.
func TestForceUnlockOfWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	for name, newLock := range locktest.Kinds {
		l := newLock(name, c, relock.WithMinHold(time.Minute))
		require.NoError(t, l.Lock(t.Context()))
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, c.ForceUnlock(t.Context(), name, "early"))
		locktest.RequireFree(t, s, c, name)
	}
	s.Do(t, "SET", locktest.KeyOf(c, "k"), scripttest.WaitNamed("c1", 7, "pu").Reserved(), "PX", 60_000)
	require.NoError(t, c.ForceUnlock(t.Context(), "k", "nobody comes"))
	locktest.RequireFree(t, s, c, "k")

	h, err := relock.NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	s.Do(t, "SET", locktest.KeyOf(c, "k")+script.NoticeSuffix, "another-hold why", "PX", 60_000)
	s.Do(t, "DEL", locktest.KeyOf(c, "k"))
	err = h.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrLockLost)
	require.NotErrorIs(t, err, relock.ErrForced)
}

// A forged message ends nothing.
func TestForgedForceMessage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Patient(locktest.NewTestClient(t, s))
	h, err := relock.NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	p := locktest.LeaseOf(h).Protocol()
	require.Equal(t, locktest.KeyOf(c, "k"), p.LockKey())
	locktest.Engine(c).Forced(p.HoldID(), p.LockKey())
	locktest.Engine(c).Forced("another", p.LockKey())
	locktest.Engine(c).Forced("", "elsewhere")
	testkit.Eventually(t, testkit.Patience, func() bool { return locktest.Calls(t, s, "get") == 1 }, "has looked")
	select {
	case <-h.Context().Done():
		t.Error("believed")
	case <-time.After(100 * time.Millisecond):
	}
	require.NoError(t, h.Unlock(t.Context()))
}

// Without memory a lock is forced open all the same; its holder is told less.
func TestForceUnlockWithoutMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s)
	h, err := relock.NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	require.NoError(t, c.ForceUnlock(t.Context(), "k", "why"))
	locktest.RequireFree(t, s, c, "k")
	err = h.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrLockLost)
	require.NotErrorIs(t, err, relock.ErrForced)
}

// Close gives back what is held, when it was asked to; else it stays until its lease ends.
func TestReleaseOnClose(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	watcher := locktest.NewTestClient(t, s)
	prefix := relock.WithKeyPrefix(locktest.Prefix(watcher))
	for name, opts := range map[string][]relock.ClientOption{"released": {prefix, relock.WithReleaseOnClose()}, "kept": {prefix}} {
		t.Run(name, func(t *testing.T) {
			c, err := relock.NewClient(s.Network, s.Address, "", opts...)
			require.NoError(t, err)
			var holds []relock.Hold
			for i := range 250 {
				h, err := relock.NewRedisLock(name+strings.Repeat("x", i), c).Acquire(t.Context())
				require.NoError(t, err)
				holds = append(holds, h)
			}
			r := relock.NewReentrantLock(name+"r", c)
			require.NoError(t, r.Lock(t.Context()))
			require.NoError(t, r.Lock(t.Context()))
			minimum := relock.NewRedisLock(name+"m", c, relock.WithMinHold(time.Minute))
			require.NoError(t, minimum.Lock(t.Context()))
			waits := testkit.Async(t, func() error { return relock.NewRedisLock(name, watcher, relock.WithBlock()).Lock(t.Context()) })
			testkit.Eventually(t, testkit.Patience, func() bool { return locktest.Inspect(t, watcher, name).Waiting == 1 }, "waits")

			require.NoError(t, c.Close())
			for _, h := range holds {
				require.ErrorIs(t, h.Err(), relock.ErrClosed)
				require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrClosed)
			}
			if name == "kept" {
				require.Len(t, listedNames(t, watcher, name), 252)
				require.NoError(t, watcher.ForceUnlock(t.Context(), name, "the test is over"))
			} else {
				testkit.Eventually(t, testkit.Patience, func() bool { return len(listedNames(t, watcher, name)) == 2 }, "the minimum hold, and the one that waited")
				require.Equal(t, relock.StateKept, locktest.Inspect(t, watcher, name+"m").State)
			}
			require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
		})
	}
}

// A lock that one call has given to another, which has not come to take it, is given back as well.
func TestReleaseOnCloseOfATransfer(t *testing.T) {
	t.Parallel()
	q := locktest.NewTransferBench(t, relock.WithReleaseOnClose())
	c := q.Clients[0]
	h := q.Take(c)
	first := q.Sits(context.Background(), 0)
	owner := locktest.Engine(c).Queue.State().Lines[q.Key].Waiters[0].Attempt.(interface{ OwnerID() string }).OwnerID()
	goOn := locktest.Engine(c).Block(lease.OwnerKey{Lock: locktest.QueueKey, ID: owner, Family: lockspec.ReentrantFamily})
	locktest.Fresh(h)
	q.Unlock(h)
	require.NoError(t, c.Close())
	require.Equal(t, int64(0), q.Server.Do(t, "EXISTS", q.Key))
	goOn()
	require.ErrorIs(t, first.End(), relock.ErrClosed)
}

func listedNames(t testing.TB, c *relock.Client, prefix string) (names []string) {
	t.Helper()
	for info, err := range c.List(t.Context(), prefix+"*") {
		require.NoError(t, err)
		names = append(names, info.Key)
	}
	return names
}

// Close does not wait for a server that does not answer for longer than a command may take.
func TestReleaseOnCloseOfASilentServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, err := relock.NewClient(s.Network, s.Address, "", relock.WithReleaseOnClose())
	require.NoError(t, err)
	require.NoError(t, relock.NewRedisLock("k", c).Lock(t.Context()))
	locktest.Engine(c).CommandTimeout = 200 * time.Millisecond // of Close; the call before it has more
	s.Pause(t)
	defer s.Resume(t)
	start := time.Now()
	require.NoError(t, c.Close())
	require.Less(t, time.Since(start), 2*time.Second)
}

// With many holds it does not wait again and again for a server that lets nobody in.
func TestReleaseOnCloseOfManyWithoutALogin(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := faults.Start(t, s.Network, s.Address)
	c, err := relock.NewClient(proxy.Network, proxy.Address, "", relock.WithDatabase(1), relock.WithReleaseOnClose())
	require.NoError(t, err)
	for i := range 350 {
		require.NoError(t, relock.NewRedisLock(fmt.Sprint("k", i), c).Lock(t.Context()))
	}
	locktest.Engine(c).CommandTimeout = 300 * time.Millisecond // of Close; the calls before it have more
	proxy.On(faults.Any, faults.Every, faults.DropRequest)
	start := time.Now()
	require.NoError(t, c.Close())
	require.Less(t, time.Since(start), time.Second)
}

// HoldCount is the caller's levels by this client.
func TestHoldCount(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	l := relock.NewReentrantLock("k", c, relock.WithOwner("me"), relock.WithWatchdog(3*time.Second))
	require.Zero(t, l.HoldCount(t.Context()))
	for n := range 3 {
		require.NoError(t, l.Lock(t.Context()))
		require.Equal(t, n+1, l.HoldCount(t.Context()))
	}
	require.Zero(t, l.HoldCount(relock.ContextWithOwner(t.Context(), "other")))
	require.Zero(t, relock.NewReentrantLock("k", locktest.Sibling(t, s, c), relock.WithOwner("me")).HoldCount(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
	require.Equal(t, 2, l.HoldCount(t.Context()))
	s.Do(t, "DEL", locktest.KeyOf(c, "k"))
	testkit.Eventually(t, 5*time.Second, func() bool { return l.HoldCount(t.Context()) == 0 }, "lost")
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost)
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost)
	require.Zero(t, l.HoldCount(relock.ContextWithOwner(t.Context(), "")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	goOn := locktest.Engine(c).Block(lease.OwnerKey{Lock: "k", ID: locktest.Engine(c).Identity.Named("busy"), Family: lockspec.ReentrantFamily})
	require.Zero(t, relock.NewReentrantLock("k", c, relock.WithOwner("busy")).HoldCount(ctx))
	goOn()
}
