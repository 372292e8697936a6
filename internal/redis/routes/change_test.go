package routes_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/background"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/routes"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// pair is a master and its replica, which change places.
type pair struct {
	*locktest.Topology

	old, next *redistest.Server
}

func newPair(t testing.TB, notifies bool) *pair {
	t.Helper()
	old, next := redistest.StartTCP(t, "--repl-diskless-sync-delay", "0"), redistest.StartTCP(t)
	next.Follow(t, old)
	return &pair{locktest.NewTopology(notifies, old), old, next}
}

// promote makes the replica a master, once it has all that the old one has.
func (p *pair) promote(t testing.TB) {
	t.Helper()
	p.old.Do(t, "SET", "marker", 1)
	testkit.Eventually(t, testkit.Patience, func() bool { return has(t, p.next, "marker") }, "is replicated")
	p.next.Do(t, "REPLICAOF", "NO", "ONE")
}

// The ways in which a master ends.
var masterEnds = map[string]func(t testing.TB, p *pair){
	"demoted": func(t testing.TB, p *pair) { p.old.Follow(t, p.next) },
	"killed":  func(t testing.TB, p *pair) { p.old.Kill(t) },
	"hung":    func(t testing.TB, p *pair) { p.old.Pause(t) },
}

// A hold and a waiter survive the end of their master: the hold is renewed and
// released at the new one, which hands the lock to the waiter. Nothing is left
// there. The client need not be notified of the change.
func TestMasterChanges(t *testing.T) {
	t.Parallel()
	for name, end := range masterEnds {
		for _, notifies := range []bool{true, false} {
			for _, fair := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, notified %v, fair %v", name, notifies, fair), func(t *testing.T) {
					t.Parallel()
					changeMaster(t, newPair(t, notifies), end, fair)
				})
			}
		}
	}
}

func changeMaster(t *testing.T, p *pair, end func(testing.TB, *pair), fair bool) {
	holder, waiting := p.Client(t), p.Client(t)
	var opts []relock.LockOption
	if fair {
		opts = append(opts, relock.WithFair())
	}
	h := locktest.Acquire(t, holder, "k", opts...)
	got := waitFor(t, t.Context(), waiting, "k", opts...)
	p.promote(t)
	end(t, p)
	p.SetMasters(p.next)
	locktest.RequireRenewed(t, h)
	require.NoError(t, h.Unlock(t.Context()))
	released := testkit.NewStopwatch(t)
	require.NoError(t, testkit.ResultWithin(t, got, testkit.Patience))
	released.Within(10 * time.Second)
	testkit.Eventually(t, testkit.Patience,
		func() bool { return !has(t, p.next, p.Key("k")) && !has(t, p.next, p.Key("k")+":q") }, "nothing is left")
}

func has(t testing.TB, s *redistest.Server, key string) bool {
	t.Helper()
	return s.Do(t, "EXISTS", key) == int64(1)
}

func lockOnce(ctx context.Context, c *relock.Client, key string, opts ...relock.LockOption) error {
	h, err := relock.NewRedisLock(key, c, append(opts, relock.WithBlock())...).Acquire(ctx)
	if err != nil {
		return err
	}
	return h.Unlock(ctx)
}

// waitFor is lockOnce on a goroutine. It returns when the call is in the queue,
// and will be notified.
func waitFor(t testing.TB, ctx context.Context, c *relock.Client, key string, opts ...relock.LockOption) <-chan error {
	t.Helper()
	result := testkit.Async(t, func() error { return lockOnce(ctx, c, key, opts...) })
	testkit.Eventually(t, testkit.Patience, func() bool {
		return c.Stats().Waiting == 1 && locktest.IsSubscribed(c, key)
	}, "waits, subscribed")
	return result
}

// A call under way at a master that hangs goes on at the new one, as soon as
// the client is notified.
func TestCallUnderWayAtAMasterThatHangs(t *testing.T) {
	t.Parallel()
	p := newPair(t, true)
	proxy := faults.Start(t, p.old.Network, p.old.Address)
	p.SetMasters(&redistest.Server{Network: proxy.Network, Address: proxy.Address})
	c := p.Client(t, relock.WithCommandTimeout(time.Minute)) // a lock's has a third of the lease
	require.NoError(t, lockOnce(t.Context(), c, "k"))
	p.promote(t)
	p.old.Pause(t)
	set := faults.Command("SET")
	asked := proxy.Count(set)
	got := testkit.Async(t, func() error { return lockOnce(t.Context(), c, "k") })
	require.True(t, proxy.Await(set, asked+1, testkit.Patience), "is sent")
	watch := testkit.NewStopwatch(t)
	p.SetMasters(p.next)
	require.NoError(t, testkit.ResultWithin(t, got, testkit.Patience))
	watch.Within(locktest.DefaultCommandTimeout / 2)
}

// Two calls go on at the new master, as soon as the client is notified: one is
// still connecting to the old master, and one waits for its connection.
func TestCallThatConnectsToARetiredMaster(t *testing.T) {
	t.Parallel()
	p := newPair(t, true)
	p.promote(t)
	dials := make(chan struct{}, 10)
	var begun atomic.Int64
	starts := relock.WithObserver(relock.Observer{LockStart: func(context.Context, relock.LockStart) { begun.Add(1) }})
	c := p.Client(t, starts, relock.WithMaxActive(1), relock.WithWaitMode(),
		relock.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != p.old.Address {
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}
			dials <- struct{}{}
			<-ctx.Done() // a machine that is down answers no packet
			return nil, ctx.Err()
		}))
	try := func(name string) <-chan error {
		return testkit.Async(t, func() error {
			_, err := relock.NewRedisLock(name, c).Acquire(t.Context())
			return err
		})
	}
	connects := try("connects")
	_, ok := testkit.Await(dials, testkit.Patience)
	require.True(t, ok, "dials")
	waits := try("waits")
	testkit.Eventually(t, testkit.Patience, func() bool { return begun.Load() == 2 }, "begins")
	watch := testkit.NewStopwatch(t)
	p.SetMasters(p.next)
	testkit.AllWithin(t, []<-chan error{connects, waits}, testkit.Patience)
	watch.Within(time.Second / 2)
}

func routerOf(c *relock.Client) *routes.Router { return locktest.Engine(c).Driver.(*routes.Router) }

// A retired node opens no connection: a call that has found it before gets an
// error, and waits for no server that hangs. The topology learns nothing by it.
func TestRetiredNodeOpensNothing(t *testing.T) {
	t.Parallel()
	p := newPair(t, true)
	var dials atomic.Int64 // to the old master
	c := p.Client(t, relock.WithCommandTimeout(time.Minute),
		relock.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == p.old.Address {
				dials.Add(1)
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}))
	require.NoError(t, lockOnce(t.Context(), c, "k"))
	r := routerOf(c)
	n, err := r.Home(t.Context(), p.Key("k"))
	require.NoError(t, err)
	link := n.Link()
	defer link.Close()
	p.promote(t)
	p.old.Pause(t)
	p.SetMasters(p.next)
	testkit.Eventually(t, testkit.Patience, func() bool { return r.Connections() == 0 }, "is retired, and not closed yet")

	watch, invalid, dialled := testkit.NewStopwatch(t), p.Invalidations(p.old), dials.Load()
	ping := driver.Request{Cmd: "PING"}
	o := n.Call(t.Context(), driver.Limits{}, ping)
	require.ErrorContains(t, o.Err, "no master any more")
	require.Zero(t, o.Sent)
	o = link.Pipeline(driver.BatchLimit{Own: time.Minute, Borrowed: time.Minute}, []driver.Request{ping})[0]
	require.ErrorContains(t, o.Err, "no master any more")
	require.Zero(t, o.Sent)
	watch.Within(time.Second / 2)
	require.Equal(t, invalid, p.Invalidations(p.old))
	require.Equal(t, dialled, dials.Load())
}

// While the topology names no server, or fails, no retired node is guessed for
// a key.
func TestKeyOfNoServerHasNoRetiredNode(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	p := locktest.NewTopology(true, s)
	c := p.Client(t)
	require.NoError(t, lockOnce(t.Context(), c, "k"))
	p.SetMasters()
	testkit.Eventually(t, testkit.Patience, func() bool { return routerOf(c).Connections() == 0 }, "is retired")
	p.Fail(context.DeadlineExceeded)
	for range 2 { // the first change is over when the second one begins
		listed := p.Listed()
		p.SetMasters()
		testkit.Eventually(t, testkit.Patience, func() bool { return p.Listed() > listed }, "all servers are asked for")
	}
	require.ErrorContains(t, routerOf(c).Known("other").Call(t.Context(), driver.Limits{}, driver.Request{
		Cmd: "PING",
	}).Err, "no server for the key is known")
}

// A master hangs under a release, and its successor is named later. Meanwhile
// the release waits for that, not for the old master.
func TestReleaseWhileThereIsNoMaster(t *testing.T) {
	t.Parallel()
	p := newPair(t, true)
	c := p.Client(t)
	h := locktest.Acquire(t, c, "k")
	p.promote(t)
	p.old.Pause(t)
	unlocked := testkit.Async(t, func() error { return h.Unlock(t.Context()) })
	retried := func() bool { return len(locktest.Engine(c).Retrier.Unconfirmed()) == 1 }
	testkit.Eventually(t, testkit.Patience, retried, "is retried")
	listed := p.Listed()
	p.SetMasters()
	testkit.Eventually(t, testkit.Patience, func() bool { return p.Listed() > listed && retried() }, "the release waits")
	p.SetMasters(p.next)
	watch := testkit.NewStopwatch(t)
	testkit.Eventually(t, testkit.Patience, func() bool { return !has(t, p.next, p.Key("k")) }, "is released")
	watch.Within(background.RetryLimit / 2)
	require.NoError(t, testkit.ResultWithin(t, unlocked, testkit.Patience))
}

// A client keeps nothing for a master that was replaced: neither connections
// nor workers, nor a subscription that it tries again.
func TestOldMasterIsClosed(t *testing.T) {
	t.Parallel()
	testkit.Each(t, masterEnds, func(t *testing.T, name string, end func(testing.TB, *pair)) {
		p := newPair(t, true)
		c := p.Client(t, relock.WithCommandTimeout(2*time.Second), relock.WithFair())
		h := locktest.Acquire(t, c, "k")
		locktest.RequireRenewed(t, h)
		got := waitFor(t, t.Context(), c, "k")
		p.promote(t)
		end(t, p)
		p.SetMasters(p.next)
		locktest.RequireRenewed(t, h)
		require.NoError(t, h.Unlock(t.Context()))
		require.NoError(t, testkit.ResultWithin(t, got, testkit.Patience))
		testkit.Eventually(t, testkit.Patience, func() bool {
			return routerOf(c).Size() == 1
		}, "is closed")
		require.NoError(t, lockOnce(t.Context(), c, "k"))
		if name != "demoted" {
			return
		}
		require.LessOrEqual(t, p.old.Info(t, "clients", "connected_clients"), int64(2), "that of the test, and its master")
	})
}

// The only server may be no master for a while, as in an election. Its node is
// closed. Once it is named again, requests go to a new one.
func TestOnlyServerIsNamedAgain(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t)
	p := locktest.NewTopology(true, s)
	c := p.Client(t, relock.WithCommandTimeout(2*time.Second))
	require.NoError(t, lockOnce(t.Context(), c, "k"))
	p.SetMasters()
	size := routerOf(c).Size
	testkit.Eventually(t, testkit.Patience, func() bool { return size() == 0 }, "is closed")
	require.Error(t, lockOnce(t.Context(), c, "k"))
	p.Name(s)
	ok, err := c.SetNEX(t.Context(), p.Key("again"), "v", time.Minute)
	require.NoError(t, err, "the closed node is used")
	require.True(t, ok)
	require.Equal(t, 1, size())
}
