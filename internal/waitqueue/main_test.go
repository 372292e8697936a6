package waitqueue_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
	"github.com/relock-go/relock/internal/waitqueue"
)

func TestMain(m *testing.M) { os.Exit(locktest.Run(m)) }

type (
	bench   = locktest.QueueBench
	mode    = locktest.QueueMode
	waiting = locktest.Waiting
)

var patient = relock.WithPollInterval(locktest.SlowPoll)

// seldom makes a waiter poll so rarely that what it notices within
// testkit.Patience is no poll's.
const seldom = time.Minute

func polledSeldom() []relock.LockOption {
	return []relock.LockOption{relock.WithPollInterval(seldom), relock.WithWatchdog(4 * seldom)}
}

// letters are the kind and the mode in the name of an entry.
func letters(m mode) string {
	return map[string]string{"RedisLock": "p", "ReentrantLock": "r"}[m.Kind] +
		map[bool]string{true: "f", false: "u"}[m.Fair]
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

// visits counts what runs under a lock. Two that run together count for more.
type visits struct{ all, inside int } // guarded by the lock

func (v *visits) add() {
	v.inside++
	v.all += v.inside
	v.inside--
}

// handOff hands the lock off to a client that waits for it. It returns how long
// that took from the unlock on, less what the machine may have added.
func handOff(q *bench, h relock.Hold, waiter *relock.Client, interval time.Duration, waits func()) time.Duration {
	q.Helper()
	w := q.WaitNext(q.Context(), 0, waiter, relock.WithPollInterval(interval))
	waits()
	watch := testkit.NewStopwatch(q)
	next, _ := q.HandOff(h, w)
	took := watch.Net()
	q.Unlock(next)
	return took
}

// handOffs hands the lock off from one client to another so many times.
func handOffs(
	q *bench, times int, holder, waiter *relock.Client, interval time.Duration, waits func(),
) (took []time.Duration) {
	q.Helper()
	for range times {
		took = append(took, handOff(q, q.TakeReleased(holder), waiter, interval, waits))
	}
	q.RequireNothingLeft()
	return took
}

// handOffToSecond hands a lock whose lease is fixed off from the first client
// to the second one.
func handOffToSecond(q *bench, interval time.Duration, waits func()) time.Duration {
	q.Helper()
	return handOff(q, q.TakeReleased(q.Clients[0], relock.WithExpiry(time.Minute)), q.Clients[1], interval, waits)
}

// line returns what a client knows of the waiters for the lock.
func line(q *bench, c *relock.Client) waitqueue.LineState {
	return locktest.Engine(c).Queue.State().Lines[q.Key]
}

// isResting reports whether the first local waiter has an entry in Redis and no
// request under way.
func isResting(q *bench) bool { return line(q, q.Clients[0]).Resting }

// channel is where a client gets its messages.
func channel(c *relock.Client) string { return locktest.Prefix(c) + locktest.Engine(c).Identity.ID }

// listeners returns how many connections get a client's messages.
func listeners(q *bench, c *relock.Client) int64 {
	return q.Server.Do(q, "PUBSUB", "NUMSUB", channel(c)).([]any)[1].(int64)
}
