package multilock_test

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// multiCluster is a Cluster with two clients that share their locks.
type multiCluster struct {
	*locktest.Bench
	*redistest.Cluster
}

func newMultiCluster(t *testing.T) *multiCluster {
	t.Helper()
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0, "--cluster-node-timeout", "20000")
	client := locktest.ClusterClient(t, c, relock.WithCommandTimeout(testkit.Patience))
	b := &locktest.Bench{TB: t, Client: client, Other: locktest.ClusterClient(t, c,
		relock.WithCommandTimeout(testkit.Patience), relock.WithKeyPrefix(locktest.Prefix(client)))}
	masters := map[string]*redistest.Server{} // by name: no slot moves
	b.Home = func(key string) *redistest.Server {
		if masters[key] == nil {
			masters[key] = c.MasterOf(t, b.Key(key))
		}
		return masters[key]
	}
	for _, client := range []*relock.Client{b.Client, b.Other} { // connects
		require.NoError(t, relock.NewMultiLock(names(20), client).Do(t.Context(), locktest.Nothing))
	}
	b.AwaitFree(names(20)...)
	return &multiCluster{b, c}
}

// scripts returns how many scripts the servers have run, or refused.
func (c *multiCluster) scripts(servers ...*redistest.Server) (n int) {
	c.Helper()
	for _, s := range servers {
		n += locktest.Calls(c, s, "evalsha")
	}
	return n
}

// A client of a Cluster asks for keys of different slots by a script each, and
// for those of one slot by one. No server has to refuse that first.
func TestMultiLockOfSlots(t *testing.T) {
	c := newMultiCluster(t)
	for name, tt := range map[string]struct {
		keys    []string
		scripts int
	}{
		"one slot":       {together(10), 1},
		"different ones": {names(10), 10},
		"both":           {append(names(3), together(10)...), 4},
	} {
		l := relock.NewMultiLock(tt.keys, c.Client)
		require.NoError(t, l.Do(t.Context(), locktest.Nothing), name) // the servers know the scripts
		before := c.scripts(c.Servers...)
		require.NoError(t, l.Lock(t.Context()), name)
		require.Equal(t, tt.scripts, c.scripts(c.Servers...)-before, name)
		require.EqualValues(t, len(tt.keys), c.Exists(tt.keys...), name)
		for _, key := range tt.keys {
			require.ErrorIs(t, relock.NewRedisLock(key, c.Other).TryLock(t.Context()), relock.ErrLockAcquiredByOthers, key)
		}
		require.NoError(t, l.Unlock(t.Context()), name)
		require.Zero(t, c.Exists(tt.keys...), name)
	}
	require.False(t, locktest.Engine(c.Client).OneByOne.Load(), "no server has refused keys")
}

// If one key is held by others, the keys that the first try took are
// released. So they are if the call waits, and the call gets them all later.
func TestMultiLockAtOnceTakesNothing(t *testing.T) {
	c := newMultiCluster(t)
	keys := append(names(6), together(3)...)
	for _, held := range []string{keys[0], keys[3], keys[5], keys[7]} {
		one := c.Hold(held)
		err := relock.NewMultiLock(keys, c.Client).TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		require.ErrorContains(t, err, `key "`+held+`"`)
		testkit.Eventually(t, lockspec.DefaultLease/3, func() bool { return c.Exists(keys...) == 1 },
			"the others are released")

		l := relock.NewMultiLock(keys, c.Client, relock.WithBlock())
		got := testkit.Async(t, func() error { return l.Lock(t.Context()) })
		c.AwaitWaiter(held)
		testkit.Eventually(t, lockspec.DefaultLease/3, func() bool { return c.Exists(keys...) == 1 },
			"holds nothing while it waits")
		require.NoError(t, one.Unlock(t.Context()))
		locktest.RequireGranted(t, got)
		require.EqualValues(t, len(keys), c.Exists(keys...))
		require.NoError(t, l.Unlock(t.Context()))
		c.AwaitFree(keys...)
	}
}

// The servers are asked at the same time: if that of the first key hangs, the
// others have granted theirs. A call that is cancelled then releases those, and
// the one of the server that hung as well. It does the same if the server does
// not answer in time.
func TestMultiLockAtOnceWhileAServerHangs(t *testing.T) {
	for name, tt := range map[string]struct {
		lease time.Duration
		limit time.Duration // of a command
		leave func(*testing.T, *relock.Client, context.CancelFunc)
		want  error
	}{
		"the caller leaves": {
			time.Minute, testkit.Patience,
			func(_ *testing.T, _ *relock.Client, cancel context.CancelFunc) { cancel() }, context.Canceled,
		},
		"the client is closed": {6 *
			time.Second, testkit.Patience, func(t *testing.T, c *relock.Client, _ context.CancelFunc) {
			require.NoError(t, c.Close())
		}, relock.ErrClosed},
		"no answer": {
			time.Minute, 2 * time.Second, func(*testing.T, *relock.Client, context.CancelFunc) {}, os.ErrDeadlineExceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newMultiCluster(t)
			keys := names(10)
			client := locktest.ClusterClient(t, c.Cluster,
				relock.WithCommandTimeout(tt.limit), relock.WithKeyPrefix(locktest.Prefix(c.Client)))
			l := relock.NewMultiLock(keys, client, relock.WithExpiry(tt.lease))
			require.NoError(t, l.Do(t.Context(), locktest.Nothing))
			hung := c.At(keys[0])
			others := slices.DeleteFunc(names(10), func(key string) bool { return c.At(key) == hung })
			hung.Pause(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := testkit.Async(t, func() error { return l.Lock(ctx) })
			testkit.Eventually(t, testkit.Patience, func() bool {
				return c.Exists(others...) == int64(len(others))
			}, "the others have granted theirs")
			tt.leave(t, client, cancel)
			require.ErrorIs(t, testkit.ResultWithin(t, got, testkit.Patience), tt.want)
			watch := testkit.NewStopwatch(t)
			c.AwaitFree(others...)
			if name != "the client is closed" { // it leaves them to their leases
				watch.Within(3 * time.Second)
			}
			hung.Resume(t)
			c.AwaitFree(keys...)
		})
	}
}

// With replicas, one group is asked for after another: each occupies a
// connection while it waits. So no server is asked while the first one hangs.
func TestMultiLockWithReplicasAsksInOrder(t *testing.T) {
	c := newMultiCluster(t)
	keys, hung := names(10), c.At("key0")
	others := slices.DeleteFunc(slices.Clone(c.Servers), func(s *redistest.Server) bool { return s == hung })
	client := locktest.ClusterClient(t, c.Cluster,
		relock.WithCommandTimeout(2*time.Second), relock.WithKeyPrefix(locktest.Prefix(c.Client)))
	require.NoError(t, relock.NewMultiLock(keys, client).Do(t.Context(), locktest.Nothing)) // connects
	before := c.scripts(others...)
	hung.Pause(t)
	err := relock.NewMultiLock(keys, client, relock.WithReplicas(1, time.Second)).TryLock(t.Context())
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Equal(t, before, c.scripts(others...))
	hung.Resume(t)
	c.AwaitFree(keys...)
}

// MultiLocks that want each other's keys, and callers of single keys beside
// them, all get on. No two hold a key, and nothing is left.
func TestMultiLocksAtOnceGetOn(t *testing.T) {
	c := newMultiCluster(t)
	keys := append(names(4), together(2)...)
	crowd := newCrowd(c.Bench, keys, time.Millisecond)
	const rounds = 15
	var group sync.WaitGroup
	var tried, refused atomic.Int64
	for n, of := range [][]string{keys, keys[:4], keys[2:], {keys[0], keys[5]}, keys} {
		client := []*relock.Client{c.Client, c.Other}[n%2]
		for _, opts := range [][]relock.LockOption{{relock.WithBlock()}, {relock.WithBlock(), relock.WithFencing()}, nil} {
			group.Go(func() {
				for range rounds {
					switch err := crowd.use(t.Context(), relock.NewMultiLock(of, client, opts...), of...); {
					case err == nil && opts == nil:
						tried.Add(1)
					case errors.Is(err, relock.ErrLockAcquiredByOthers) && opts == nil:
						refused.Add(1)
					case err != nil:
						t.Errorf("Do: %v", err)
					}
				}
			})
		}
	}
	for _, key := range keys {
		group.Go(func() {
			for range 2 * rounds {
				assert.NoError(t, crowd.use(t.Context(), relock.NewRedisLock(key, c.Other, relock.WithBlock()), key), "Do")
			}
		})
	}
	group.Wait()
	t.Logf("of the calls that do not wait: %d got the lock, %d were refused", tried.Load(), refused.Load())
	c.AwaitFree(keys...)
}

// Two calls that do not wait and that ask at the same moment do not refuse each
// other all the time: what they are refused together they try once more, in
// order.
func TestMultiLockTriesThatCollide(t *testing.T) {
	c := newMultiCluster(t)
	keys := names(10)
	const rounds = 200
	both := 0
	for range rounds {
		var group sync.WaitGroup
		var got atomic.Int32
		for _, client := range []*relock.Client{c.Client, c.Other} {
			group.Go(func() {
				l := relock.NewMultiLock(keys, client)
				switch err := l.TryLock(t.Context()); {
				case err == nil:
					got.Add(1)
					assert.NoError(t, l.Unlock(t.Context()), "Unlock")
				case !errors.Is(err, relock.ErrLockAcquiredByOthers):
					t.Errorf("TryLock: %v", err)
				}
			})
		}
		group.Wait()
		if got.Load() == 0 {
			both++
		}
		c.AwaitFree(keys...)
	}
	t.Logf("both were refused in %d of %d rounds", both, rounds)
	require.Less(t, both, rounds/4)
}

// A call that does not wait, and that got some keys and was refused another,
// releases them and tries once more, in order. It gets all of them if the other
// one is free by then. Here it is, since a server that hangs delays the answers
// for the first try.
func TestMultiLockTriesOnceMore(t *testing.T) {
	c := newMultiCluster(t)
	byServer := map[*redistest.Server][]string{}
	for _, key := range names(10) {
		byServer[c.At(key)] = append(byServer[c.At(key)], key)
	}
	hung, busy := c.At("key0"), c.At("key1")
	require.NotEqual(t, hung, busy)
	one := c.Hold(byServer[busy][0])
	before := c.scripts(busy)
	hung.Pause(t)
	l := relock.NewMultiLock(names(10), c.Client)
	got := testkit.Async(t, func() error { return l.TryLock(t.Context()) })
	testkit.Eventually(t, testkit.Patience,
		func() bool { return c.scripts(busy) == before+len(byServer[busy]) }, "refused")
	require.NoError(t, one.Unlock(t.Context()))
	hung.Resume(t)
	locktest.RequireGranted(t, got)
	require.NoError(t, l.Unlock(t.Context()))
	c.AwaitFree(names(10)...)
}

// A call that was handed a key asks for all keys together, as its first try
// does: while the server of the second key hangs, the others have granted
// theirs.
func TestMultiLockAsksTogetherWhenHandedAKey(t *testing.T) {
	c := newMultiCluster(t)
	keys := names(10)
	hung := c.At("key1")
	others := slices.DeleteFunc(names(10), func(key string) bool { return c.At(key) == hung })
	one := c.Hold("key0")
	got := testkit.Async(t, func() error {
		return relock.NewMultiLock(keys, c.Client, relock.WithBlock()).Lock(t.Context())
	})
	locktest.AwaitSubscribed(t, c.At("key0"), c.Key("key0"), c.Client)
	testkit.Eventually(t, lockspec.DefaultLease/3, func() bool { return c.Exists(keys...) == 1 },
		"holds nothing while it waits")
	hung.Pause(t)
	require.NoError(t, one.Unlock(t.Context()))
	testkit.Eventually(t, lockspec.DefaultLease/3, func() bool {
		return c.Exists(others...) == int64(len(others))
	}, "the others have granted theirs")
	hung.Resume(t)
	locktest.RequireGranted(t, got)
}

// What a try took in vain is released. If the call is handed the key that it
// lacked before a release was executed, its next try takes over what the last
// one took, also keys of one slot.
func TestMultiLockTakesOverWhatItReleases(t *testing.T) {
	c := newMultiCluster(t)
	one, at := c.Hold("key0"), c.At("one}key0")
	p, release := faults.Start(t, at.Network, at.Address), faults.Script(script.Release.SHA)
	var granted atomic.Bool
	early := func(args []string) bool { return !granted.Load() && release(args) }
	p.On(early, faults.Every, faults.ErrorLine("LOADING"))
	client := locktest.ClusterClient(t, c.Cluster, relock.WithKeyPrefix(locktest.Prefix(c.Client)), relock.WithDialer(
		func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == at.Address {
				address = p.Address
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}))
	l := relock.NewMultiLock(append(together(2), "key0"), client, relock.WithBlock())
	got := testkit.Async(t, func() error { return l.Lock(t.Context()) })
	c.AwaitWaiter("key0")
	require.NoError(t, one.Unlock(t.Context()))
	testkit.AllWithin(t, []<-chan error{got}, lockspec.DefaultLease/3)
	granted.Store(true)
	require.NoError(t, l.Unlock(t.Context()))
}

// If the last call had to wait, the next one waits for the first key before it
// asks for others: it would take them from the waiter that was handed that key.
func TestMultiLockBeginsInTheQueueAfterAWait(t *testing.T) {
	c := newMultiCluster(t)
	l := relock.NewMultiLock(names(10), c.Client, relock.WithBlock())
	others := slices.DeleteFunc(slices.Clone(c.Servers), func(s *redistest.Server) bool { return s == c.At("key0") })
	asked := func() int {
		one, before := c.Hold("key0"), c.scripts(others...)
		got := testkit.Async(t, func() error { return l.Lock(t.Context()) })
		c.AwaitWaiter("key0")
		testkit.Eventually(t, testkit.Patience, func() bool { return c.Exists(names(10)...) == 1 }, "the others are released")
		n := c.scripts(others...) - before
		require.NoError(t, one.Unlock(t.Context()))
		locktest.RequireGranted(t, got)
		require.NoError(t, l.Unlock(t.Context()))
		return n
	}
	require.Positive(t, asked(), "the first call asks all servers")
	require.Zero(t, asked(), "the next one queues")
	one := c.Hold("key0")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, l.Lock(ctx), context.DeadlineExceeded, "one that ends in the queue")
	require.NoError(t, one.Unlock(t.Context()))
	require.Zero(t, asked(), "the next one queues, too")
	require.NoError(t, l.Do(t.Context(), locktest.Nothing)) // without a wait
	require.Positive(t, asked(), "it asks all servers again")
}

// Tokens rise over all holds that have a key in common, of which some are asked
// for together and some by one script. The token is that of all counters.
func TestMultiLockFencingOfSlots(t *testing.T) {
	c := newMultiCluster(t)
	last := time.Now().Add(time.Hour).UnixMicro()
	c.At("key1").Do(t, "SET", c.Key("key1")+script.CounterSuffix, last) // drawn by a clock that was ahead
	for n, keys := range [][]string{
		names(4), append(together(3), "key1"), append(together(2), "key3"), {"one}key0", "key3", "key0"}, names(2),
	} {
		h := locktest.Take(t, relock.NewMultiLock(keys, c.Client, relock.WithFencing()).TryAcquire)
		require.Greater(t, h.Fence(), last, "%d", n)
		last = h.Fence()
		for _, key := range keys {
			require.Equal(t, last, locktest.Inspect(t, c.Client, key).Fence, key)
		}
		require.NoError(t, h.Unlock(t.Context()))
	}
}

// A client that does not know where the slots are learns it from the servers,
// also for keys that it asks for and releases together.
func TestMultiLockOfSlotsFollowsRedirects(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0, "--cluster-node-timeout", "20000")
	client := locktest.NewRoutes(c.Servers...).Sharded().Client(t)
	for range 2 {
		require.NoError(t, relock.NewMultiLock(names(10), client).Do(t.Context(), locktest.Nothing))
	}
	for _, name := range names(10) {
		key := locktest.KeyOf(client, name)
		require.Equal(t, int64(0), c.MasterOf(t, key).Do(t, "EXISTS", key))
	}
}
