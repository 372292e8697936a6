package relock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
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
	require.Equal(t, []string{`start plain "named" true mine`, `done plain "named" true mine <nil>`, `over plain "named" mine <nil>`}, w.Events())
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
	locktest.Target(l).Settings.MaxLease = time.Millisecond // the servers are new, and remember all
	return l
}

// A call that does not get the lock is reported with its error. So is one that
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
			fmt.Sprintf(`start plain "k" %v %v`, one.block, one.mark), fmt.Sprintf(`done plain "k" %v %v %v`, one.block, one.mark, one.err),
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
	inner := locktest.Take(t, relock.NewReentrantLock("k", c, relock.WithMaxHold(300*time.Millisecond)).Acquire)
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
		"a starts, b starts, a is done, b is done, a is over, b is over, a is renewed, b is renewed, ": note("a").And(note("b")),
		"a starts, a is done, a is over, a is renewed, ":                                               note("a").And(relock.Observer{}),
		"b starts, b is done, b is over, b is renewed, ":                                               relock.Observer{}.And(note("b")),
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
	s, c := locktest.OnOwn(t, relock.WithCommandTimeout(2*time.Second), relock.WithWatchdog(3*time.Second), relock.WithObserver(relock.Observer{
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
		"multi":     relock.NewMultiLock([]string{"multi"}, c).Acquire,
	} {
		h, err := acquire(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Extend(context.WithValue(t.Context(), mark{}, "extend"), 3*time.Second))
		require.Equal(t, 1, count("renewal "+kind+" extend true"))
		testkit.Eventually(t, testkit.Patience, func() bool { return count("renewal "+kind+" mine true") > 0 }, "renewed")
		require.NoError(t, h.Unlock(t.Context()))
		require.Equal(t, 1, count("lock "+kind+" mine true"))
		require.Equal(t, 1, count("hold "+kind+" mine true"))
	}
	h, err := relock.NewRedisLock("down", c).Acquire(ctx)
	require.NoError(t, err)
	s.Kill(t)
	testkit.Eventually(t, testkit.Patience, func() bool { return count("renewal plain mine false") > 0 }, "not sent")
	require.Error(t, h.Unlock(t.Context()))
}

func TestStats(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	require.Zero(t, c.Stats())
	require.Zero(t, (*relock.Client)(nil).Stats())
	require.Zero(t, (&relock.Client{}).Stats())

	one := locktest.Take(t, relock.NewRedisLock("one", c).Acquire)
	granted := time.Now()
	nested := relock.NewReentrantLock("nested", c)
	require.NoError(t, nested.Lock(t.Context()))
	require.NoError(t, nested.Lock(t.Context()))
	several := locktest.Take(t, relock.NewMultiLock([]string{"a", "b"}, c).Acquire)
	least := time.Since(granted)
	stats := c.Stats()
	require.Equal(t, 4, stats.Held, "one, nested, a, b")
	require.GreaterOrEqual(t, stats.OldestHold, least)
	require.Less(t, stats.OldestHold, time.Since(granted)+testkit.Patience)
	require.Equal(t, 1, stats.Connections)
	require.Zero(t, stats.Waiting)

	ctx, cancel := context.WithCancel(t.Context())
	var waits []<-chan error
	for _, lock := range []relock.Mutex{
		relock.NewRedisLock("one", c, relock.WithBlock()), relock.NewRedisLock("one", c, relock.WithBlock()),
		relock.NewMultiLock([]string{"a", "c"}, c, relock.WithBlock()), relock.NewReentrantLock("nested", c, relock.WithBlock()),
		relock.NewReentrantLock("nested", c, relock.WithBlock()),
	} {
		waits = append(waits, testkit.Async(t, func() error { return lock.Lock(ctx) }))
	}
	testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Waiting == len(waits) }, "all wait")
	require.Greater(t, c.Stats().Connections, 1, "waiters have separate connections")
	cancel()
	for _, wait := range waits {
		require.ErrorIs(t, testkit.ResultWithin(t, wait, testkit.Patience), context.Canceled)
	}
	require.Zero(t, c.Stats().Waiting)

	require.NoError(t, several.Unlock(t.Context()))
	require.NoError(t, nested.Unlock(t.Context()))
	require.Equal(t, 2, c.Stats().Held)
	require.NoError(t, nested.Unlock(t.Context()))
	require.NoError(t, one.Unlock(t.Context()))
	stats = c.Stats()
	require.Equal(t, relock.Stats{Connections: stats.Connections, Renewals: stats.Renewals}, stats)
}

// Renewals, those that fail, and losses are counted.
func TestStatsOfRenewals(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnOwn(t, relock.WithCommandTimeout(300*time.Millisecond), relock.WithWatchdog(3*time.Second))
	h := locktest.Take(t, relock.NewRedisLock("k", c).Acquire)
	require.NoError(t, h.Extend(t.Context(), 3*time.Second))
	require.EqualValues(t, 1, c.Stats().Renewals, "an Extend counts")
	testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Renewals >= 2 }, "renewed")
	require.Zero(t, c.Stats().RenewalErrors)
	s.Pause(t)
	testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().RenewalErrors > 0 }, "no answer")
	s.Resume(t)
	several := locktest.Take(t, relock.NewMultiLock([]string{"a", "b"}, c).Acquire)
	require.Zero(t, c.Stats().Losses)
	s.Do(t, "FLUSHALL")
	for _, h := range []relock.Hold{h, several} {
		require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrLockLost)
	}
	testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Losses == 3 && c.Stats().Held == 0 }, "k, a and b")
	lasting := locktest.Take(t, relock.NewRedisLock("k", c).Acquire)
	require.NoError(t, c.Close())
	require.ErrorIs(t, lasting.Err(), relock.ErrClosed)
	require.EqualValues(t, 3, c.Stats().Losses, "Close is no loss")
	require.Zero(t, c.Stats().Held)
}

// The connections of a user's pool are those of the pool.
func TestStatsOfAUsersPool(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	pool := &redis.Pool{MaxIdle: 3}
	c := locktest.AsUserPool(t, s, pool)
	conn := pool.Get()
	defer conn.Close() //nolint:errcheck // nothing is pending
	require.NoError(t, c.Ping(t.Context()))
	require.Equal(t, pool.ActiveCount(), c.Stats().Connections)
	require.Equal(t, 2, c.Stats().Connections)
}

// Close says which locks it leaves in Redis, and until when, but not if it
// releases them.
func TestCloseSaysWhatItLeaves(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	hold := func(n int, opts ...relock.ClientOption) *locktest.LogBuffer {
		var log locktest.LogBuffer
		c := locktest.NewTestClient(t, s, append(opts, log.Option())...)
		for i := range n {
			require.NoError(t, relock.NewRedisLock(fmt.Sprintf("%d of %d", i, n), c).Lock(t.Context()))
		}
		unlocked := relock.NewReentrantLock("unlocked", c)
		require.NoError(t, errors.Join(unlocked.Lock(t.Context()), unlocked.Unlock(t.Context())))
		require.NoError(t, c.Close())
		return &log
	}
	require.Zero(t, hold(0).Lines("level=WARN"))
	one := hold(1)
	require.Equal(t, 1, one.Lines("level=WARN"))
	require.Equal(t, 1, one.Lines(`msg="relock: closed with 1 lock held" keys="[0 of 1]" free_in=`))
	require.Equal(t, 1, one.Lines("free_in=29.9")+one.Lines("free_in=30s")+one.Lines("free_in=29.8"))
	require.Equal(t, 1, hold(3).Lines(`msg="relock: closed with 3 locks held" keys="[0 of 3 1 of 3 2 of 3]"`))
	require.Equal(t, 1, hold(12).Lines(`closed with 12 locks held`, ` of 12 and 2 more]"`), "ten are named")
	require.Zero(t, hold(2, relock.WithReleaseOnClose()).Lines("level=WARN"))
}

// A lock that a minimum hold keeps longer than its lease is free only then.
func TestCloseCountsAMinimumHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	var log locktest.LogBuffer
	c := locktest.NewTestClient(t, s, log.Option())
	require.NoError(t, relock.NewRedisLock("k", c, relock.WithMinHold(time.Hour)).Lock(t.Context()))
	require.NoError(t, c.Close())
	require.Equal(t, 1, log.Lines("closed with 1 lock held", "free_in=59m59.")+log.Lines("free_in=1h0m0s"))
}

// Remaining is the time until ValidUntil while the hold is valid, and 0 once it
// is over.
func TestRemaining(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"plain", "reentrant", "read", "several"} {
		c := locktest.NewTestClient(t, redistest.Shared(t))
		h, err := acquirerOf(kind, c, relock.WithExpiry(10*time.Second))(t.Context())
		require.NoError(t, err)
		before := time.Until(h.ValidUntil())
		got := h.Remaining()
		require.LessOrEqual(t, got, before)
		require.GreaterOrEqual(t, got, time.Until(h.ValidUntil()))
		require.NoError(t, h.Extend(t.Context(), time.Minute))
		require.Greater(t, h.Remaining(), 50*time.Second)
		require.NoError(t, h.Unlock(t.Context()))
		require.Zero(t, h.Remaining())

		h, err = acquirerOf(kind, c, relock.WithExpiry(50*time.Millisecond))(t.Context())
		if relock.OutcomeOf(err) == relock.OutcomeUnavailable {
			continue // the grant came too late, on a busy machine
		}
		require.NoError(t, err)
		<-h.Context().Done()
		require.Zero(t, h.Remaining(), "not below")
		require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
	}
}

// A hold without a maximum that is older than 100 leases logged once. It may
// be one whose Unlock was forgotten.
func TestForgottenHoldIsLogged(t *testing.T) {
	t.Parallel()
	const length = 30 * time.Second
	type aged struct {
		newLock locktest.NewLock
		opt     relock.LockOption
		age     time.Duration
		lines   int
	}
	plain, reentrant, none := locktest.Kinds["RedisLock"], locktest.Kinds["ReentrantLock"], relock.WithLabel("")
	several := func(_ string, c *relock.Client, o ...relock.LockOption) locktest.AnyLock {
		return relock.NewMultiLock([]string{"a", "b"}, c, o...)
	}
	testkit.Each(t, map[string]aged{
		"old":                     {plain, none, 101 * length, 1},
		"old, reentrant":          {reentrant, none, 101 * length, 1},
		"old, several":            {several, none, 101 * length, 1},
		"younger":                 {plain, none, 99 * length, 0},
		"with a maximum":          {plain, relock.WithMaxHold(time.Hour), 101 * length, 0},
		"several, with a maximum": {several, relock.WithMaxHold(time.Hour), 101 * length, 0},
	}, func(t *testing.T, _ string, tt aged) {
		var log locktest.LogBuffer
		c := locktest.NewTestClient(t, redistest.Shared(t), log.Option(), relock.WithWatchdog(length))
		h := locktest.Take(t, tt.newLock("k", c, tt.opt).Acquire)
		leases := []*lease.Lease{locktest.LeaseOf(h)}
		if h.Key() != "k" {
			leases = nil
			for _, one := range locktest.Level(h).Members() {
				leases = append(leases, one.Lease())
			}
		}
		for range 3 {
			before := c.Stats().Renewals
			for _, l := range leases {
				l.Set(func(s *lease.State) { s.Granted = time.Now().Add(-tt.age) })
				l.RenewNow()
			}
			testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Renewals >= before+int64(len(leases)) }, "renewed")
		}
		require.NoError(t, h.Unlock(t.Context()))
		require.Equal(t, tt.lines, strings.Count(log.String(), "held for very long without WithMaxHold"), log.String())
		if tt.lines > 0 {
			require.Contains(t, log.String(), "held=50m30s")
		}
	})
}

// A level without a maximum hold is found on an old lease that had only levels
// with one.
func TestForgottenLevelIsLogged(t *testing.T) {
	t.Parallel()
	const length = 30 * time.Second
	var log locktest.LogBuffer
	c := locktest.NewTestClient(t, redistest.Shared(t), log.Option(), relock.WithWatchdog(length))
	outer := locktest.Take(t, relock.NewReentrantLock("k", c, relock.WithMaxHold(time.Hour)).Acquire)
	l := locktest.LeaseOf(outer)
	renew := func() {
		before := c.Stats().Renewals
		l.Set(func(s *lease.State) { s.Granted = time.Now().Add(-101 * length) })
		l.RenewNow()
		testkit.Eventually(t, testkit.Patience, func() bool { return c.Stats().Renewals > before }, "renewed")
	}
	renew()
	inner, err := relock.NewReentrantLock("k", c).Acquire(outer.Context())
	require.NoError(t, err)
	renew()
	require.NoError(t, inner.Unlock(t.Context()))
	require.NoError(t, outer.Unlock(t.Context()))
	require.Equal(t, 1, strings.Count(log.String(), "held for very long without WithMaxHold"), log.String())
}
