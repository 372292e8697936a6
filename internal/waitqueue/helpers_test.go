package waitqueue_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
	"github.com/relock-go/relock/internal/waitqueue"
)

type (
	bench   = locktest.QueueBench
	mode    = locktest.QueueMode
	waiting = locktest.Waiting
)

var (
	plain         = mode{Kind: "RedisLock"}
	plainFair     = mode{Kind: "RedisLock", Fair: true}
	reentrant     = mode{Kind: "ReentrantLock"}
	reentrantFair = mode{Kind: "ReentrantLock", Fair: true}

	allModes = []mode{plain, plainFair, reentrant, reentrantFair}
	fair     = []mode{plainFair, reentrantFair}
	unfair   = []mode{plain, reentrant}

	patient = relock.WithPollInterval(locktest.SlowPoll)
)

// eachCase runs a test for each case in each mode, all at the same time.
func eachCase[T any](t *testing.T, modes []mode, cases map[string]T, run func(t testing.TB, m mode, c T)) {
	t.Helper()
	t.Parallel()
	var cells []locktest.Subtest
	for name, c := range cases {
		for _, m := range modes {
			title := strings.TrimPrefix(name+", "+m.Title(), ", ")
			cells = append(cells, locktest.Subtest{Name: title, Run: func(t testing.TB) { run(t, m, c) }})
		}
	}
	locktest.RunTogether(t, cells)
}

func eachMode(t *testing.T, modes []mode, run func(t testing.TB, m mode)) {
	t.Helper()
	eachCase(t, modes, map[string]bool{"": true}, func(t testing.TB, m mode, _ bool) { run(t, m) })
}

// letters are the kind and the mode in the name of an entry.
func letters(m mode) string {
	return map[string]string{"RedisLock": "p", "ReentrantLock": "r"}[m.Kind] + map[bool]string{true: "f", false: "u"}[m.Fair]
}

// behindProxy returns another client of the lock, which is behind a proxy.
func behindProxy(q *bench, opts ...relock.ClientOption) (*relock.Client, *faults.Proxy) {
	q.Helper()
	locktest.WithScripts(q, q.Server)
	p := faults.Start(q, q.Server.Network, q.Server.Address)
	return locktest.Sibling(q, &redistest.Server{Network: p.Network, Address: p.Address}, q.Clients[0], opts...), p
}

// newBenchBehind returns an unfair plain lock with one client, which is behind
// a proxy.
func newBenchBehind(t testing.TB, opts ...relock.ClientOption) (*bench, *faults.Proxy) {
	q := locktest.NewQueueBench(t, plain, 1)
	c, p := behindProxy(q, opts...)
	q.Clients[0] = c
	return q, p
}

// requireMedian checks the median of what took as long.
func requireMedian(t testing.TB, took []time.Duration, limit time.Duration) {
	t.Helper()
	middle := locktest.Median(took)
	t.Logf("median %v, longest %v", middle, took[len(took)-1])
	require.Less(t, middle, limit)
}

// async runs f under the lock so many times, each when it is granted.
func async(q *bench, lock locktest.AnyLock, times int, f func()) <-chan error {
	return q.Async(context.Background(), func(ctx context.Context) (err error) {
		for n := 0; n < times && err == nil; n++ {
			err = lock.Do(ctx, func(context.Context) error {
				f()
				return nil
			})
		}
		return err
	})
}

func requireAll(t testing.TB, results []<-chan error) {
	t.Helper()
	for _, result := range results {
		require.NoError(t, testkit.ResultWithin(t, result, testkit.Patience))
	}
}

// handOff unlocks a hold that a local waiter may have without a request.
func handOff(q *bench, h relock.Hold, w *waiting) relock.Hold {
	q.Helper()
	locktest.NeverStale(h)
	q.Unlock(h)
	return w.Granted()
}

// handOffs hands the lock off from one client to another so many times. It
// returns how long each took from the unlock on.
func handOffs(q *bench, times int, holder, waiter *relock.Client, interval time.Duration, waits func()) (took []time.Duration) {
	q.Helper()
	for range times {
		h := q.Take(holder)
		w := q.WaitNext(q.Context(), 0, waiter, relock.WithPollInterval(interval))
		waits()
		next, d := q.HandOff(h, w)
		took = append(took, d)
		q.Unlock(next)
	}
	q.RequireNothingLeft()
	return took
}

// line returns what a client knows of the waiters for the lock.
func line(q *bench, c *relock.Client) waitqueue.LineState {
	return locktest.Engine(c).Queue.State().Lines[q.Key]
}

// channel is where a client gets its messages.
func channel(c *relock.Client) string { return locktest.Prefix(c) + locktest.Engine(c).Identity.ID }

func subscribed(c *relock.Client) bool { return locktest.Engine(c).Queue.State().Subscribed }
