package relock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/faults"
)

// Contexts that end right when a lock is granted leave neither a key nor a goroutine behind.
func TestContextsThatEndAtTheGrant(t *testing.T) {
	const goroutines = 3
	rounds := 800
	if allCells() {
		rounds = 3400
	}
	before := goleak.IgnoreCurrent()
	t.Run("rounds", func(t *testing.T) {
		s := newFaultServer(t)
		c := newCell(t, s, WithCommandTimeout(defaultCommandTimeout))
		slow := func() bool { return rand.IntN(10) == 0 }
		c.proxy.On(func([]string) bool { return slow() }, faults.Every, faults.Delay(time.Millisecond))
		c.proxy.On(func([]string) bool { return slow() }, faults.Every, faults.DelayRequest(time.Millisecond))
		var group sync.WaitGroup
		var mu sync.Mutex
		results := map[string]int{}
		for range goroutines {
			group.Go(func() {
				for range rounds {
					result := c.roundWithEndingContext(rand.IntN(4 * goroutines))
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
		c.waitFor(cleanWithin, func() bool {
			keys, err := redis.Strings(s.Do(t, "KEYS", "*"), nil)
			return err == nil && len(keys) == 0
		}, "keys are left")
	})
	goleak.VerifyNone(t, before)
}

// roundWithEndingContext takes a lock with a context that ends at a random moment, gives it back, and says what came of it.
func (c *cell) roundWithEndingContext(name int) string {
	lock := anyLock(NewRedisLock(fmt.Sprint("plain", name), c.client, WithBlock(), WithPollInterval(10*time.Millisecond)))
	if rand.IntN(2) == 0 {
		lock = NewReentrantLock(fmt.Sprint("reentrant", name), c.client)
	}
	delay := rand.N(3 * time.Millisecond)
	ctx, cancel := context.WithTimeout(c.Context(), delay)
	if rand.IntN(2) == 0 {
		ctx, cancel = context.WithCancel(c.Context())
		defer time.AfterFunc(delay, cancel).Stop()
	}
	defer cancel()
	take := lock.Acquire
	if rand.IntN(2) == 0 {
		take = lock.TryAcquire
	}
	hold, err := take(ctx)
	switch {
	case (hold == nil) == (err == nil):
		return fmt.Sprintf("hold %v, error %v", hold, err)
	case err == nil:
		if err := hold.Unlock(ctx); err != nil {
			return "unlock: " + err.Error()
		}
		return "granted"
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return "ended"
	case errors.Is(err, ErrLockAcquiredByOthers):
		return "held by others"
	}
	return "lock: " + err.Error()
}

// A deadline that comes while a connection is dialled is the end of the context, not a failure of the network.
func TestDeadlineWhileDialling(t *testing.T) {
	c := newCell(t, newFaultServer(t), WithMaxIdle(0)) // dials for each call
	for i := range 1000 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%500)*time.Microsecond)
		err := NewRedisLock(fmt.Sprint(i), c.client, WithExpiry(cellLease)).TryLock(ctx)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
	}
}
