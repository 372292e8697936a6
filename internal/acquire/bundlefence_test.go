package acquire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// Inspect tells the token of a hold of several keys as that of any other.
func TestInspectTellsTheTokenOfAMultiLock(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	h, err := relock.NewMultiLock([]string{"a", "b"}, c, relock.WithFencing()).Acquire(t.Context())
	require.NoError(t, err)
	require.Equal(t, h.Fence(), locktest.Inspect(t, c, "a").Fence)
	require.Equal(t, h.Fence(), locktest.Inspect(t, c, "b").Fence)
	require.NoError(t, h.Unlock(t.Context()))
}

// Tokens rise over all holds that have a key in common, of one key or of many, at once or one by one.
func TestMultiLockFencing(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	apart := locktest.Sibling(t, s, c)
	locktest.Engine(apart).OneByOne.Store(true)
	s.Do(t, "SET", locktest.KeyOf(c, "b")+script.CounterSuffix, time.Now().Add(time.Hour).UnixMicro()) // drawn by a clock that was ahead
	var last int64
	for n, lock := range []locktest.AnyLock{
		relock.NewRedisLock("a", c, relock.WithFencing()),
		relock.NewMultiLock([]string{"a", "b"}, c, relock.WithFencing()),
		relock.NewRedisLock("a", c, relock.WithFencing()),
		relock.NewMultiLock([]string{"c", "a"}, apart, relock.WithFencing()),
		relock.NewMultiLock([]string{"b", "c"}, apart, relock.WithFencing()),
		relock.NewRedisLock("c", apart, relock.WithFencing()),
		relock.NewMultiLock([]string{"a", "b", "c"}, c, relock.WithFencing()),
		relock.NewRedisLock("b", c, relock.WithFencing()),
	} {
		h, err := lock.TryAcquire(t.Context())
		require.NoError(t, err)
		require.Greater(t, h.Fence(), last, "%d", n)
		last = h.Fence()
		require.NoError(t, h.Unlock(t.Context()))
		require.Equal(t, last, h.Fence())
	}
	h, err := relock.NewMultiLock([]string{"a", "b"}, c).TryAcquire(t.Context())
	require.NoError(t, err)
	require.Zero(t, h.Fence())
	require.NoError(t, h.Unlock(t.Context()))
}

// Tokens rise from quorum to quorum, also when one node's clock is ahead and not in the next one.
func TestRedLockFencing(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 5)
	b := locktest.NewRedBench(t, servers)
	l := b.Patient(relock.WithFencing())
	b.Meet(l)
	servers[0].Do(t, "SET", b.Prefix+"{k}"+script.CounterSuffix, time.Now().Add(time.Hour).UnixMicro())
	var last int64
	for n, away := range [][2]int{{3, 4}, {0, 1}, {1, 2}, {0, 4}, {0, 2}} {
		for _, i := range away {
			b.Proxies[i].Refuse()
		}
		h, err := l.TryAcquire(t.Context())
		require.NoError(t, err)
		require.Greater(t, h.Fence(), last, "%d", n)
		last = h.Fence()
		require.NoError(t, h.Unlock(t.Context()))
		for _, i := range away {
			b.Proxies[i].Accept()
		}
		b.RequireFree(2 * locktest.RedLease)
	}
	require.Greater(t, last, time.Now().Add(30*time.Minute).UnixMicro(), "the test does not show what it is for")
	for _, p := range b.Proxies[:3] {
		p.Refuse()
	}
	require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrQuorum)
}
