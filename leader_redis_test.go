package relock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// elected waits until a Leader leads.
func elected(t *testing.T, e *relock.Leader) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience, func() bool { return e.IsLeader(t.Context()) == nil }, "it does not lead")
}

// Inspect names the leader by its label. An operator ends its term, it learns
// why, and the other candidate leads.
func TestLeaderIsFoundAndDeposed(t *testing.T) {
	t.Parallel()
	for mode, opts := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s, c := locktest.OnShared(t)
			ctx, cancel := context.WithCancel(t.Context())
			terms := make(chan error, 9)
			candidate := func(label string) (*relock.Leader, <-chan error) {
				l := locktest.NewLocker(t, locktest.Patient(locktest.Sibling(t, s, c)), append(opts, relock.WithLabel(label))...)
				e := relock.NewLeader(l, "k")
				return e, testkit.Async(t, func() error {
					return e.Run(ctx, func(ctx context.Context) error {
						err := leads(ctx)
						terms <- err
						return err
					})
				})
			}
			ann, annEnds := candidate("ann:8080")
			elected(t, ann)
			bob, bobEnds := candidate("bob:8080")
			requireLeader(t, c, "ann:8080")

			testkit.Eventually(t, testkit.Patience, func() bool { return locktest.Inspect(t, c, "k").Waiting == 1 },
				"bob does not campaign")
			require.NoError(t, c.ForceUnlock(t.Context(), "k", "moves"))
			locktest.RequireIs(t, <-terms, relock.ErrLockLost, relock.ErrForced)
			elected(t, bob)
			requireLeader(t, c, "bob:8080")
			cancel()
			require.NoError(t, <-annEnds)
			require.NoError(t, <-bobEnds)
			locktest.RequireFree(t, s, c, "k")
		})
	}
}

// requireLeader waits until Inspect names this leader. While the lock is handed
// off, it names none.
func requireLeader(t *testing.T, c *relock.Client, label string) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience, func() bool {
		holder := locktest.Inspect(t, c, "k").Holder
		return holder != nil && holder.Label == label
	}, label+" is not named")
}

// A candidate that is refused campaigns again, and logs why. It leads soon
// after the cause has gone.
func TestLeaderLogsRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuse, allow []any // commands at the server
		reason        string
	}{
		"permission": {[]any{"ACL", "SETUSER", "app", "-@all"}, []any{"ACL", "SETUSER", "app", "+@all"}, "permission denied"},
		"key": {
			[]any{"SET", "app:{k}", "another program's"}, []any{"DEL", "app:{k}"}, "key is used by something else",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log locktest.LogBuffer
			s := redistest.Start(t)
			client := locktest.AsUser(t, s, "app", "app:", []any{"~*", "&*", "+@all"}, log.Option())
			s.Do(t, c.refuse[0].(string), c.refuse[1:]...)
			e := relock.NewLeader(locktest.NewLocker(t, client), "k")
			ctx, cancel := context.WithCancel(t.Context())
			ends := testkit.Async(t, func() error { return e.Run(ctx, leads) })
			testkit.Eventually(t, testkit.Patience,
				func() bool { return log.Lines("relock: campaign failed", "key=k", c.reason) > 0 }, "nothing is logged")
			require.ErrorIs(t, e.IsLeader(t.Context()), relock.ErrNotHeld)
			s.Do(t, c.allow[0].(string), c.allow[1:]...)
			elected(t, e)
			cancel()
			require.NoError(t, <-ends)
		})
	}
}

// The end of a term, and of a wait with its context, are no failed campaigns.
// They are not logged as such.
func TestLeaderLogsNoTerms(t *testing.T) {
	t.Parallel()
	var log locktest.LogBuffer
	s, c := locktest.OnShared(t, log.Option())
	l := locktest.NewLocker(t, c)
	require.NoError(t, relock.NewLeader(l, "k").Run(t.Context(), locktest.Nothing))
	other := locktest.TakeKey(t, t.Context(), locktest.NewLocker(t, locktest.Sibling(t, s, c)), "k")
	ctx, cancel := context.WithCancel(t.Context())
	ends := testkit.Async(t, func() error { return relock.NewLeader(l, "k").Run(ctx, unreached(t)) })
	testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Waiting == 1 }, "it does not campaign")
	cancel()
	require.NoError(t, <-ends)
	require.NoError(t, other.Unlock(t.Context()))
	require.Empty(t, log.String())
}
