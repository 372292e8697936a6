package relock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// The observer is notified of the begin and the end of each call, and of the
// end of each hold, for every kind and way to lock.
func TestObserverOfEachKind(t *testing.T) {
	t.Parallel()
	w := locktest.NewWitness(t)
	c := locktest.NewTestClient(t, redistest.Shared(t), relock.WithObserver(w.Observer()))
	rw := relock.NewRWLock("k", c)
	for _, tt := range []struct {
		kind, key string
		lock      relock.Mutex
	}{
		{"plain", "k", relock.NewRedisLock("k", c)},
		{"reentrant", "k", relock.NewReentrantLock("k", c)},
		{"write", "k", rw},
		{"read", "k", rw.RLocker()},
		{"multi", "k,l", relock.NewMultiLock([]string{"k", "l"}, c)},
		{"quorum", "k", quorumLock(t, relock.WithObserver(w.Observer()))},
	} {
		ctx := locktest.Marked(t)
		use := func(call string, err error) {
			require.NoError(t, err, "%s: %s", tt.kind, call)
			require.Equal(t, []string{
				fmt.Sprintf("start %s %q false mine", tt.kind, tt.key), fmt.Sprintf("done %s %q false mine <nil>", tt.kind, tt.key),
				fmt.Sprintf("over %s %q mine <nil>", tt.kind, tt.key),
			}, w.Events(), "%s: %s", tt.kind, call)
		}
		use("Lock", errors.Join(tt.lock.Lock(ctx), tt.lock.Unlock(ctx)))
		use("TryLock", errors.Join(tt.lock.TryLock(ctx), tt.lock.Unlock(ctx)))
		use("Do", tt.lock.Do(ctx, locktest.Nothing))
		use("TryDo", tt.lock.TryDo(ctx, locktest.Nothing))
		if l, ok := tt.lock.(locktest.AnyLock); ok {
			h, err := l.Acquire(ctx)
			require.NoError(t, err)
			use("Acquire", h.Unlock(ctx))
			require.ErrorIs(t, h.Unlock(ctx), relock.ErrNotHeld)
			require.Empty(t, w.Events())
		}
	}
	require.NoError(t, relock.Do(locktest.Marked(t), locktest.NewLocker(t, c), "named", locktest.Nothing))
	require.Equal(t, []string{
		`start plain "named" true mine`, `done plain "named" true mine <nil>`, `over plain "named" mine <nil>`,
	}, w.Events())
}

// quorumLock is a RedLock whose servers count soon.
func quorumLock(t testing.TB, opts ...relock.ClientOption) *relock.RedLock {
	t.Helper()
	if len(nodes) == 0 {
		redistest.Lacks(t, "no servers for a RedLock")
	}
	var clients []*relock.Client
	for _, s := range nodes {
		s.AwaitUp(t, 2)
		clients = append(clients, locktest.NewTestClient(t, s, opts...))
	}
	l := relock.NewRedLock("k", clients)
	relock.TargetOf(l).Settings.MaxLease = time.Millisecond // the servers are new, and remember all
	return l
}

// A call that does not get the lock is reported with its error, also if it
// cannot even begin.
func TestObserverOfRefusals(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	w := locktest.NewWitness(t)
	c := locktest.NewTestClient(t, s, relock.WithObserver(w.Observer()))
	require.NoError(t, relock.NewRedisLock("k", locktest.Sibling(t, s, c)).Lock(t.Context()))
	l := relock.NewRedisLock("k", c, relock.WithBlockTimeout(30*time.Millisecond))
	ended, cancel := context.WithCancel(locktest.Marked(t))
	cancel()
	calls := []struct {
		err   error
		block bool
		mark  any
	}{
		{l.TryLock(locktest.Marked(t)), false, "mine"},
		{l.Lock(locktest.Marked(t)), true, "mine"},
		{l.Do(ended, locktest.Nothing), true, "mine"},
		{l.Lock(nil), true, nil}, //nolint:staticcheck // the mistake is meant
		{relock.NewRedisLock("k", c, relock.WithExpiry(1)).Lock(locktest.Marked(t)), false, "mine"},
	}
	noted := w.Events()
	require.Len(t, noted, 2*len(calls))
	for n, one := range calls {
		require.Error(t, one.err)
		require.Equal(t, []string{
			fmt.Sprintf(`start plain "k" %v %v`, one.block, one.mark),
			fmt.Sprintf(`done plain "k" %v %v %v`, one.block, one.mark, one.err),
		}, noted[2*n:2*n+2])
	}
	require.ErrorIs(t, (&relock.RedisLock{}).Lock(t.Context()), relock.ErrInvalid) // it has no observer
	require.Empty(t, w.Locked)
}

// Each level of a reentrant lock is a separate hold. The end of the maximum
// hold of one ends no other.
func TestObserverOfLevels(t *testing.T) {
	t.Parallel()
	w := locktest.NewWitness(t)
	c := locktest.NewTestClient(t, redistest.Shared(t), relock.WithObserver(w.Observer()))
	l := relock.NewReentrantLock("k", c)
	levels := func(n int) bool {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		return w.Locked["reentrant"] == n
	}
	for n := 1; n <= 2; n++ {
		require.NoError(t, l.Lock(t.Context()))
		require.True(t, levels(n))
	}
	inner := locktest.Take(t, relock.NewReentrantLock("k", c, relock.WithMaxHold(shortHold)).Acquire)
	require.ErrorIs(t, testkit.EndedWithin(t, inner.Context(), testkit.Patience), relock.ErrMaxHold)
	testkit.Eventually(t, testkit.Patience, func() bool { return levels(2) }, "the end of the inner level")
	require.ErrorIs(t, w.Last.Err, relock.ErrMaxHold)
	require.ErrorIs(t, inner.Unlock(t.Context()), relock.ErrMaxHold)
	for n := 1; n >= 0; n-- {
		require.NoError(t, l.Unlock(t.Context()))
		require.True(t, levels(n))
	}
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld) // the end of no hold
	require.NoError(t, w.LastEnd().Err)
}

// Two observers as one are called in turn. One without a hook is not called.
func TestObserverAnd(t *testing.T) {
	t.Parallel()
	var called string
	note := func(name string) relock.Observer {
		return relock.Observer{
			LockStart: func(context.Context, relock.LockStart) { called += name + " starts, " },
			LockDone:  func(context.Context, relock.LockDone) { called += name + " is done, " },
			HoldDone:  func(context.Context, relock.HoldDone) { called += name + " is over, " },
			RenewDone: func(context.Context, relock.RenewDone) { called += name + " is renewed, " },
		}
	}
	for want, o := range map[string]relock.Observer{
		"a starts, b starts, a is done, b is done, a is over, b is over, a is renewed, b is renewed, ": note("a").
			And(note("b")),
		"a starts, a is done, a is over, a is renewed, ": note("a").And(relock.Observer{}),
		"b starts, b is done, b is over, b is renewed, ": relock.Observer{}.And(note("b")),
		"a starts, b starts, c starts, a is done, b is done, c is done, a is over, b is over, c is over, " +
			"a is renewed, b is renewed, c is renewed, ": note("a").And(note("b")).And(note("c")),
	} {
		called = ""
		o.LockStart(t.Context(), relock.LockStart{})
		o.LockDone(t.Context(), relock.LockDone{})
		o.HoldDone(t.Context(), relock.HoldDone{})
		o.RenewDone(t.Context(), relock.RenewDone{})
		require.Equal(t, want, called)
	}
	require.Equal(t, relock.Observer{}, relock.Observer{}.And(relock.Observer{}))
}

// All three ends have a kind, a context with the caller's values, and a start
// and an end.
func TestObserverHooksAreEven(t *testing.T) {
	t.Parallel()
	type mark struct{}
	var mu sync.Mutex
	seen := map[string]int{}
	note := func(ctx context.Context, what, kind string, start, end time.Time, err error) {
		mu.Lock()
		defer mu.Unlock()
		seen[fmt.Sprintf("%s %s %v %v", what, kind, ctx.Value(mark{}), err == nil)]++
		if start.IsZero() || end.Before(start) || time.Since(start) > time.Minute || time.Since(end) > time.Minute {
			t.Errorf("%s from %v to %v", what, start, end)
		}
		if what != "lock" && ctx.Err() != nil {
			t.Errorf("%s: %v", what, ctx.Err())
		}
	}
	count := func(key string) int {
		mu.Lock()
		defer mu.Unlock()
		return seen[key]
	}
	s, c := locktest.OnOwn(t, relock.WithWatchdog(time.Hour), relock.WithObserver(relock.Observer{
		LockDone:  func(ctx context.Context, e relock.LockDone) { note(ctx, "lock", e.Kind, e.Start, e.End, e.Err) },
		HoldDone:  func(ctx context.Context, e relock.HoldDone) { note(ctx, "hold", e.Kind, e.Start, e.End, e.Err) },
		RenewDone: func(ctx context.Context, e relock.RenewDone) { note(ctx, "renewal", e.Kind, e.Start, e.End, e.Err) },
	}))
	ctx := context.WithValue(t.Context(), mark{}, "mine")
	for kind, acquire := range map[string]func(context.Context) (relock.Hold, error){
		"plain":     relock.NewRedisLock("plain", c).Acquire,
		"reentrant": relock.NewReentrantLock("reentrant", c).Acquire,
		"read":      relock.NewRWLock("read", c).RAcquire,
		"write":     relock.NewRWLock("write", c).Acquire,
		"semaphore": relock.NewSemaphore("semaphore", 1, c).Acquire,
		"multi":     relock.NewMultiLock([]string{"multi"}, c).Acquire,
	} {
		h, err := acquire(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Extend(context.WithValue(t.Context(), mark{}, "extend"), time.Hour))
		require.Equal(t, 1, count("renewal "+kind+" extend true"))
		locktest.RenewNow(h)
		testkit.Eventually(t, testkit.Patience, func() bool { return count("renewal "+kind+" mine true") > 0 }, "renewed")
		require.NoError(t, h.Unlock(t.Context()))
		require.Equal(t, 1, count("lock "+kind+" mine true"))
		require.Equal(t, 1, count("hold "+kind+" mine true"))
	}
	h, err := relock.NewRedisLock("down", c).Acquire(ctx)
	require.NoError(t, err)
	s.Kill(t)
	locktest.RenewNow(h)
	testkit.Eventually(t, testkit.Patience, func() bool { return count("renewal plain mine false") > 0 }, "not sent")
	require.Error(t, h.Unlock(t.Context()))
}
