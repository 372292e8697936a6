package conns_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redis/conns"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Idle connections that a restart cut cost no error of a lock, however many
// there are.
func TestRestartCostsNoError(t *testing.T) {
	t.Parallel()
	testkit.Each(t, locktest.Kinds, func(t *testing.T, _ string, newLock locktest.NewLock) {
		s, c := locktest.OnOwn(t)
		l := newLock("k", c)
		for range 3 {
			warm(t, c, 8)
			s.Kill(t)
			s.Boot(t)
			for range 3 {
				require.NoError(t, l.TryLock(t.Context()))
				require.NoError(t, l.Unlock(t.Context()))
			}
		}
	})
}

// A call ends with its context while the server does not answer, and does not
// cut its connection.
func TestContextEndsCallInFlight(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnOwn(t, relock.WithMaxIdle(40))
	nothing := relock.NewScript("return 1")
	calls := map[string]func(context.Context) error{
		"Ping":      c.Ping,
		"SetNEX":    func(ctx context.Context) error { _, err := c.SetNEX(ctx, "raw", "v", time.Minute); return err },
		"Eval":      func(ctx context.Context) error { _, err := c.Eval(ctx, nothing, nil); return err },
		"Lock":      func(ctx context.Context) error { return relock.NewRedisLock("1", c).Lock(ctx) },
		"blocking":  func(ctx context.Context) error { return relock.NewRedisLock("2", c, relock.WithBlock()).Lock(ctx) },
		"Acquire":   func(ctx context.Context) error { _, err := relock.NewRedisLock("3", c).Acquire(ctx); return err },
		"Do":        func(ctx context.Context) error { return relock.NewRedisLock("4", c).Do(ctx, locktest.Nothing) },
		"reentrant": func(ctx context.Context) error { return relock.NewReentrantLock("5", c, relock.WithBlock()).Lock(ctx) },
		"nested": func(ctx context.Context) error {
			return locktest.Owned("me", relock.NewReentrantLock("outer", c, relock.WithBlock())).Lock(ctx)
		},
	}
	outer := locktest.Owned("me", relock.NewReentrantLock("outer", c))
	require.NoError(t, outer.Lock(t.Context()))
	warm(t, c, 3*len(calls))
	inspector := s.Dial(t)
	defer inspector.Close() //nolint:errcheck // nothing is pending
	before := redistest.Connections(t, inspector)
	require.GreaterOrEqual(t, len(before), 3*len(calls))

	s.Pause(t)
	errCause := errors.New("enough")
	start, watch := time.Now(), testkit.NewStopwatch(t)
	deadline, cancel := context.WithDeadline(t.Context(), start.Add(100*time.Millisecond))
	defer cancel()
	caused, cancelCause := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancelCause(errCause) })
	withCause, cancelTimeout := context.WithDeadlineCause(t.Context(), start.Add(100*time.Millisecond), errCause)
	defer cancelTimeout()
	var results []<-chan error
	for name, call := range calls {
		for ctx, is := range map[context.Context][]error{
			deadline: {context.DeadlineExceeded}, caused: {context.Canceled, errCause},
			withCause: {context.DeadlineExceeded, errCause},
		} {
			results = append(results, testkit.Async(t, func() error {
				err := call(ctx)
				took := time.Since(start)
				wrong := relock.IsRetryableErr(err) || took < 95*time.Millisecond
				for _, one := range is {
					wrong = wrong || !errors.Is(err, one)
				}
				if wrong {
					return fmt.Errorf("%s, as %v: after %v: %w", name, is, took, err)
				}
				return nil
			}))
		}
	}
	testkit.AllWithin(t, results, testkit.Patience)
	watch.Within(time.Second)
	s.Resume(t)
	watch = testkit.NewStopwatch(t)
	for i := 1; i <= 5; i++ {
		key := strconv.Itoa(i)
		testkit.Eventually(t, testkit.Patience,
			func() bool { return locktest.PTTL(t, s, c, key) == -2 }, "a lock that no caller got stays: "+key)
	}
	watch.Within(time.Second)
	watch = testkit.NewStopwatch(t)
	require.NoError(t, outer.Unlock(t.Context()))
	testkit.Eventually(t, testkit.Patience, func() bool { return locktest.PTTL(t, s, c, "outer") == -2 },
		"levels that no caller got stay")
	watch.Within(time.Second)
	after := redistest.Connections(t, inspector)
	for id := range before {
		require.True(t, after[id], "connection %s was cut", id)
	}
}

func TestNothingIsSentUnderAnEndedContext(t *testing.T) {
	t.Parallel()
	c := locktest.Unconnected(t)
	errCause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCause)
	_, setNEX := c.SetNEX(ctx, "raw", "v", time.Minute)
	_, eval := c.Eval(ctx, relock.NewScript("return 1"), nil)
	for _, err := range []error{
		c.Ping(ctx), setNEX, eval,
		relock.NewRedisLock("k", c, relock.WithBlock()).Lock(ctx), relock.NewRedisLock("k", c).TryLock(ctx),
		relock.NewReentrantLock("k", c).Do(ctx, locktest.Nothing),
	} {
		locktest.RequireIs(t, err, context.Canceled, errCause)
		require.False(t, relock.IsRetryableErr(err))
		require.NotContains(t, err.Error(), "refused")
	}
}

// timesOut makes a call that ends at the limit, though its context goes on. It
// returns what is wrong with that.
func timesOut(t testing.TB, ctx context.Context, call func(context.Context) error, limit time.Duration) error {
	start, watch := time.Now(), testkit.NewStopwatch(t)
	err := call(ctx)
	took := time.Since(start)
	if !relock.IsRetryableErr(err) || errors.Is(err, context.DeadlineExceeded) || took < limit*95/100 ||
		watch.Net() > limit*3/2 {
		return fmt.Errorf("after %v: %w", took, err)
	}
	return nil
}

func TestCommandTimeout(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	s, c := locktest.OnOwn(t, relock.WithCommandTimeout(timeout))
	warm(t, c, 4)
	s.Pause(t)
	defer s.Resume(t)
	var calls []<-chan error
	for _, ctx := range []context.Context{t.Context(), locktest.Unbounded(t)} {
		for _, call := range []func(context.Context) error{c.Ping, relock.NewRedisLock("k", c).TryLock} {
			calls = append(calls, testkit.Async(t, func() error { return timesOut(t, ctx, call, timeout) }))
		}
	}
	testkit.AllWithin(t, calls, testkit.Patience)
}

// The commands of a lock have a third of its lease, so that there is time for
// another attempt.
func TestLockCommandsHaveAThirdOfTheLease(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnOwn(t)
	warm(t, c, 2)
	s.Pause(t)
	defer s.Resume(t)
	const lease = 900 * time.Millisecond
	require.NoError(t,
		timesOut(t, locktest.Unbounded(t), relock.NewRedisLock("k", c, relock.WithExpiry(lease)).TryLock, lease/3))
}

// The dial timeout covers the log-in.
func TestDialTimeout(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	s := redistest.Start(t, "--requirepass", "pw")
	s.Pause(t)
	defer s.Resume(t)
	c, err := relock.NewClient(s.Network, s.Address,
		"pw", relock.WithDialTimeout(timeout), relock.WithCommandTimeout(10*time.Second))
	require.NoError(t, timesOut(t, locktest.Unbounded(t), newClient(t, c, err).Ping, timeout))
}

// Contexts that end right when a lock is granted leave neither a key nor a
// goroutine behind.
func TestContextsThatEndAtTheGrant(t *testing.T) {
	const goroutines = 3
	rounds := 800
	if locktest.FullLength() {
		rounds = 3400
	}
	before := goleak.IgnoreCurrent()
	t.Run("rounds", func(t *testing.T) {
		s := locktest.NewServerWithScripts(t)
		c := locktest.NewFaultBench(t, s, relock.WithCommandTimeout(locktest.DefaultCommandTimeout))
		slow := func() bool { return rand.IntN(10) == 0 }
		c.Proxy.On(func([]string) bool { return slow() }, faults.Every, faults.Delay(time.Millisecond))
		c.Proxy.On(func([]string) bool { return slow() }, faults.Every, faults.DelayRequest(time.Millisecond))
		var mu sync.Mutex
		results := map[string]int{}
		conns.Together(goroutines, func(int) {
			for range rounds {
				result := roundWithEndingContext(c, rand.IntN(4*goroutines))
				mu.Lock()
				results[result]++
				mu.Unlock()
			}
		})
		t.Logf("%v", results)
		for _, result := range []string{"granted", "ended", "held by others"} {
			require.NotZero(t, results[result], result)
			delete(results, result)
		}
		require.Empty(t, results)
		watch := testkit.NewStopwatch(t)
		testkit.Eventually(t, testkit.Patience, func() bool { return s.Do(t, "DBSIZE") == int64(0) }, "keys are left")
		watch.Within(locktest.CleanWithin)
	})
	goleak.VerifyNone(t, before)
}

// roundWithEndingContext takes a lock with a context that is cancelled at a
// random moment, and releases it. It returns the result as text.
func roundWithEndingContext(c *locktest.FaultBench, name int) string {
	lock := locktest.AnyLock(relock.NewRedisLock(fmt.Sprint("plain", name), c.Client,
		relock.WithBlock(), relock.WithPollInterval(10*time.Millisecond)))
	if rand.IntN(2) == 0 {
		lock = relock.NewReentrantLock(fmt.Sprint("reentrant", name), c.Client)
	}
	delay := rand.N(3 * time.Millisecond)
	ctx, cancel := context.WithTimeout(c.Context(), delay)
	if rand.IntN(2) == 0 {
		ctx, cancel = context.WithCancel(c.Context())
		defer time.AfterFunc(delay, cancel).Stop()
	}
	defer cancel()
	take := lock.Acquire
	if rand.IntN(2) == 0 {
		take = lock.TryAcquire
	}
	hold, err := take(ctx)
	switch {
	case (hold == nil) == (err == nil):
		return fmt.Sprintf("hold %v, error %v", hold, err)
	case err == nil:
		if err := hold.Unlock(ctx); err != nil {
			return "unlock: " + err.Error()
		}
		return "granted"
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return "ended"
	case errors.Is(err, relock.ErrLockAcquiredByOthers):
		return "held by others"
	}
	return "lock: " + err.Error()
}

// A deadline that comes while a connection is dialled is the end of the
// context, not a failure of the network.
func TestDeadlineWhileDialling(t *testing.T) {
	t.Parallel()
	c := locktest.NewFaultBench(t, locktest.NewServerWithScripts(t), relock.WithMaxIdle(0)) // dials for each call
	for i := range 1000 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%500)*time.Microsecond)
		err := relock.NewRedisLock(fmt.Sprint(i), c.Client, relock.WithExpiry(locktest.FaultLease)).TryLock(ctx)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
	}
}
