package routes_test

import (
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// spread returns a topology of two servers that share the keys.
func spread(t testing.TB) (p *locktest.Topology, names []string) {
	t.Helper()
	p = locktest.NewTopology(false, redistest.Start(t), redistest.StartTCP(t))
	return p, p.Names(t)
}

// keysOf returns the keys that a server has.
func keysOf(t testing.TB, s *redistest.Server) []string {
	t.Helper()
	var keys []string
	for _, key := range s.Do(t, "KEYS", "*").([]any) {
		keys = append(keys, string(key.([]byte)))
	}
	slices.Sort(keys)
	return keys
}

// Each key of a client is at its server, whatever is done with it. Renewals and
// releases go there, too.
func TestKeysAreAtTheirServers(t *testing.T) {
	t.Parallel()
	p, names := spread(t)
	c := p.Client(t)
	for _, name := range names {
		for kind, lock := range map[string]locktest.AnyLock{
			"plain": relock.NewRedisLock(name, c), "fair": relock.NewRedisLock(name, c, relock.WithFair(), relock.WithBlock()),
			"reentrant": relock.NewReentrantLock(name, c), "read/write": relock.NewRWLock(name, c),
		} {
			h, err := lock.Acquire(t.Context())
			require.NoError(t, err, kind)
			locktest.RequireRenewed(t, h)
			require.NoError(t, h.Extend(t.Context(), time.Minute), kind)
			require.Equal(t, relock.StateHeld, locktest.Inspect(t, c, name).State, kind)
			for _, other := range names {
				if s := p.Of(other); other != name {
					require.Empty(t, keysOf(t, s), kind)
				}
			}
			require.NotEmpty(t, keysOf(t, p.Of(name)), kind)
			require.NoError(t, h.Unlock(t.Context()), kind)
			require.Equal(t, relock.StateFree, locktest.Inspect(t, c, name).State, kind)
		}
		p.Of(name).Do(t, "FLUSHALL")
	}
}

// A waiter is notified by the server of its key, however many servers there
// are. Without the message it would wait for a poll.
func TestWaitersOfTwoServers(t *testing.T) {
	t.Parallel()
	p, names := spread(t)
	holders, waiters := p.Client(t), p.Client(t)
	seldom := []relock.LockOption{relock.WithPollInterval(time.Minute), relock.WithWatchdog(4 * time.Minute)}
	for range 3 {
		for _, name := range names {
			h := locktest.Acquire(t, holders, name)
			got := waitFor(t, t.Context(), waiters, name, seldom...)
			require.NoError(t, h.Unlock(t.Context()))
			require.NoError(t, testkit.ResultWithin(t, got, testkit.Patience))
		}
	}
}

// A MultiLock over two servers excludes the holders of each key.
func TestMultiLockOverTwoServers(t *testing.T) {
	t.Parallel()
	p, names := spread(t)
	requireAllOrNone(t, names, [2]*relock.Client{p.Client(t), p.Client(t)}, p.Of, func() {
		for _, name := range names { // the last try may still release
			testkit.Eventually(t, testkit.Patience, func() bool { return len(keysOf(t, p.Of(name))) == 0 }, "is free")
		}
	})
}

// requireAllOrNone requires that a MultiLock of one client and locks of the
// other one exclude each other, and that it takes all of its keys or none.
func requireAllOrNone(
	t testing.TB, names []string, clients [2]*relock.Client, at func(name string) *redistest.Server, requireFree func(),
) {
	t.Helper()
	multi, other := relock.NewMultiLock(names, clients[0]), clients[1]
	h := locktest.Take(t, multi.Acquire)
	for _, name := range names {
		require.EqualValues(t, 1, at(name).Do(t, "EXISTS", locktest.KeyOf(other, name)), "at its server")
		_, err := relock.NewRedisLock(name, other).Acquire(t.Context())
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
	}
	require.NoError(t, h.Unlock(t.Context()))
	for _, name := range names {
		held := locktest.Acquire(t, other, name, relock.WithBlock()) // the last try may still release
		_, err := multi.Acquire(t.Context())
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		require.NoError(t, held.Unlock(t.Context()))
		requireFree()
	}
}

// List and Ping go to all servers.
func TestListAndPingOfTwoServers(t *testing.T) {
	t.Parallel()
	p, names := spread(t)
	c := p.Client(t)
	requireListed(t, c, c, names)
	require.GreaterOrEqual(t, c.Stats().Connections, 2)
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.Ping(t.Context()), relock.ErrClosed)

	c = p.Client(t)
	p.Of(names[1]).Kill(t)
	require.Error(t, c.Ping(t.Context()))
	require.Positive(t, p.Invalidations(p.Of(names[1])))
	require.Zero(t, p.Invalidations(p.Of(names[0])))
}

// requireListed requires that a client reaches all servers, and lists the locks
// that it or another one holds there.
func requireListed(t testing.TB, c, holder *relock.Client, names []string) {
	t.Helper()
	require.NoError(t, c.Ping(t.Context()))
	for _, name := range names {
		locktest.Acquire(t, holder, name)
	}
	var found []string
	for info, err := range c.List(t.Context(), "*") {
		require.NoError(t, err)
		found = append(found, info.Key)
	}
	require.ElementsMatch(t, names, found)
}

// SetNEX and Eval go to the server of the first key.
func TestEvalByItsFirstKey(t *testing.T) {
	t.Parallel()
	p, names := spread(t)
	c := p.Client(t)
	set := relock.NewScript("return redis.call('SET', KEYS[2], ARGV[1])")
	for _, name := range names {
		_, err := c.Eval(t.Context(), set, []string{p.Key(name), p.Key(name) + ":eval"}, "v")
		require.NoError(t, err)
		ok, err := c.SetNEX(t.Context(), p.Key(name)+":nex", "v", time.Minute)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, []string{p.Key(name) + ":eval", p.Key(name) + ":nex"}, keysOf(t, p.Of(name)))
	}
	reply, err := c.Eval(t.Context(), relock.NewScript("return 7"), nil)
	require.NoError(t, err)
	require.EqualValues(t, 7, reply)
}

// A server that hangs costs the leases of the other one nothing. Its own are
// lost.
func TestServerThatHangsDelaysNoOther(t *testing.T) {
	t.Parallel()
	const lease = 1500 * time.Millisecond
	p, names := spread(t)
	c := p.Client(t)
	hung, well := names[0], names[1]
	lost := locktest.Acquire(t, c, hung, relock.WithWatchdog(lease))
	var kept []relock.Hold
	for range 20 {
		kept = append(kept, locktest.Acquire(t, c, p.NameAt(p.Of(well))))
	}
	p.Of(hung).Pause(t)
	defer p.Of(hung).Resume(t)
	for end := time.Now().Add(3 * lease); time.Now().Before(end); {
		for _, h := range kept {
			watch := testkit.NewStopwatch(t)
			locktest.RequireRenewed(t, h)
			require.Less(t, watch.Net(), lease/2, "a call that waits for the other server takes its timeouts")
		}
	}
	require.ErrorIs(t, lost.Err(), relock.ErrLockLost)
	for _, h := range kept {
		require.NoError(t, h.Unlock(t.Context()))
	}
}

// A topology without an answer costs callers an error, and no hold its renewal.
func TestTopologyThatFails(t *testing.T) {
	t.Parallel()
	p, names := spread(t)
	c := p.Client(t)
	held := locktest.Acquire(t, c, names[0])
	locktest.RequireRenewed(t, held)
	away := errors.New("topology is away")
	p.Fail(away)
	_, err := relock.NewRedisLock(names[1], c).Acquire(t.Context())
	require.ErrorIs(t, err, away)
	require.ErrorIs(t, c.Ping(t.Context()), away)
	_, err = relock.NewMultiLock(names, c).Acquire(t.Context())
	require.ErrorIs(t, err, away)
	for _, err := range c.List(t.Context(), "*") {
		require.ErrorIs(t, err, away)
	}
	locktest.RequireRenewed(t, held)
	p.Fail(nil)
	require.NoError(t, held.Unlock(t.Context()))

	p.Fail(io.EOF) // a failure of the network passes
	got := testkit.Async(t, func() error { return lockOnce(t.Context(), c, names[1]) })
	asked := p.Asked()
	testkit.Eventually(t, testkit.Patience, func() bool { return p.Asked() > asked+1 }, "tries again")
	p.Fail(nil)
	require.NoError(t, testkit.ResultWithin(t, got, testkit.Patience))
}

// Close with WithReleaseOnClose releases at each server.
func TestReleaseOnCloseOfTwoServers(t *testing.T) {
	t.Parallel()
	p, names := spread(t)
	c := p.Client(t, relock.WithReleaseOnClose())
	for _, name := range names {
		locktest.Acquire(t, c, name)
	}
	require.NoError(t, c.Close())
	for _, name := range names {
		require.Empty(t, keysOf(t, p.Of(name)))
	}
}
