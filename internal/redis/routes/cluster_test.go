package routes_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/redis/routes"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// onCluster is a lock of a Cluster of two masters, which is at the second one.
type onCluster struct {
	*testing.T
	*redistest.Cluster
	*locktest.Routes

	first, second *redistest.Server
	name          string
	slot          int
}

// startCluster runs a Cluster whose servers do not fail while they are paused.
func startCluster(t *testing.T, replicas int) *redistest.Cluster {
	t.Helper()
	return redistest.StartCluster(t, 2, replicas, "--cluster-node-timeout", "15000")
}

// on returns a new lock of a Cluster, for one subtest.
func on(t *testing.T, c *redistest.Cluster) *onCluster {
	t.Helper()
	masters := c.Masters(t)
	name := c.NameAt(t, masters[1], t.Name())
	return &onCluster{t, c, locktest.NewRoutes(masters...), masters[0], masters[1], name, c.SlotOf(t, name)}
}

// keys returns the keys of the lock that a server has.
func (c *onCluster) keys(s *redistest.Server) []any {
	c.Helper()
	return s.Do(c, "CLUSTER", "GETKEYSINSLOT", c.slot, 100).([]any)
}

// requireNothingLeft waits until no server has a key of the lock.
func (c *onCluster) requireNothingLeft() {
	c.Helper()
	testkit.Eventually(c, testkit.Patience,
		func() bool { return len(c.keys(c.first))+len(c.keys(c.second)) == 0 }, "nothing is left")
}

// misled runs f with a topology that does not know where the lock is. A request
// of f must be redirected.
func (c *onCluster) misled(r *locktest.Routes, what string, f func()) {
	c.Helper()
	moved := r.Moved()
	r.Mislead(c.name, c.first)
	f()
	testkit.Eventually(c, testkit.Patience, func() bool { return r.Moved() > moved }, what)
}

// locksOf returns a lock of each kind.
func locksOf(c *relock.Client, name string, opts ...relock.LockOption) map[string]locktest.AnyLock {
	return map[string]locktest.AnyLock{
		"plain":      relock.NewRedisLock(name, c, opts...),
		"fair":       relock.NewRedisLock(name, c, append(opts, relock.WithFair(), relock.WithFencing())...),
		"reentrant":  relock.NewReentrantLock(name, c, opts...),
		"read/write": relock.NewRWLock(name, c, opts...),
	}
}

// waits returns the result of a call that waits in the queue by now.
func (c *onCluster) waits(ctx context.Context, client *relock.Client, l locktest.AnyLock) <-chan error {
	c.Helper()
	result := testkit.Async(c, func() error { return l.Do(ctx, locktest.Nothing) })
	testkit.Eventually(c, testkit.Patience, func() bool {
		return client.Stats().Waiting == 1
	}, "is queued")
	return result
}

// queued returns how many entries the queue has.
func (c *onCluster) queued() int64 {
	return c.second.Do(c, "ZCARD", c.Key(c.name)+":q").(int64)
}

// releases reports whether a client has a release to send.
func releases(c *relock.Client) bool {
	return len(locktest.Engine(c).Retrier.Unconfirmed()) > 0
}

// requireIdle waits until no client has a release to send. On a busy machine a
// request may be sent twice: its release is repeated for a lease.
func (c *onCluster) requireIdle(clients ...*relock.Client) {
	c.Helper()
	for _, client := range clients {
		testkit.Eventually(c, lockspec.DefaultLease+testkit.Patience, func() bool { return !releases(client) },
			"no release is under way")
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := startCluster(t, 1)
	run := func(name string, test func(*onCluster)) {
		t.Run(name, func(t *testing.T) { test(on(t, cluster)) })
	}
	run("moved", requestsFollow)
	run("moves", slotMoves)
	run("half", halfMoved)
	run("queued", queuedBeforeTheMove)
	run("endless", endlessRedirects)
	run("one", oneServerOfACluster)
	run("hangs", redirectToAServerThatHangs)
	run("replicas", replicasOfTheNewNode)
}

// Each request that comes to a server without the key follows to the one that
// has it. Nobody notices.
func requestsFollow(c *onCluster) {
	routes, waiting, leaving := c.Routes, c.Sibling(), c.Sibling()
	holder, waiter, leaver := routes.Client(c), waiting.Client(c), leaving.Client(c)
	for kind, l := range locksOf(holder, c.name) {
		var h relock.Hold
		c.misled(routes, kind+": acquire", func() { h = locktest.Take(c, l.Acquire) })
		c.misled(routes, kind+": renew", func() { locktest.RequireRenewed(c, h) })
		c.misled(routes, kind+": extend", func() { require.NoError(c, h.Extend(c.Context(), time.Minute)) })

		var granted, left <-chan error
		ctx, leave := context.WithCancel(c.Context())
		c.misled(waiting, kind+": enqueue",
			func() { granted = c.waits(c.Context(), waiter, locksOf(waiter, c.name, relock.WithBlock())[kind]) })
		left = c.waits(ctx, leaver, locksOf(leaver, c.name, relock.WithBlock())[kind])
		c.misled(leaving, kind+": cancel", func() {
			leave()
			require.ErrorIs(c, testkit.ResultWithin(c, left, testkit.Patience), context.Canceled)
			testkit.Eventually(c, testkit.Patience, func() bool { return c.queued() == 1 }, "has left")
		})
		c.misled(waiting, kind+": claim", func() {
			c.misled(routes, kind+": release", func() { require.NoError(c, h.Unlock(c.Context())) })
			require.NoError(c, testkit.ResultWithin(c, granted, testkit.Patience))
		})
		c.requireIdle(holder, waiter, leaver)
		c.second.Do(c, "DEL", c.Key(c.name)+":f") // the counter of the fair lock
		c.requireNothingLeft()
	}
	require.Positive(c, routes.Invalidations(c.first), "it has answered with MOVED")
	require.Zero(c, routes.Invalidations(c.second))
	require.Zero(c, routes.Asked()+waiting.Asked()+leaving.Asked())
}

// A slot moves there and back while a hold is renewed, and calls wait. The hold
// is kept. After the move its job is with the worker of the new server, so no
// renewal is redirected any more.
func slotMoves(c *onCluster) {
	waiting := c.Sibling()
	holder, waiter := c.Client(c), waiting.Client(c)
	for kind, l := range locksOf(holder, c.name) {
		h := locktest.Take(c, l.Acquire)
		granted := c.waits(c.Context(), waiter, locksOf(waiter, c.name, relock.WithBlock())[kind])
		for _, to := range []*redistest.Server{c.first, c.second} {
			renewing(h, func() { c.MoveSlotSlowly(c, c.slot, to, time.Second/3) })
			require.NoError(c, h.Err(), kind)
			locktest.RequireRenewed(c, h)
			moved := c.Moved()
			for range 3 {
				locktest.RequireRenewed(c, h)
			}
			require.Equal(c, moved, c.Moved(), "the job has moved, too")
			require.Empty(c, granted)
		}
		require.NoError(c, h.Unlock(c.Context()), kind)
		require.NoError(c, testkit.ResultWithin(c, granted, testkit.Patience), kind)
		c.requireIdle(holder, waiter)
		c.second.Do(c, "DEL", c.Key(c.name)+":f")
		c.requireNothingLeft()
	}
	require.Positive(c, c.Moved())
	require.Positive(c, c.Asked(), "some renewals came while the slot was half moved")
}

// renewing makes the renewal of a hold due again and again while f runs.
func renewing(h relock.Hold, f func()) {
	done := make(chan struct{})
	var group sync.WaitGroup
	defer group.Wait()
	defer close(done)
	group.Go(func() {
		for {
			select {
			case <-time.After(100 * time.Millisecond):
				locktest.RenewNow(h)
			case <-done:
				return
			}
		}
	})
	f()
}

// While a slot is half moved, locks are taken, renewed and released where their
// keys are by now. An unfair call overtakes the queue, a fair one waits for the
// end of the move.
func halfMoved(c *onCluster) {
	waiting := c.Sibling()
	holder, waiter := c.Client(c), waiting.Client(c)
	poll := relock.WithPollInterval(50 * time.Millisecond)
	c.Mislead(c.name, c.second) // which is right
	waiting.Mislead(c.name, c.second)
	move := c.BeginMove(c, c.slot, c.first)
	for kind, newLock := range locktest.Kinds {
		h := locktest.Take(c, newLock(c.name, holder).Acquire)
		require.Len(c, c.keys(c.first), 1, kind)
		locktest.RequireRenewed(c, h)
		asked := waiting.Asked()
		granted := testkit.Async(c, func() error {
			return newLock(c.name, waiter, relock.WithBlock(), poll).Do(c.Context(), locktest.Nothing)
		})
		testkit.Eventually(c, testkit.Patience, func() bool { return waiting.Asked() > asked+4 }, "tries")
		require.NoError(c, h.Unlock(c.Context()), kind)
		require.NoError(c, testkit.ResultWithin(c, granted, testkit.Patience), kind)
		c.requireIdle(holder, waiter)
		c.requireNothingLeft()
	}
	require.Zero(c, c.Moved()+waiting.Moved())

	h := locktest.Take(c, relock.NewRedisLock(c.name, holder).Acquire)
	fair := relock.NewRedisLock(c.name, waiter, relock.WithFair(), relock.WithBlock(), poll)
	granted := testkit.Async(c, func() error { return fair.Do(c.Context(), locktest.Nothing) })
	asked := waiting.Asked()
	require.NoError(c, h.Unlock(c.Context()))
	watch := testkit.NewStopwatch(c)
	testkit.Eventually(c, testkit.Patience, func() bool { return waiting.Asked() > asked+20 }, "tries")
	watch.Within(5*time.Second, "the pauses do not grow")
	require.Empty(c, granted)
	move.Finish(c)
	require.NoError(c, testkit.ResultWithin(c, granted, testkit.Patience))
	c.MoveSlot(c, c.slot, c.second)
}

// A call that is in the queue when the move begins overtakes it, too: its poll
// finds out. Only the key of the lock has moved.
func queuedBeforeTheMove(c *onCluster) {
	waiting := c.Sibling()
	holder, waiter := c.Client(c), waiting.Client(c)
	for kind, newLock := range locktest.Kinds {
		h := locktest.Take(c, newLock(c.name, holder).Acquire)
		granted := c.waits(c.Context(), waiter, newLock(c.name, waiter, relock.WithBlock()))
		move := c.BeginMove(c, c.slot, c.first)
		move.MoveKeys(c, c.Key(c.name))
		require.NoError(c, h.Unlock(c.Context()), kind)
		require.NoError(c, testkit.ResultWithin(c, granted, testkit.Patience), kind)
		move.Finish(c)
		c.requireIdle(holder, waiter)
		c.requireNothingLeft()
		c.MoveSlot(c, c.slot, c.second)
	}
}

// Servers that disagree about a key for ever cost an error that may be retried,
// and nothing is released for it.
func endlessRedirects(c *onCluster) {
	client := c.Client(c)
	c.Lead(c.first)
	err := relock.NewRedisLock(c.name, client).TryLock(c.Context())
	require.ErrorContains(c, err, "servers disagree about which one has the key: MOVED ")
	require.True(c, relock.IsRetryableErr(err))
	require.Equal(c, relock.OutcomeUnavailable, relock.OutcomeOf(err))
	require.Equal(c, 5, c.Moved())
	require.False(c, releases(client), "nothing was executed")

	waiting := testkit.Async(c, func() error {
		return relock.NewRedisLock(c.name, client, relock.WithBlock()).Lock(c.Context())
	})
	testkit.Eventually(c, testkit.Patience, func() bool { return c.Moved() > 15 }, "tries again")
	require.Empty(c, waiting)
	c.Lead(nil)
	require.NoError(c, testkit.ResultWithin(c, waiting, testkit.Patience))
}

// A client of one server follows no redirect. It says what is missing, and does
// not try again.
func oneServerOfACluster(c *onCluster) {
	client := locktest.NewTestClient(c, c.first)
	for kind, l := range locksOf(client, c.name, relock.WithBlock()) {
		err := testkit.ResultWithin(c, testkit.Async(c, func() error { return l.Lock(c.Context()) }), testkit.Patience)
		require.ErrorIs(c, err, relock.ErrInvalid, kind)
		require.ErrorContains(c, err, "the server is part of a Cluster, use NewClientCluster: MOVED ", kind)
		require.False(c, relock.IsRetryableErr(err), kind)
		require.False(c, releases(client), "nothing was executed")
	}
}

// A batch ends in time, although a request follows to a server that hangs. The
// other requests have their answers.
func redirectToAServerThatHangs(c *onCluster) {
	const limit = time.Second
	client := c.Client(c)
	router := locktest.Engine(client).Driver.(*routes.Router)
	c.Mislead(c.name, c.first)
	n, err := router.Home(c.Context(), c.Key(c.name))
	require.NoError(c, err)
	link := n.Link()
	defer link.Close()
	here := c.Key(c.NameAt(c, c.first, "here"))
	c.second.Pause(c)
	defer c.second.Resume(c)
	watch := testkit.NewStopwatch(c)
	results := link.Pipeline(driver.BatchLimit{Own: time.Minute, Borrowed: limit}, []driver.Request{
		driver.SetNX(c.Key(c.name), "v", time.Second), driver.SetNX(here, "v", time.Second),
		driver.SetNX(c.Key(c.name), "v", time.Second),
	})
	watch.Within(limit + 300*time.Millisecond)
	require.NoError(c, results[1].Err)
	require.Equal(c, "OK", results[1].Reply)
	require.True(c, results[0].Unanswered(), results[0].Err)
	require.ErrorIs(c, results[2].Err, driver.ErrTimeout)
	require.Zero(c, results[2].Sent, "no time was left")
}

// A lock that waits for replicas counts those of the server that has it, not
// those of the server that has redirected the request.
func replicasOfTheNewNode(c *onCluster) {
	client := c.Client(c)
	of := func(master *redistest.Server) *redistest.Server { return c.Replicas(master)[0] }
	var h relock.Hold
	c.misled(c.Routes, "acquire", func() {
		h = locktest.Take(c, relock.NewRedisLock(c.name, client, relock.WithReplicas(1, 2*time.Second)).Acquire)
	})
	c.misled(c.Routes, "renew", func() { locktest.RequireRenewed(c, h) })
	of(c.first).Kill(c)
	c.misled(c.Routes, "renew", func() { locktest.RequireRenewed(c, h) })
	require.Zero(c, client.Stats().RenewalErrors)
	of(c.first).Boot(c)
	c.AwaitWhole(c)
	of(c.second).Kill(c)
	until := h.ValidUntil()
	c.misled(c.Routes, "renew", func() {
		locktest.RenewNow(h)
		testkit.Eventually(c, testkit.Patience, func() bool { return client.Stats().RenewalErrors > 0 }, "too few replicas")
	})
	require.Equal(c, until, h.ValidUntil())
	require.NoError(c, h.Unlock(c.Context()))
}
