package relock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/testkit"
)

// A hold that is ended by force, on a quorum, is over at once, for that reason.
func TestRedLockEndedByForce(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	others := b.others()
	for _, c := range others {
		patient(c)
	}
	h, err := b.lock(others).Acquire(t.Context())
	require.NoError(t, err)
	testkit.Eventually(t, time.Second, func() bool { return b.holding() == 3 }, "all are there")
	for _, c := range b.others()[:2] {
		require.NoError(t, c.ForceUnlock(t.Context(), "k", "maintenance"))
	}
	err = testkit.EndedWithin(t, h.Context(), redLease)
	require.ErrorIs(t, err, ErrLockLost)
	require.ErrorIs(t, err, ErrForced)
	require.ErrorContains(t, err, "maintenance")
	require.ErrorIs(t, h.Unlock(t.Context()), ErrLockLost)
	b.requireFree(time.Second)
}

// A part that goes on may find the end of the hold before the parts that were ended by force have told of it.
func TestRedLockEndedByForceIsFoundByAnotherPart(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	h, err := b.patient().Acquire(t.Context())
	require.NoError(t, err)
	testkit.Eventually(t, testkit.Patience, func() bool { return len(membersOf(h)) == 3 }, "all are there")
	var follows []func()
	for _, one := range membersOf(h)[:2] {
		follows = append(follows, one.Lease().MarkLost(errs.Forced("maintenance")))
	}
	require.NoError(t, membersOf(h)[2].Lease().Renewed(time.Now(), cellLease))
	require.ErrorContains(t, h.Err(), "maintenance")
	require.ErrorIs(t, h.Err(), ErrForced)
	for _, follow := range follows {
		follow()
	}
	require.ErrorIs(t, h.Unlock(t.Context()), ErrForced)
	b.requireFree(time.Second)
}

// A user who may name nothing but the lock can wait all the same, and one who may not list or tell.
func TestRedLockWaitsWithFewPermissions(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]func(prefix string) []any{
		"the lock alone": func(prefix string) []any { return []any{"resetkeys", "~" + prefix + "{k}"} },
		"no lists":       func(string) []any { return []any{"-zadd", "-time"} },
		"the README's least": func(string) []any {
			rules := []any{"resetchannels", "-@all", "+info"}
			for _, rule := range plus(leastPrivilege) {
				rules = append(rules, rule)
			}
			return rules
		},
		"no messages": func(string) []any { return []any{"-publish"} },
		"no channels": func(string) []any { return []any{"resetchannels"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newRedBench(t, newRedServers(t, 3))
			less := b.less(rules(b.prefix)...)
			last, err := b.lock(b.clients).Acquire(t.Context())
			require.NoError(t, err)
			var took []time.Duration
			for range 5 {
				w := b.wait(t.Context(), less, WithPollInterval(20*time.Millisecond))
				b.awaitAsked()
				next, d := b.granted(w, last)
				took = append(took, d)
				w = b.wait(t.Context(), b.clients, WithPollInterval(20*time.Millisecond))
				b.awaitListed(1, b.clients)
				last, _ = b.granted(w, next)
			}
			require.Less(t, middle(took), 200*time.Millisecond, "a period is %v", b.lock(less).target.Settings.Period())
			require.NoError(t, last.Unlock(t.Context()))
			b.requireFree(time.Second)
		})
	}
}

// Without a subscription, and where it breaks, a call that waits asks by itself.
func TestRedLockWaiterWithoutSubscription(t *testing.T) {
	t.Parallel()
	b := newRedBench(t, newRedServers(t, 3))
	others := b.others()
	var took []time.Duration
	for range 5 {
		h, err := b.lock(b.clients).Acquire(t.Context())
		require.NoError(t, err)
		testkit.Eventually(t, 5*time.Second, func() bool { return b.holding() == 3 }, "has all nodes")
		w := b.wait(t.Context(), others, WithPollInterval(20*time.Millisecond))
		for _, s := range b.servers {
			s.Do(t, "ACL", "SETUSER", "default", "-subscribe")
			s.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		}
		for node, c := range others {
			testkit.Eventually(t, testkit.Patience, func() bool { return len(b.list(node)) == 1 && !c.engine.Queue.State().Subscribed }, "no subscription")
		}
		b.awaitAsked()
		next, d := b.granted(w, h)
		took = append(took, d)
		require.NoError(t, next.Unlock(t.Context()))
		b.requireFree(time.Second)
	}
	require.Less(t, middle(took), 200*time.Millisecond, "a period is %v", b.lock(others).target.Settings.Period())
}
