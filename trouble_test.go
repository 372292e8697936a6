package relock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// A server in trouble makes attempts fail with an error that may be retried, and leaves nothing behind; a blocking Lock rides it out.
func TestServerInTrouble(t *testing.T) {
	t.Parallel()
	for _, tt := range troubles(t) {
		t.Run(tt.code, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, tt.args...)
			c := newTestClient(t, s, WithCommandTimeout(4*answerLimit))
			require.NoError(t, c.Ping(t.Context()))
			held := NewRedisLock("held", c)
			require.NoError(t, held.Lock(t.Context()))
			tt.start(t, s)

			for name, l := range map[string]Mutex{"p": NewRedisLock("p", c), "r": NewReentrantLock("r", c)} {
				err := l.TryLock(t.Context())
				require.ErrorContains(t, err, tt.code, name)
				require.True(t, IsRetryableErr(err), err)
				require.NotErrorIs(t, err, ErrDenied)
			}
			done, err := c.SetNEX(t.Context(), "raw", "v", time.Minute)
			require.ErrorContains(t, err, tt.code)
			require.True(t, IsRetryableErr(err), err)
			require.False(t, done, "an error is no success")
			err = NewRedisLock("p", c, WithBlockTimeout(500*time.Millisecond)).Lock(t.Context())
			require.ErrorContains(t, err, tt.code, "the last reason seen")
			if tt.unconfirmed {
				err := held.Unlock(t.Context())
				require.ErrorIs(t, err, ErrUnconfirmed)
				require.ErrorContains(t, err, tt.code)
				require.False(t, IsRetryableErr(err))
			}

			plain, reentrant := NewRedisLock("p", c, WithBlock()), owned("me", NewReentrantLock("r", c, WithBlock()))
			waits := []<-chan error{
				testkit.Async(t, func() error { return plain.Lock(t.Context()) }),
				testkit.Async(t, func() error { return reentrant.Lock(t.Context()) }),
			}
			select {
			case err := <-waits[0]:
				require.FailNow(t, "did not wait", "%v", err)
			case err := <-waits[1]:
				require.FailNow(t, "did not wait", "%v", err)
			case <-time.After(30 * time.Millisecond):
			}
			tt.end(t, s)
			for _, wait := range waits {
				require.NoError(t, testkit.ResultWithin(t, wait, 5*time.Second))
			}
			require.NoError(t, plain.Unlock(t.Context()))
			require.NoError(t, reentrant.Unlock(t.Context()))
			for _, key := range []string{"p", "r"} {
				testkit.Eventually(t, time.Second, func() bool { return pttl(t, s, c, key) == -2 }, key+" is still there")
			}
			if tt.unconfirmed {
				testkit.Eventually(t, 2*time.Second, func() bool { return pttl(t, s, c, "held") == -2 }, "the release was not repeated")
			}
		})
	}
}

// A Cluster without slots is down.
func TestClusterDown(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t, "--cluster-enabled", "yes", "--cluster-port", redistest.FreePort(t))
	c := newTestClient(t, s)
	for _, l := range []Mutex{NewRedisLock("k", c), NewReentrantLock("k", c)} {
		err := l.TryLock(t.Context())
		require.ErrorContains(t, err, "CLUSTERDOWN")
		require.True(t, IsRetryableErr(err), err)
	}
}

// A server that ends and comes back is ridden out too.
func TestBlockingLockRidesOutRestart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	warm(t, c, 3)
	s.Kill(t)
	err := NewRedisLock("p", c).TryLock(t.Context())
	require.True(t, IsRetryableErr(err), err)
	waits := []<-chan error{
		testkit.Async(t, func() error { return NewRedisLock("p", c, WithBlock()).Lock(t.Context()) }),
		testkit.Async(t, func() error { return NewReentrantLock("r", c, WithBlock()).Lock(unbounded(t)) }),
	}
	select {
	case err := <-waits[0]:
		require.FailNow(t, "did not wait", "%v", err)
	case err := <-waits[1]:
		require.FailNow(t, "did not wait", "%v", err)
	case <-time.After(50 * time.Millisecond):
	}
	s.Boot(t)
	for _, wait := range waits {
		require.NoError(t, testkit.ResultWithin(t, wait, 3*time.Second))
	}
}

// Without memory, what is held can be renewed and given back, level by level.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	ctx := t.Context()
	plain, reentrant := NewRedisLock("p", c), NewReentrantLock("r", c)
	keptPlain, keptReentrant := NewRedisLock("kp", c, WithMinHold(10*time.Second)), NewReentrantLock("kr", c, WithMinHold(10*time.Second))
	h, err := plain.Acquire(ctx)
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, reentrant.Lock(ctx))
	}
	require.NoError(t, keptPlain.Lock(ctx))
	require.NoError(t, keptReentrant.Lock(ctx))
	s.Do(t, "CONFIG", "SET", "maxmemory", "1")

	for _, l := range []Mutex{NewRedisLock("new", c), NewReentrantLock("new", c)} {
		err := l.TryLock(ctx)
		require.ErrorContains(t, err, "OOM")
		requireFree(t, s, c, "new")
	}
	require.ErrorContains(t, reentrant.Lock(ctx), "OOM", "a fourth level")
	require.NoError(t, h.Extend(ctx, time.Minute))
	require.Greater(t, pttl(t, s, c, "p"), 50*time.Second)
	for levels := 2; levels > 0; levels-- {
		require.NoError(t, reentrant.Unlock(ctx))
		requireCount(t, s, c, "r", levels)
	}
	require.NoError(t, reentrant.Unlock(ctx))
	require.NoError(t, h.Unlock(ctx))
	requireFree(t, s, c, "r")
	requireFree(t, s, c, "p")
	require.NoError(t, keptPlain.Unlock(ctx))
	require.NoError(t, keptReentrant.Unlock(ctx))
	for _, key := range []string{"kp", "kr"} {
		requireHeld(t, s, c, key)
		require.LessOrEqual(t, pttl(t, s, c, key), 10*time.Second)
	}
	s.Do(t, "CONFIG", "SET", "maxmemory", "0")
	require.ErrorIs(t, keptPlain.TryLock(ctx), ErrLockAcquiredByOthers)
	require.ErrorIs(t, keptReentrant.TryLock(ctx), ErrLockAcquiredByOthers)
}
