package relock_test

import (
	"context"
	"errors"
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
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

func requireForced(t testing.TB, err error) {
	t.Helper()
	locktest.RequireIs(t, err, relock.ErrForced, relock.ErrLockLost)
	require.ErrorContains(t, err, `"it hangs"`)
}

// ForceUnlock hands the lock off once its holder has learned of it and of the
// reason: immediately if its client has a subscription, else with its next
// renewal, call or Unlock. A hold that is not renewed looks.
func TestForceUnlock(t *testing.T) {
	t.Parallel()
	for name, learn := range map[string]func(q *locktest.QueueBench, h relock.Hold) error{
		"by a message": func(q *locktest.QueueBench, h relock.Hold) error {
			return testkit.EndedWithin(q, h.Context(), testkit.Patience)
		},
		"by the renewal": func(q *locktest.QueueBench, h relock.Hold) error {
			locktest.RenewNow(h)
			return testkit.EndedWithin(q, h.Context(), testkit.Patience)
		},
		"by looking": func(q *locktest.QueueBench, h relock.Hold) error {
			return testkit.EndedWithin(q, h.Context(), testkit.Patience)
		},
		"by Extend": func(q *locktest.QueueBench, h relock.Hold) error { return h.Extend(q.Context(), time.Minute) },
		"by Unlock": func(q *locktest.QueueBench, h relock.Hold) error { return h.Unlock(q.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			locktest.EachMode(t, locktest.QueueModes, func(t testing.TB, m locktest.QueueMode) {
				q := locktest.NewQueueBenchOn(t, locktest.WithScripts(t, redistest.Start(t)), m, 3)
				const poll = time.Minute // beyond the test's patience
				lease := relock.WithWatchdog(time.Hour)
				if name == "by looking" {
					lease = relock.WithExpiry(4 * time.Second)
				}
				h := q.Take(locktest.Patient(q.Clients[0]), lease)
				if name == "by a message" {
					subscribe(q)
				}
				w := q.WaitNext(t.Context(), 0, q.Clients[2], relock.WithPollInterval(poll), relock.WithWatchdog(time.Hour))
				q.AwaitSubscribed(q.Clients[2]) // by the poll that follows its subscription
				forced := testkit.Async(q, func() error {
					return q.Clients[1].ForceUnlock(t.Context(), locktest.QueueKey, "it hangs")
				})
				if name != "by a message" {
					locktest.AwaitMarked(q, q.Clients[1], locktest.QueueKey)
				}
				requireForced(t, learn(q, h))
				next := w.Granted()
				require.NoError(t, testkit.ResultWithin(q, forced, testkit.Patience))
				require.Error(t, h.Err(), "ended")
				require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrNotHeld)
				require.NoError(t, next.Err())
				q.Unlock(next)
				q.RequireNothingLeft(poll)
			})
		})
	}
}

// subscribe has the first client wait for another lock, which needs a
// subscription, until the test ends.
func subscribe(q *locktest.QueueBench) {
	q.Helper()
	other := locktest.Take(q, relock.NewRedisLock("other", q.Clients[1]).Acquire)
	ctx, cancel := context.WithCancel(q.Context())
	waits := testkit.Async(q, func() error {
		return relock.NewRedisLock("other", q.Clients[0], relock.WithBlock()).Lock(ctx)
	})
	testkit.Eventually(q, testkit.Patience, func() bool {
		return locktest.IsSubscribed(q.Clients[0], "other")
	}, "subscribed")
	q.Cleanup(func() {
		cancel()
		require.ErrorIs(q, testkit.ResultWithin(q, waits, testkit.Patience), context.Canceled)
		require.NoError(q, other.Unlock(context.Background()))
	})
}

// ForceUnlock ends all holds of a read/write lock. Each of their holders learns
// why, and the next waiter has the lock.
func TestForceUnlockRWLock(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Patient(locktest.NewTestClient(t, s))
	other := locktest.Sibling(t, s, c)
	testkit.Each(t, modes, func(t *testing.T, mode string, opts []relock.LockOption) {
		key := "force " + mode
		var holds []relock.Hold
		for _, owner := range []string{"a", "b", "c"} {
			holds = append(holds, locktest.Take(t, locktest.OwnedRW(owner, relock.NewRWLock(key, c, opts...)).RAcquire))
		}
		writer := locktest.OwnedRW("w", relock.NewRWLock(key, other, append(opts, relock.WithBlock())...))
		waits := testkit.Async(t, func() error { return writer.Lock(t.Context()) })
		awaitWaiting(t, c, key, 1)
		forced := testkit.Async(t, func() error { return other.ForceUnlock(t.Context(), key, "it hangs") })
		locktest.AwaitMarked(t, other, key)
		locktest.RenewNow(holds[1])
		requireForced(t, testkit.EndedWithin(t, holds[1].Context(), testkit.Patience))
		require.ErrorIs(t, locktest.OwnedRW("c", relock.NewRWLock(key, c, opts...)).RLock(t.Context()), relock.ErrForced)
		for _, h := range holds {
			requireForced(t, h.Unlock(t.Context()))
		}
		require.NoError(t, testkit.ResultWithin(t, forced, testkit.Patience))
		require.NoError(t, testkit.ResultWithin(t, waits, testkit.Patience))
		require.NoError(t, writer.Unlock(t.Context()))
		require.ErrorIs(t, other.ForceUnlock(t.Context(), key, ""), relock.ErrNotHeld)
	})
}

// The error of a re-entry into a hold that was ended by force names the force.
func TestForceUnlockAndReentry(t *testing.T) {
	t.Parallel()
	c := locktest.Patient(locktest.NewTestClient(t, redistest.Shared(t)))
	l := locktest.Owned("me", relock.NewReentrantLock("k", c))
	require.NoError(t, l.Lock(t.Context()))
	require.NoError(t, c.ForceUnlock(t.Context(), "k", "why"))
	require.ErrorIs(t, l.Lock(t.Context()), relock.ErrForced)
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrForced)
	require.NoError(t, errors.Join(l.Lock(t.Context()), l.Unlock(t.Context())))
}

// A free lock cannot be forced, nor a key that is not a lock.
func TestForceUnlockRefused(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	require.ErrorIs(t, c.ForceUnlock(t.Context(), "free", ""), relock.ErrNotHeld)
	s.Do(t, "SET", locktest.KeyOf(c, "foreign"), "x", "PX", 60_000)
	require.ErrorIs(t, c.ForceUnlock(t.Context(), "foreign", ""), relock.ErrKeyConflict)
	require.ErrorIs(t, c.ForceUnlock(t.Context(), "", ""), relock.ErrInvalid)
	err := c.ForceUnlock(t.Context(), "k", strings.Repeat("x", 256+1))
	require.ErrorIs(t, err, relock.ErrInvalid)
	require.ErrorContains(t, err, "reason")
	require.ErrorContains(t, c.ForceUnlock(t.Context(), "k", "why", relock.WithoutAck(), nil),
		"opts[1]: ForceOption is nil")
}

// A ForceUnlock whose answer was lost is sent again: it ends no other hold.
// Without any answer the hold may be marked, and a second call waits for it.
func TestForceUnlockIsRepeated(t *testing.T) {
	t.Parallel()
	s := locktest.WithScripts(t, redistest.Start(t))
	testkit.Each(t, map[string]faults.Action{
		"cut": faults.CutAfter, "in the answer": faults.CutInAnswer,
	}, func(t *testing.T, _ string, fault faults.Action) {
		c, proxy := locktest.Behind(t, s)
		first, next := locktest.Patient(locktest.Sibling(t, s, c)), locktest.Sibling(t, s, c)
		require.ErrorIs(t, c.ForceUnlock(t.Context(), "k", "the script is known now"), relock.ErrNotHeld)
		h := locktest.Take(t, relock.NewRedisLock("k", first).Acquire)
		forces := faults.Script(script.End.SHA)
		for _, n := range []int{2, 3} { // the first one looks
			proxy.On(forces, n, fault)
		}
		err := c.ForceUnlock(t.Context(), "k", "why")
		require.ErrorIs(t, err, relock.ErrUnconfirmed)
		require.False(t, relock.IsRetryableErr(err))
		marked := proxy.On(forces, 2, fault)
		again := testkit.Async(t, func() error { return c.ForceUnlock(t.Context(), "k", "again") })
		<-marked
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrForced)
		n := locktest.Take(t, relock.NewRedisLock("k", next, relock.WithBlock()).Acquire)
		require.NoError(t, testkit.ResultWithin(t, again, testkit.Patience))
		require.NoError(t, n.Unlock(t.Context()), "is held")
	})
}

// marking is enough for a call that marks a hold, also on a busy machine. A
// call that nobody acknowledges takes as long.
const marking = 2 * time.Second

// The call waits for a hold that nobody acknowledges until that ends by itself.
// Its context ends the call before, and the error says when the hold ends.
func TestForceUnlockOfADeadHolder(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	for name, option := range map[string][]relock.ForceOption{"waits": nil, "frees": {relock.WithoutAck()}} {
		lease := 2 * marking
		if name == "frees" {
			lease = time.Hour
		}
		s.Do(t, "SET", locktest.KeyOf(c, name), "relock/1|p|hold|dead|host|1||2", "PX", lease.Milliseconds())
		ctx, cancel := context.WithTimeout(t.Context(), marking)
		defer cancel()
		err := c.ForceUnlock(ctx, name, "it is dead", option...)
		if name == "waits" {
			locktest.RequireIs(t, err, context.DeadlineExceeded, relock.ErrLockAcquiredByOthers)
			require.Regexp(t, `marked, 1 of 1 holds left, ends at \d{4}-\d\d-\d\dT`, err.Error())
			i, err := c.Inspect(t.Context(), name)
			require.NoError(t, err)
			require.True(t, i.Holder.Forced)
			require.NotErrorIs(t, relock.NewRedisLock(name, c).TryLock(t.Context()), relock.ErrKeyConflict)
			err = c.ForceUnlock(t.Context(), name, "again")
			require.NoError(t, err)
		} else {
			require.NoError(t, err)
		}
		locktest.RequireFree(t, s, c, name)
	}
}

// A reservation that a message may have granted is left alone. Once its waiter
// has the lock, that hold is to end.
func TestForceUnlockOfAGrantByMessage(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	key := locktest.KeyOf(c, "k")
	reservation := lockspec.Reservation("c1:7:pu:7000:" + strings.Repeat("0f", 8))
	s.Do(t, "SET", key, reservation, "PX", 60_000)
	forced := testkit.Async(t, func() error { return c.ForceUnlock(t.Context(), "k", "it hangs") })
	testkit.Eventually(t, testkit.Patience, func() bool { return locktest.Calls(t, s, "evalsha") > 1 },
		"it looks, and asks for the end")
	require.Equal(t, []byte(reservation), s.Do(t, "GET", key))
	s.Do(t, "SET", key, "relock/1|p|c1:7|c1|host|1||2", "PX", 3000)
	testkit.Eventually(t, testkit.Patience, func() bool {
		i := locktest.Inspect(t, c, "k")
		return i.Holder != nil && i.Holder.Forced
	}, "its hold is marked")
	require.NoError(t, testkit.ResultWithin(t, forced, testkit.Patience))
	locktest.RequireFree(t, s, c, "k")
}

// A reservation may be claimed between the two requests of the call. Then the
// hold is to end in its place.
func TestForceUnlockOfAReservationThatIsClaimed(t *testing.T) {
	t.Parallel()
	s := locktest.WithScripts(t, redistest.Start(t))
	for name, stored := range map[string][]any{
		"plain":   {"SET", "relock/1|w|c1:7:pu:7000", "relock/1|p|c1:7|c1|host|1||2"},
		"readers": {"ZADD", "v:c1:7:su:7000", "r:c1:7"},
	} {
		c, proxy := locktest.Behind(t, s)
		key, open := locktest.KeyOf(c, name), make(chan struct{})
		put := func(value any) {
			if stored[0] == "SET" {
				s.Do(t, "SET", key, value, "PX", 2000)
				return
			}
			s.Do(t, "DEL", key)
			s.Do(t, "ZADD", key, time.Now().Add(2*time.Second).UnixMicro(), value, "inf", "relock/1|u", -1, "#c1:7")
			s.Do(t, "PEXPIRE", key, 2000)
		}
		put(stored[1])
		ends := func(args []string) bool { return slices.Contains(args, "end") }
		proxy.On(ends, 1, faults.DelayRequestUntil(open))
		forced := testkit.Async(t, func() error { return c.ForceUnlock(t.Context(), name, "it hangs") })
		require.True(t, proxy.Await(ends, 1, testkit.Patience))
		put(stored[2])
		close(open)
		testkit.Eventually(t, testkit.Patience, func() bool {
			i := locktest.Inspect(t, c, name)
			return i.Holder != nil && i.Holder.Forced || len(i.Readers) == 1 && i.Readers[0].Forced
		}, "its hold is marked")
		require.NoError(t, testkit.ResultWithin(t, forced, testkit.Patience))
	}
}

// A permit that is kept for its minimum hold is nobody's.
func TestForceUnlockOfKeptPermits(t *testing.T) {
	t.Parallel()
	_, c := locktest.OnShared(t)
	l := relock.NewSemaphore("k", 1, c, relock.WithMinHold(time.Minute))
	require.NoError(t, locktest.Take(t, l.Acquire).Unlock(t.Context()))
	require.ErrorIs(t, c.ForceUnlock(t.Context(), "k", "why"), relock.ErrNotHeld)
}

// Each holder learns the reason of the call that has marked its hold.
func TestForceUnlockKeepsTheFirstReason(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Patient(locktest.NewTestClient(t, s))
	other := locktest.Sibling(t, s, c)
	reads := func(owner string) relock.Hold {
		return locktest.Take(t, locktest.OwnedRW(owner, relock.NewRWLock("k", c, relock.WithWatchdog(time.Hour))).RAcquire)
	}
	force := func(reason string) {
		ctx, cancel := context.WithTimeout(t.Context(), marking)
		defer cancel()
		require.ErrorIs(t, other.ForceUnlock(ctx, "k", reason), relock.ErrLockAcquiredByOthers)
	}
	a := reads("a")
	force("first")
	b := reads("b")
	force("second")
	require.ErrorContains(t, a.Unlock(t.Context()), "first")
	require.ErrorContains(t, b.Unlock(t.Context()), "second")
}

// Without an acknowledgement the lock is free immediately, while its holder
// does not know it yet.
func TestForceUnlockWithoutAck(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Patient(locktest.NewTestClient(t, s))
	other := locktest.Sibling(t, s, c)
	testkit.Each(t, locktest.Kinds, func(t *testing.T, kind string, newLock locktest.NewLock) {
		h := locktest.Take(t, newLock(kind, c).Acquire)
		require.NoError(t, other.ForceUnlock(t.Context(), kind, "it hangs", relock.WithoutAck()))
		require.NoError(t, h.Err(), "it does not know")
		next := locktest.Take(t, newLock(kind, other).Acquire)
		locktest.RenewNow(h)
		requireForced(t, testkit.EndedWithin(t, h.Context(), testkit.Patience))
		require.NoError(t, next.Unlock(t.Context()))
	})
}

// A minimum hold and a reservation can be ended by force too. The notice of
// another hold is ignored.
func TestForceUnlockOfWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	for name, newLock := range locktest.Kinds {
		l := newLock(name, c, relock.WithMinHold(time.Minute))
		require.NoError(t, errors.Join(l.Lock(t.Context()), l.Unlock(t.Context())))
		require.NoError(t, c.ForceUnlock(t.Context(), name, "early"))
		locktest.RequireFree(t, s, c, name)
	}
	s.Do(t, "SET", locktest.KeyOf(c, "k"), lockspec.Reservation("c1:7:pu:7000"), "PX", 60_000)
	require.NoError(t, c.ForceUnlock(t.Context(), "k", "nobody comes"))
	locktest.RequireFree(t, s, c, "k")

	h := locktest.Take(t, relock.NewRedisLock("k", c).Acquire)
	s.Do(t, "HSET", locktest.KeyOf(c, "k")+script.NoticeSuffix, "another-hold", "it hangs")
	s.Do(t, "DEL", locktest.KeyOf(c, "k"))
	err := h.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrLockLost)
	require.NotErrorIs(t, err, relock.ErrForced)
}

// Without memory the lock is ended by force too, and its holder learns why.
func TestForceUnlockWithoutMemory(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnOwn(t)
	h := locktest.Take(t, relock.NewRedisLock("k", locktest.Patient(c)).Acquire)
	other := locktest.Sibling(t, s, c)
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")
	forced := testkit.Async(t, func() error { return other.ForceUnlock(t.Context(), "k", "why") })
	locktest.AwaitMarked(t, other, "k")
	err := h.Unlock(t.Context())
	locktest.RequireIs(t, err, relock.ErrLockLost, relock.ErrForced)
	require.ErrorContains(t, err, "why")
	require.NoError(t, testkit.ResultWithin(t, forced, testkit.Patience))
	locktest.RequireFree(t, s, c, "k")
}
