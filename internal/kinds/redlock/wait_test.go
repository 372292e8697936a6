package redlock_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

var (
	// notified is the limit for the median of grants that a message brings
	// about. Calls that poll wait for more.
	notified = locktest.PatientPoll / 5
	// polled is the limit for the median of grants to calls that poll.
	polled = 200 * time.Millisecond
	often  = relock.WithPollInterval(20 * time.Millisecond)
)

// awaitAsked waits until calls behind the proxies have asked each node that
// many times more.
func awaitAsked(b *locktest.RedBench, times int) {
	b.Helper()
	asked := func() (n int) {
		for _, p := range b.Proxies {
			n += p.Count(faults.Script(script.RedLockAcquire.SHA))
		}
		return n
	}
	before := asked()
	testkit.Eventually(b, testkit.Patience, func() bool { return asked() >= before+times*len(b.Proxies) }, "asks")
}

// handOff returns the median of the time from an Unlock to the grant of a call
// that waits, which begins anew each time.
func handOff(b *locktest.RedBench, wait func() *locktest.Waiting, opts ...relock.LockOption) time.Duration {
	b.Helper()
	var took []time.Duration
	for range 5 {
		h := b.TakeWhole(opts...)
		next, d := b.Granted(wait(), h)
		took = append(took, d)
		require.NoError(b, next.Unlock(b.Context()))
		b.RequireFree(time.Second)
	}
	b.Logf("from an Unlock to the grant: %v", took)
	return locktest.Median(took)
}

// Nodes that are Clusters notify over the sharded channel of the lock.
func TestShardedRedLockWaiterIsWoken(t *testing.T) {
	b := newRed(t, 3)
	var waiters []*relock.Client
	for _, s := range b.Servers {
		waiters = append(waiters, locktest.NewTopology(false, s).Sharded().Client(t, relock.WithKeyPrefix(b.Prefix)))
	}
	require.Less(t, handOff(b, func() *locktest.Waiting {
		w := b.WaitPatiently(t.Context(), waiters)
		b.AwaitListed(1, waiters)
		return w
	}), notified)
	for _, s := range b.Servers {
		require.Positive(t, locktest.Calls(t, s, "spublish"))
	}
	b.RequireNoListedWaits(waiters)
}

// The nodes that are released notify a call that waits, and one of them is
// enough. A poll would take more than a second.
func TestRedLockWaiterIsWoken(t *testing.T) {
	t.Parallel()
	fenced := []relock.LockOption{relock.WithFencing()}
	type setup struct {
		opts   []relock.LockOption
		deaf   int // nodes that no message comes from
		routed bool
	}
	testkit.Each(t, map[string]setup{
		"plain": {}, "fenced": {opts: fenced}, "one node notifies": {deaf: 2}, "nodes of several servers": {routed: true},
	}, func(t *testing.T, _ string, tt setup) {
		b := redOn(t, 3)
		waiters := asUser(b)
		if tt.routed {
			waiters = routed(b)
		}
		for node := range tt.deaf {
			permit(b, node, "-subscribe")
		}
		require.Less(t, handOff(b, func() *locktest.Waiting {
			w := b.WaitPatiently(t.Context(), waiters, tt.opts...)
			if tt.deaf > 0 {
				testkit.Eventually(t, testkit.Patience, func() bool {
					return len(b.ListedWaits(2)) == 1 && b.IsSubscribed(waiters[2])
				}, "listed")
			} else {
				b.AwaitListed(1, waiters)
			}
			return w
		}, tt.opts...), notified)
		b.RequireNoListedWaits(waiters)
	})
}

// routed returns clients that find the server of each node by a topology of
// two.
func routed(b *locktest.RedBench) (all []*relock.Client) {
	for node, s := range b.Servers {
		other := b.Servers[(node+1)%len(b.Servers)]
		all = append(all, locktest.Routed(b, s, other, relock.WithKeyPrefix(b.Prefix)))
	}
	return all
}

// While others hold the lock, and will notify, a call that waits asks rarely,
// whatever its poll interval is.
func TestRedLockWaiterIsIdle(t *testing.T) {
	b := newRed(t, 3)
	h := locktest.Take(t, locktest.NewPatientRedLock("k", b.Others()).Acquire)
	w := b.Wait(t.Context(), b.Clients, relock.WithPollInterval(10*time.Millisecond))
	b.AwaitListed(1, b.Clients)
	asked := func() int { return b.Proxies[0].Count(faults.Script(script.RedLockAcquire.SHA)) }
	before, start := asked(), time.Now()
	time.Sleep(locktest.RedLease / 2)
	n, elapsed := asked()-before, time.Since(start)
	require.LessOrEqual(t, n, int(7*elapsed/(locktest.RedLease/2)), "every 10 ms there were 100")
	next, _ := b.Granted(w, h)
	require.NoError(t, next.Unlock(t.Context()))
}

// Nobody notifies a waiter of a lease that ends, nor while others share the
// nodes and none has a quorum. It asks again when that lease ends, or polls.
func TestRedLockWaiterThatNobodyNotifies(t *testing.T) {
	t.Parallel()
	const left = 250 * time.Millisecond
	for name, tt := range map[string]struct {
		lease time.Duration
		holds []string
		free  func(b *locktest.RedBench, ends time.Time) // returns when the lock is
	}{
		"the lease ends": {
			left, []string{"gone", "gone", "gone"}, func(_ *locktest.RedBench, ends time.Time) { time.Sleep(time.Until(ends)) },
		},
		"the nodes are shared": {time.Minute, []string{"one", "another", ""}, func(b *locktest.RedBench, _ time.Time) {
			b.AwaitListed(1, b.Clients) // at the two that are held
			awaitAsked(b, 2)
			for _, s := range b.Servers[:2] {
				s.Do(b, "DEL", b.Prefix+"{k}")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRed(t, 3)
			var took []time.Duration
			for range 5 {
				b.StoreHolds(tt.lease, tt.holds...)
				ends := time.Now().Add(tt.lease)
				w := b.Wait(t.Context(), b.Clients, relock.WithPollInterval(10*time.Millisecond))
				tt.free(b, ends)
				watch := testkit.NewStopwatch(t)
				require.NoError(t, w.End())
				took = append(took, watch.Net())
				require.NoError(t, w.Hold.Unlock(t.Context()))
				b.RequireFree(time.Second)
			}
			require.Less(t, locktest.Median(took), polled)
		})
	}
}

// A message to a call that has ended, or would have gone to one, wakes the next
// call.
func TestRedLockWaiterThatLeft(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ closes, returns bool }{
		"its context is cancelled": {}, "its clients are closed": {closes: true}, "it is listed again, late": {returns: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRed(t, 3)
			list := b.Prefix + "{k}" + script.WaitersSuffix
			others := b.Others()
			require.Less(t, handOff(b, func() *locktest.Waiting {
				for _, s := range b.Servers {
					s.Do(t, "DEL", list) // what a late request has left
				}
				gone := b.Others()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				first := b.WaitPatiently(ctx, gone)
				b.AwaitListed(1, gone)
				before := [][]string{b.ListedWaits(0), b.ListedWaits(1), b.ListedWaits(2)}
				second := b.WaitPatiently(t.Context(), others)
				b.AwaitListed(2, others)
				if tt.closes {
					for _, c := range gone {
						require.NoError(t, c.Close())
					}
					require.ErrorIs(t, first.End(), relock.ErrClosed)
					return second
				}
				cancel()
				require.ErrorIs(t, first.End(), context.Canceled)
				for node, listed := range before {
					if tt.returns && len(listed) == 1 {
						testkit.Eventually(t, testkit.Patience,
							func() bool { return !slices.Contains(b.ListedWaits(node), listed[0]) }, "it leaves")
						b.Servers[node].Do(t, "ZADD", list, 1, listed[0])
					}
				}
				return second
			}), notified)
			b.RequireNoListedWaits(others)
		})
	}
}

// A round that fails notifies nobody of the nodes that it releases: calls that
// wait would wake each other without an end. It keeps no node for its minimum
// hold either.
func TestRedLockRoundsThatFail(t *testing.T) {
	b := newRed(t, 3)
	b.StoreHolds(60*time.Second, "theirs", "theirs", "")
	waiters := b.Prefix + "{k}" + script.WaitersSuffix
	b.Servers[2].Do(t, "ZADD", waiters, 1, "gone:1:q")
	for n, opts := range [][]relock.LockOption{nil, {relock.WithMinHold(locktest.FaultLease * 9 / 10)}} {
		require.ErrorIs(t, b.Patient(opts...).Lock(t.Context()), relock.ErrLockAcquiredByOthers)
		require.True(t, b.Proxies[2].Await(faults.Script(script.Release.SHA), n+1, testkit.Patience))
		locktest.EventuallyWithin(t, locktest.RedLease/2, func() bool { return b.HeldNodes() == 2 }, "kept for nobody")
		require.Equal(t, []string{"gone:1:q"}, b.ListedWaits(2))
	}
	b.Servers[2].Do(t, "DEL", waiters)
	w := b.Wait(t.Context(), b.Clients,
		relock.WithBlockTimeout(3*locktest.RedPoll), relock.WithPollInterval(locktest.RedPoll/8))
	require.ErrorIs(t, w.End(), relock.ErrLockAcquiredByOthers)
	b.RequireNoListedWaits(b.Clients)

	for _, s := range b.Servers {
		s.Do(t, "DEL", b.Prefix+"{k}")
	}
	h := locktest.Take(t, b.Patient(relock.WithMinHold(locktest.FaultLease/2)).Acquire)
	require.NoError(t, h.Unlock(t.Context()))
	require.GreaterOrEqual(t, b.HeldNodes(), 2, "what was held is kept")
}

// A call that leaves in the middle of a round may have been notified in
// another's place: what it releases wakes the next one.
func TestRedLockCallThatLeavesWhileItAsks(t *testing.T) {
	b := newRed(t, 3)
	gone := make(chan struct{})
	for _, p := range b.Proxies[1:] {
		p.On(faults.Script(script.RedLockAcquire.SHA), 1, faults.DelayUntil(gone))
	}
	for _, s := range b.Servers {
		s.Do(t, "ZADD", b.Prefix+"{k}"+script.WaitersSuffix, 1, "gone:1:q")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := testkit.Async(t, func() error { return b.Patient().Lock(ctx) })
	for _, p := range b.Proxies {
		require.True(t, p.Await(faults.Script(script.RedLockAcquire.SHA), 1, testkit.Patience), "it asks")
	}
	cancel()
	require.ErrorIs(t, testkit.ResultWithin(t, result, testkit.Patience), context.Canceled)
	close(gone)
	b.RequireNoListedWaits(b.Clients)
	b.RequireFree(5 * time.Second)
}

// A user with permissions for no key but the lock's can wait all the same, and
// so can a user without permission to list, publish or subscribe.
func TestRedLockWaitsWithFewPermissions(t *testing.T) {
	t.Parallel()
	least := redis.Args{"resetchannels", "-@all", "+info"}.AddFlat(locktest.Plus(locktest.LeastPrivilege))
	testkit.Each(t, map[string][]any{
		"the lock alone": nil, // see below
		"no lists":       {"-zadd", "-time"},
		"the least":      least,
		"no messages":    {"-publish"},
		"no channels":    {"resetchannels"},
	}, func(t *testing.T, _ string, rules []any) {
		b := redOn(t, 3)
		if rules == nil {
			rules = []any{"resetkeys", "~" + b.Prefix + "{k}"}
		}
		less := asUser(b, rules...)
		last := locktest.Take(t, b.Patient().Acquire)
		var took []time.Duration
		for range 3 {
			w := b.WaitPatiently(t.Context(), less, often)
			awaitAsked(b, 2)
			next, d := b.Granted(w, last)
			took = append(took, d)
			w = b.WaitPatiently(t.Context(), b.Clients, often)
			b.AwaitListed(1, b.Clients)
			last, _ = b.Granted(w, next)
		}
		require.Less(t, locktest.Median(took), polled)
		require.NoError(t, last.Unlock(t.Context()))
		b.RequireFree(time.Second)
	})
}

// If its subscription breaks, and it gets no other, a call that waits polls.
func TestRedLockWaiterWithoutSubscription(t *testing.T) {
	b := newRed(t, 3)
	waiters := asUser(b)
	require.Less(t, handOff(b, func() *locktest.Waiting {
		w := b.WaitPatiently(t.Context(), waiters, often)
		for node, s := range b.Servers {
			permit(b, node, "-subscribe")
			s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub", "USER", userOf(b))
			testkit.Eventually(t, testkit.Patience, func() bool {
				return len(b.ListedWaits(node)) == 1 && !b.IsSubscribed(waiters[node])
			}, "no subscription")
		}
		awaitAsked(b, 2)
		return w
	}), polled)
}
