package proof

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// canceller is a lock with a holder, a waiter that is cancelled when the lock
// is handed off, and one behind it.
type canceller struct {
	*testing.T
	conn                  redis.Conn
	holder, leaver, stays *relock.RedisLock
	random                *rand.Rand
}

func newCanceller(t *testing.T, options ...relock.LockOption) *canceller {
	server := redistest.Start(t)
	c := &canceller{T: t, conn: server.Dial(t), random: newSeededRandom(t)}
	t.Cleanup(func() { _ = c.conn.Close() })
	options = append(options, relock.WithBlock())
	for _, lock := range []**relock.RedisLock{&c.holder, &c.leaver, &c.stays} {
		*lock = relock.NewRedisLock("k", newParentClient(t, server), options...)
	}
	return c
}

// queued waits until so many wait.
func (c *canceller) queued(n int64) {
	c.Helper()
	testkit.Eventually(c, patience, func() bool {
		waiting, err := redis.Int64(c.conn.Do("ZCARD", keyInRedis("k")+":q"))
		require.NoError(c, err)
		return waiting == n
	}, fmt.Sprint(n, " wait"))
}

// round returns how long after the unlock the remaining waiter got the lock,
// less what the machine may have added.
func (c *canceller) round() time.Duration {
	c.Helper()
	hold, err := c.holder.Acquire(c.Context())
	require.NoError(c, err)
	ctx, cancel := context.WithCancel(c.Context())
	var leaver sync.WaitGroup
	leaver.Go(func() {
		if hold, err := c.leaver.Acquire(ctx); err == nil { // it was too late to give up
			_ = hold.Unlock(ctx) // if that fails the one that stays waits
		}
	})
	c.queued(1)
	got := make(chan relock.Hold, 1)
	go func() {
		hold, err := c.stays.Acquire(c.Context())
		if err != nil {
			c.Errorf("the one that stays: %v", err)
		}
		got <- hold
	}()
	c.queued(2)
	moment := time.Duration(c.random.Int64N(int64(2*time.Millisecond))) - time.Millisecond
	time.AfterFunc(moment+time.Millisecond, cancel)
	time.Sleep(time.Millisecond)
	watch := testkit.NewStopwatch(c)
	require.NoError(c, hold.Unlock(c.Context()))
	stays := <-got
	took := watch.Net()
	require.NotNil(c, stays)
	require.NoError(c, stays.Unlock(c.Context()))
	leaver.Wait()
	cancel()
	return took
}

// A waiter that is cancelled within a millisecond of the unlock does not delay
// the next one, which gets the hand-off instead.
func TestGivingUpAtTheUnlock(t *testing.T) {
	for name, options := range map[string][]relock.LockOption{"unfair": nil, "fair": {relock.WithFair()}} {
		t.Run(name, func(t *testing.T) {
			c := newCanceller(t, options...)
			rounds := pick(2500, 100)
			var times []time.Duration
			for range rounds {
				times = append(times, c.round())
			}
			slices.Sort(times)
			late := rounds - slices.IndexFunc(append(times, time.Hour), func(d time.Duration) bool {
				return d > 500*time.Millisecond
			})
			t.Logf("%d rounds: the next one had the lock after %v in median, %v in 99 %%, %v at most",
				rounds, times[rounds/2], times[rounds*99/100], times[rounds-1])
			require.LessOrEqual(t, late, rounds/100, "as late as only a poll is")
			require.Less(t, times[rounds/2], 100*time.Millisecond)
			c.empty()
		})
	}
}

// empty waits until nothing is left of the lock and its queue.
func (c *canceller) empty() {
	c.Helper()
	locktest.EventuallyWithin(c, 2*time.Second, func() bool {
		keys, err := redis.Strings(c.conn.Do("KEYS", "*"))
		require.NoError(c, err)
		return len(keys) == 0
	}, "keys are left")
}
