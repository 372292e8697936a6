package driver_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
)

// Contexts that end right when a lock is granted leave neither a key nor a goroutine behind.
func TestContextsThatEndAtTheGrant(t *testing.T) {
	const goroutines = 3
	rounds := 800
	if locktest.AllCells() {
		rounds = 3400
	}
	before := goleak.IgnoreCurrent()
	t.Run("rounds", func(t *testing.T) {
		s := locktest.NewFaultServer(t)
		c := locktest.NewCell(t, s, relock.WithCommandTimeout(locktest.DefaultCommandTimeout))
		slow := func() bool { return rand.IntN(10) == 0 }
		c.Proxy.On(func([]string) bool { return slow() }, faults.Every, faults.Delay(time.Millisecond))
		c.Proxy.On(func([]string) bool { return slow() }, faults.Every, faults.DelayRequest(time.Millisecond))
		var group sync.WaitGroup
		var mu sync.Mutex
		results := map[string]int{}
		for range goroutines {
			group.Go(func() {
				for range rounds {
					result := c.RoundWithEndingContext(rand.IntN(4 * goroutines))
					mu.Lock()
					results[result]++
					mu.Unlock()
				}
			})
		}
		group.Wait()
		t.Logf("%v", results)
		for _, result := range []string{"granted", "ended", "held by others"} {
			require.NotZero(t, results[result], result)
			delete(results, result)
		}
		require.Empty(t, results)
		c.WaitFor(locktest.CleanWithin, func() bool {
			keys, err := redis.Strings(s.Do(t, "KEYS", "*"), nil)
			return err == nil && len(keys) == 0
		}, "keys are left")
	})
	goleak.VerifyNone(t, before)
}

// A deadline that comes while a connection is dialled is the end of the context, not a failure of the network.
func TestDeadlineWhileDialling(t *testing.T) {
	c := locktest.NewCell(t, locktest.NewFaultServer(t), relock.WithMaxIdle(0)) // dials for each call
	for i := range 1000 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%500)*time.Microsecond)
		err := relock.NewRedisLock(fmt.Sprint(i), c.Client, relock.WithExpiry(locktest.CellLease)).TryLock(ctx)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
	}
}
