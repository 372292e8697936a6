package relock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
)

// A job that runs once per period. Each replica calls TryDo at its tick, and
// the lock is kept for nine tenths of the period.
func ExampleWithMinHold() {
	const period = 200 * time.Millisecond
	ctx := context.Background()
	var replicas []*relock.RedisLock
	for range 3 {
		client := newClient()
		defer client.Close()
		replicas = append(replicas, relock.NewRedisLock("report", client, relock.WithMinHold(period*9/10)))
	}
	var runs atomic.Int32
	job := func(ctx context.Context) error { runs.Add(1); return ctx.Err() }

	var counts []int32 // how often the job ran in each period
	for tick := time.Now(); len(counts) < 10; time.Sleep(time.Until(tick)) {
		start := time.Now()
		tried := make(chan error)
		for i, lock := range replicas {
			go func() {
				time.Sleep(time.Duration(i) * time.Millisecond) // their clocks differ
				tried <- lock.TryDo(ctx, job)
			}()
		}
		for range replicas {
			if err := <-tried; err != nil && !errors.Is(err, relock.ErrLockAcquiredByOthers) {
				fmt.Println(err)
			}
		}
		end, ran := time.Now(), runs.Swap(0)
		if end.Sub(start) < period/2 { // else this machine was too busy to try in time
			counts = append(counts, ran)
		}
		tick = tick.Add(period)
		if latest := end.Add(period * 19 / 20); tick.Before(latest) {
			tick = latest // it is so far behind that the lock would still be kept
		}
	}
	fmt.Println(counts)
	// Output: [1 1 1 1 1 1 1 1 1 1]
}
