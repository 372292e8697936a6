package relock

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
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
		require.ErrorIs(t, err, ErrForced)
		require.ErrorIs(t, err, ErrLockLost)
		require.ErrorContains(t, err, `"it hangs"`)
	}
	for name, tell := range map[string]func(t testing.TB, q *queueBench, h Hold){
		"by a message": func(t testing.TB, q *queueBench, h Hold) {
			ctx, cancel := context.WithCancel(t.Context())
			waits := testkit.Async(t, func() error { return NewRedisLock("other", q.clients[0], WithBlock()).Lock(ctx) })
			testkit.Eventually(t, testkit.Patience, func() bool {
				return q.clients[0].engine.Queue.State().Subscribed
			}, "listens")
			require.NoError(t, q.clients[1].ForceUnlock(t.Context(), queueKey, "it hangs"))
			requireForced(t, testkit.EndedWithin(t, h.Context(), 5*time.Second))
			cancel()
			require.ErrorIs(t, testkit.ResultWithin(t, waits, testkit.Patience), context.Canceled)
		},
		"by the renewal": func(t testing.TB, q *queueBench, h Hold) {
			require.NoError(t, q.clients[1].ForceUnlock(t.Context(), queueKey, "it hangs"))
			l := h.(hold).level.Lease()
			l.RenewNow()
			requireForced(t, testkit.EndedWithin(t, h.Context(), 5*time.Second))
		},
		"by Extend": func(t testing.TB, q *queueBench, h Hold) {
			require.NoError(t, q.clients[1].ForceUnlock(t.Context(), queueKey, "it hangs"))
			requireForced(t, h.Extend(t.Context(), time.Minute))
		},
		"by Unlock": func(t testing.TB, q *queueBench, h Hold) {
			require.NoError(t, q.clients[1].ForceUnlock(t.Context(), queueKey, "it hangs"))
			requireForced(t, h.Unlock(t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachMode(t, func(t testing.TB, m queueMode) {
				q := newQueueBenchOn(t, taught(t, redistest.Start(t)), m, 3)
				h := q.take(patient(q.clients[0]))
				if name == "by a message" {
					other := q.take2(t)
					defer func() { require.NoError(t, other.Unlock(t.Context())) }()
				}
				const poll = 5 * time.Second
				w := q.waitNext(t.Context(), 0, q.clients[2], WithPollInterval(poll))
				q.awaitHeard(q.clients[2]) // by the poll that follows its subscription
				start := time.Now()
				tell(t, q, h)
				next := w.granted()
				require.Less(t, w.at.Sub(start), poll/2, "its next poll comes later")
				require.Error(t, h.Err(), "over")
				require.ErrorIs(t, h.Unlock(t.Context()), ErrNotHeld)
				require.NoError(t, next.Err())
				q.unlock(next)
				q.requireNothingLeft(poll)
			})
		})
	}
}

// take2 holds the lock that somebody waits for only to have a subscription.
func (q *queueBench) take2(t testing.TB) Hold {
	h, err := NewRedisLock("other", q.clients[1]).Acquire(t.Context())
	require.NoError(t, err)
	return h
}

// A re-entry into a hold that was ended by force says so.
func TestForceUnlockAndReentry(t *testing.T) {
	t.Parallel()
	c := patient(newTestClient(t, redistest.Shared(t)))
	l := owned("me", NewReentrantLock("k", c))
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, c.ForceUnlock(t.Context(), "k", "why"))
	require.ErrorIs(t, l.Lock(t.Context()), ErrForced)
	require.ErrorIs(t, l.Unlock(t.Context()), ErrForced)
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, l.Unlock(t.Context()))
}

// The release of an inner level may be the first to find it, in the background.
func TestForceUnlockIsFoundByAnInnerLevel(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := patient(newTestClient(t, s))
	outer, err := owned("me", NewReentrantLock("k", c)).Acquire(t.Context())
	require.NoError(t, err)
	inner, err := owned("me", NewReentrantLock("k", c, WithMaxHold(time.Hour))).Acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, sibling(t, s, c).ForceUnlock(t.Context(), "k", "why"))
	inner.(hold).level.ReachMaxHold()
	require.ErrorIs(t, inner.Err(), ErrMaxHold)
	require.ErrorIs(t, testkit.EndedWithin(t, outer.Context(), lockspec.DefaultLease/6), ErrForced, "before a renewal")
	require.ErrorContains(t, outer.Err(), "why")
	require.ErrorIs(t, outer.Unlock(t.Context()), ErrForced)
}

// What there is nothing to force, and what is not a lock.
func TestForceUnlockRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	require.ErrorIs(t, c.ForceUnlock(t.Context(), "free", ""), ErrNotHeld)
	s.Do(t, "SET", keyOf(c, "alien"), "x", "PX", 60_000)
	require.ErrorIs(t, c.ForceUnlock(t.Context(), "alien", ""), ErrKeyConflict)
	require.ErrorIs(t, c.ForceUnlock(t.Context(), "", ""), ErrInvalid)
	err := c.ForceUnlock(t.Context(), "k", strings.Repeat("x", maxReason+1))
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorContains(t, err, "reason")
}

// A ForceUnlock whose answer was lost is not sent again: it would end the hold of the next one.
func TestForceUnlockIsSentOnce(t *testing.T) {
	t.Parallel()
	s := taught(t, redistest.Start(t))
	for name, fault := range map[string]faults.Action{"cut": faults.CutAfter, "in the answer": faults.CutInAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := faults.Start(t, s.Network, s.Address)
			c := newTestClient(t, &redistest.Server{Network: proxy.Network, Address: proxy.Address})
			first, next := patient(sibling(t, s, c)), sibling(t, s, c)
			require.ErrorIs(t, c.ForceUnlock(t.Context(), "k", "the script is known now"), ErrNotHeld)
			h, err := NewRedisLock("k", first).Acquire(t.Context())
			require.NoError(t, err)
			forces := faults.Script(script.Force.SHA)
			cut := proxy.On(forces, 1, fault)
			proxy.On(forces, 2, faults.DelayRequest(500*time.Millisecond)) // the next one comes before a copy
			result := testkit.Async(t, func() error { return c.ForceUnlock(t.Context(), "k", "why") })
			<-cut
			n, err := NewRedisLock("k", next).Acquire(t.Context())
			require.NoError(t, err)
			err = testkit.ResultWithin(t, result, testkit.Patience)
			require.NoError(t, n.Unlock(t.Context()), "is held")
			require.ErrorIs(t, err, ErrUnconfirmed)
			require.False(t, IsRetryableErr(err))
			require.ErrorIs(t, h.Unlock(t.Context()), ErrForced)
		})
	}
}

// A minimum hold and a reservation end by force too; the notice of another hold is none of ours.
func TestForceUnlockOfWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	for name, newLock := range kinds {
		l := newLock(name, c, WithMinHold(time.Minute))
		require.NoError(t, l.Lock(t.Context()))
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, c.ForceUnlock(t.Context(), name, "early"))
		requireFree(t, s, c, name)
	}
	s.Do(t, "SET", keyOf(c, "k"), scripttest.WaitNamed("c1", 7, "pu").Reserved(), "PX", 60_000)
	require.NoError(t, c.ForceUnlock(t.Context(), "k", "nobody comes"))
	requireFree(t, s, c, "k")

	h, err := NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	s.Do(t, "SET", keyOf(c, "k")+script.NoticeSuffix, "another-hold why", "PX", 60_000)
	s.Do(t, "DEL", keyOf(c, "k"))
	err = h.Unlock(t.Context())
	require.ErrorIs(t, err, ErrLockLost)
	require.NotErrorIs(t, err, ErrForced)
}

// A forged message ends nothing.
func TestForgedForceMessage(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := patient(newTestClient(t, s))
	h, err := NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	p := leaseOf(h).Protocol()
	require.Equal(t, keyOf(c, "k"), p.LockKey())
	c.engine.Forced(p.HoldID(), p.LockKey())
	c.engine.Forced("another", p.LockKey())
	c.engine.Forced("", "elsewhere")
	testkit.Eventually(t, testkit.Patience, func() bool { return calls(t, s, "get") == 1 }, "has looked")
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
	c := newTestClient(t, s)
	h, err := NewRedisLock("k", c).Acquire(t.Context())
	require.NoError(t, err)
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	require.NoError(t, c.ForceUnlock(t.Context(), "k", "why"))
	requireFree(t, s, c, "k")
	err = h.Unlock(t.Context())
	require.ErrorIs(t, err, ErrLockLost)
	require.NotErrorIs(t, err, ErrForced)
}

// Close gives back what is held, when it was asked to; else it stays until its lease ends.
func TestReleaseOnClose(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	watcher := newTestClient(t, s)
	prefix := WithKeyPrefix(watcher.config.prefix)
	for name, opts := range map[string][]ClientOption{"released": {prefix, WithReleaseOnClose()}, "kept": {prefix}} {
		t.Run(name, func(t *testing.T) {
			c, err := NewClient(s.Network, s.Address, "", opts...)
			require.NoError(t, err)
			var holds []Hold
			for i := range 250 {
				h, err := NewRedisLock(name+strings.Repeat("x", i), c).Acquire(t.Context())
				require.NoError(t, err)
				holds = append(holds, h)
			}
			r := NewReentrantLock(name+"r", c)
			require.NoError(t, r.Lock(t.Context()))
			require.NoError(t, r.Lock(t.Context()))
			minimum := NewRedisLock(name+"m", c, WithMinHold(time.Minute))
			require.NoError(t, minimum.Lock(t.Context()))
			waits := testkit.Async(t, func() error { return NewRedisLock(name, watcher, WithBlock()).Lock(t.Context()) })
			testkit.Eventually(t, testkit.Patience, func() bool { return inspect(t, watcher, name).Waiting == 1 }, "waits")

			require.NoError(t, c.Close())
			for _, h := range holds {
				require.ErrorIs(t, h.Err(), ErrClosed)
				require.ErrorIs(t, h.Unlock(t.Context()), ErrClosed)
			}
			if name == "kept" {
				require.Len(t, listedNames(t, watcher, name), 252)
				require.NoError(t, watcher.ForceUnlock(t.Context(), name, "the test is over"))
			} else {
				testkit.Eventually(t, testkit.Patience, func() bool { return len(listedNames(t, watcher, name)) == 2 }, "the minimum hold, and the one that waited")
				require.Equal(t, StateKept, inspect(t, watcher, name+"m").State)
			}
			require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
		})
	}
}

// A lock that one call has given to another, which has not come to take it, is given back as well.
func TestReleaseOnCloseOfATransfer(t *testing.T) {
	t.Parallel()
	q := newTransferBench(t, WithReleaseOnClose())
	c := q.clients[0]
	h := q.take(c)
	first := q.sits(context.Background(), 0)
	owner := c.engine.Queue.State().Lines[q.key].Waiters[0].Attempt.(interface{ OwnerID() string }).OwnerID()
	goOn := c.engine.Block(lease.OwnerKey{Lock: queueKey, ID: owner, Family: lockspec.ReentrantFamily})
	fresh(h)
	q.unlock(h)
	require.NoError(t, c.Close())
	require.Equal(t, int64(0), q.server.Do(t, "EXISTS", q.key))
	goOn()
	require.ErrorIs(t, first.end(), ErrClosed)
}

func listedNames(t testing.TB, c *Client, prefix string) (names []string) {
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
	c, err := NewClient(s.Network, s.Address, "", WithReleaseOnClose())
	require.NoError(t, err)
	require.NoError(t, NewRedisLock("k", c).Lock(t.Context()))
	c.engine.CommandTimeout = 200 * time.Millisecond // of Close; the call before it has more
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
	c, err := NewClient(proxy.Network, proxy.Address, "", WithDatabase(1), WithReleaseOnClose())
	require.NoError(t, err)
	for i := range 350 {
		require.NoError(t, NewRedisLock(fmt.Sprint("k", i), c).Lock(t.Context()))
	}
	c.engine.CommandTimeout = 300 * time.Millisecond // of Close; the calls before it have more
	proxy.On(faults.Any, faults.Every, faults.DropRequest)
	start := time.Now()
	require.NoError(t, c.Close())
	require.Less(t, time.Since(start), time.Second)
}

// HoldCount is the caller's levels by this client.
func TestHoldCount(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	l := owned("me", NewReentrantLock("k", c, WithWatchdog(3*time.Second)))
	require.Zero(t, l.HoldCount(as(t, "me")))
	for n := range 3 {
		require.NoError(t, l.Lock(t.Context()))
		require.Equal(t, n+1, l.HoldCount(as(t, "me")))
	}
	require.Zero(t, l.HoldCount(ContextWithOwner(t.Context(), "other")))
	require.Zero(t, NewReentrantLock("k", sibling(t, s, c)).HoldCount(as(t, "me")))
	require.NoError(t, l.Unlock(t.Context()))
	require.Equal(t, 2, l.HoldCount(as(t, "me")))
	s.Do(t, "DEL", keyOf(c, "k"))
	testkit.Eventually(t, 5*time.Second, func() bool { return l.HoldCount(as(t, "me")) == 0 }, "lost")
	require.ErrorIs(t, l.Unlock(t.Context()), ErrLockLost)
	require.ErrorIs(t, l.Unlock(t.Context()), ErrLockLost)
	require.Zero(t, l.HoldCount(ContextWithOwner(t.Context(), "")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	goOn := c.engine.Block(lease.OwnerKey{Lock: "k", ID: c.engine.Identity.Named("busy"), Family: lockspec.ReentrantFamily})
	require.Zero(t, NewReentrantLock("k", c).HoldCount(ContextWithOwner(ctx, "busy")))
	goOn()
}
