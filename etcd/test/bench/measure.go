package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// countPairs locks and unlocks one lock per goroutine.
func countPairs(ctx context.Context, l locker, goroutines int, d time.Duration) (int, error) {
	if err := warm(ctx, l, goroutines); err != nil {
		return 0, err
	}
	var count atomic.Int64
	end := time.Now().Add(d)
	err := onEach(goroutines, func(n int) error {
		for time.Now().Before(end) {
			if err := once(ctx, l, fmt.Sprintf("key%d", n), 0, nil); err != nil {
				return err
			}
			count.Add(1)
		}
		return nil
	})
	return int(count.Load()), err
}

// onEach runs f on so many goroutines, and returns the first error.
func onEach(goroutines int, f func(n int) error) error {
	var group sync.WaitGroup
	failed := make(chan error, goroutines)
	for n := range goroutines {
		group.Go(func() { failed <- f(n) })
	}
	group.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// warm lets each goroutine lock once, so that what is made once is there.
func warm(ctx context.Context, l locker, goroutines int) error {
	return onEach(goroutines, func(n int) error { return once(ctx, l, fmt.Sprintf("key%d", n), time.Millisecond, nil) })
}

// clock has the time of the last call of Unlock.
type clock struct {
	mu       sync.Mutex
	unlocked time.Time
	gaps     []time.Duration
}

func once(ctx context.Context, l locker, key string, hold time.Duration, c *clock) error {
	unlock, err := l.lock(ctx, key)
	if err != nil {
		return err
	}
	if c != nil {
		c.mu.Lock()
		if !c.unlocked.IsZero() {
			c.gaps = append(c.gaps, time.Since(c.unlocked))
		}
		c.mu.Unlock()
	}
	if hold > 0 {
		time.Sleep(hold)
	}
	if c != nil {
		c.mu.Lock()
		c.unlocked = time.Now()
		c.mu.Unlock()
	}
	return unlock(ctx)
}

func handOff(ctx context.Context, all []locker, d time.Duration) ([]time.Duration, error) {
	for _, l := range all {
		if err := warm(ctx, l, 10); err != nil {
			return nil, err
		}
	}
	c := &clock{}
	end := time.Now().Add(d)
	err := onEach(10*len(all), func(n int) error {
		for time.Now().Before(end) {
			if err := once(ctx, all[n%len(all)], "shared", 5*time.Millisecond, c); err != nil {
				return err
			}
		}
		return nil
	})
	return c.gaps, err
}
