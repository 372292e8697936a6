package acquire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/testkit"
)

// A hold that is ended by force, on a quorum, is over at once, for that reason.
func TestRedLockEndedByForce(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
	others := b.Others()
	for _, c := range others {
		locktest.Patient(c)
	}
	h, err := b.Lock(others).Acquire(t.Context())
	require.NoError(t, err)
	testkit.Eventually(t, time.Second, func() bool { return b.Holding() == 3 }, "all are there")
	for _, c := range b.Others()[:2] {
		require.NoError(t, c.ForceUnlock(t.Context(), "k", "maintenance"))
	}
	err = testkit.EndedWithin(t, h.Context(), locktest.RedLease)
	require.ErrorIs(t, err, relock.ErrLockLost)
	require.ErrorIs(t, err, relock.ErrForced)
	require.ErrorContains(t, err, "maintenance")
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
	b.RequireFree(time.Second)
}

// A part that goes on may find the end of the hold before the parts that were ended by force have told of it.
func TestRedLockEndedByForceIsFoundByAnotherPart(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
	h, err := b.Patient().Acquire(t.Context())
	require.NoError(t, err)
	testkit.Eventually(t, testkit.Patience, func() bool { return len(locktest.MembersOf(h)) == 3 }, "all are there")
	var follows []func()
	for _, one := range locktest.MembersOf(h)[:2] {
		follows = append(follows, one.Lease().MarkLost(errs.Forced("maintenance")))
	}
	require.NoError(t, locktest.MembersOf(h)[2].Lease().Renewed(time.Now(), locktest.CellLease))
	require.ErrorContains(t, h.Err(), "maintenance")
	require.ErrorIs(t, h.Err(), relock.ErrForced)
	for _, follow := range follows {
		follow()
	}
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrForced)
	b.RequireFree(time.Second)
}

// A user who may name nothing but the lock can wait all the same, and one who may not list or tell.
func TestRedLockWaitsWithFewPermissions(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]func(prefix string) []any{
		"the lock alone": func(prefix string) []any { return []any{"resetkeys", "~" + prefix + "{k}"} },
		"no lists":       func(string) []any { return []any{"-zadd", "-time"} },
		"the README's least": func(string) []any {
			rules := []any{"resetchannels", "-@all", "+info"}
			for _, rule := range locktest.Plus(locktest.LeastPrivilege) {
				rules = append(rules, rule)
			}
			return rules
		},
		"no messages": func(string) []any { return []any{"-publish"} },
		"no channels": func(string) []any { return []any{"resetchannels"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
			less := b.Less(rules(b.Prefix)...)
			last, err := b.Lock(b.Clients).Acquire(t.Context())
			require.NoError(t, err)
			var took []time.Duration
			for range 5 {
				w := b.Wait(t.Context(), less, relock.WithPollInterval(20*time.Millisecond))
				b.AwaitAsked()
				next, d := b.Granted(w, last)
				took = append(took, d)
				w = b.Wait(t.Context(), b.Clients, relock.WithPollInterval(20*time.Millisecond))
				b.AwaitListed(1, b.Clients)
				last, _ = b.Granted(w, next)
			}
			require.Less(t, locktest.Middle(took), 200*time.Millisecond, "a period is %v", locktest.Target(b.Lock(less)).Settings.Period())
			require.NoError(t, last.Unlock(t.Context()))
			b.RequireFree(time.Second)
		})
	}
}

// Without a subscription, and where it breaks, a call that waits asks by itself.
func TestRedLockWaiterWithoutSubscription(t *testing.T) {
	t.Parallel()
	b := locktest.NewRedBench(t, locktest.NewRedServers(t, 3))
	others := b.Others()
	var took []time.Duration
	for range 5 {
		h, err := b.Lock(b.Clients).Acquire(t.Context())
		require.NoError(t, err)
		testkit.Eventually(t, 5*time.Second, func() bool { return b.Holding() == 3 }, "has all nodes")
		w := b.Wait(t.Context(), others, relock.WithPollInterval(20*time.Millisecond))
		for _, s := range b.Servers {
			s.Do(t, "ACL", "SETUSER", "default", "-subscribe")
			s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}
		for node, c := range others {
			testkit.Eventually(t, testkit.Patience, func() bool { return len(b.List(node)) == 1 && !locktest.Engine(c).Queue.State().Subscribed }, "no subscription")
		}
		b.AwaitAsked()
		next, d := b.Granted(w, h)
		took = append(took, d)
		require.NoError(t, next.Unlock(t.Context()))
		b.RequireFree(time.Second)
	}
	require.Less(t, locktest.Middle(took), 200*time.Millisecond, "a period is %v", locktest.Target(b.Lock(others)).Settings.Period())
}
