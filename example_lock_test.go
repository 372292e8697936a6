package relock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
)

// Without WithBlock a lock is tried once.
func ExampleRedisLock_Lock() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	lock := relock.NewRedisLock("settlement", client)
	if err := lock.Lock(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Unlock(ctx)

	err := relock.NewRedisLock("settlement", client).Lock(ctx)
	fmt.Println(err)
	fmt.Println("try again later:", relock.IsRetryableErr(err))
	// Output:
	// relock: lock "settlement": lock is held by others (one attempt; see WithBlock)
	// try again later: true
}

// Waits until the lock is free, for at most the block timeout.
func ExampleRedisLock_Lock_blocking() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	first := relock.NewRedisLock("queue-head", client, relock.WithExpiry(100*time.Millisecond))
	if err := first.Lock(ctx); err != nil {
		fmt.Println(err)
		return
	}
	second := relock.NewRedisLock("queue-head", client, relock.WithBlockTimeout(5*time.Second), relock.WithPollInterval(20*time.Millisecond))
	if err := second.Lock(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("second has it")
	fmt.Println(second.Unlock(ctx))
	// Output:
	// second has it
	// <nil>
}

// Waiters get the lock in order of arrival, across all processes.
func ExampleWithFair() {
	client := newClient()
	defer client.Close()

	ctx := context.Background()

	phones := relock.NewRedisLock("last-phones", client, relock.WithFair(), relock.WithBlockTimeout(10*time.Second))
	if err := phones.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	var buyers sync.WaitGroup
	for n := range 3 {
		buyers.Go(func() {
			lock := relock.NewRedisLock("last-phones", client, relock.WithFair(), relock.WithBlockTimeout(10*time.Second))
			if err := lock.Do(ctx, func(context.Context) error { fmt.Println("buyer", n+1); return nil }); err != nil {
				log.Print(err)
			}
		})
		for waiting := 0; waiting <= n; { // until this buyer is queued
			info, err := client.Inspect(ctx, "last-phones")
			if err != nil {
				log.Fatal(err)
			}
			waiting = info.Waiting
		}
	}
	if err := phones.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	buyers.Wait()
	// Output:
	// buyer 1
	// buyer 2
	// buyer 3
}

func ExampleRedisLock_TryLock() {
	client := newClient(relock.WithBlock())
	defer client.Close()
	ctx := context.Background()

	lock := relock.NewRedisLock("cleanup", client)
	switch err := lock.TryLock(ctx); {
	case errors.Is(err, relock.ErrLockAcquiredByOthers):
		fmt.Println("somebody else does it")
	case err != nil:
		fmt.Println(err)
	default:
		defer lock.Unlock(ctx)
		fmt.Println("cleaning up")
	}
	// Output: cleaning up
}

func ExampleRedisLock_TryDo() {
	client := newClient()
	defer client.Close()

	lock := relock.NewRedisLock("hourly", client, relock.WithMinHold(200*time.Millisecond), relock.WithLabel("hourly job"))
	job := func(context.Context) error { fmt.Println("runs"); return nil }
	fmt.Println(lock.TryDo(context.Background(), job))
	err := lock.TryDo(context.Background(), job)
	fmt.Println("within the minimum hold:", errors.Is(err, relock.ErrLockAcquiredByOthers))
	// Output:
	// runs
	// <nil>
	// within the minimum hold: true
}

// The Hold says how long it is valid, and can be unlocked from any goroutine.
func ExampleRedisLock_Acquire() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	hold, err := relock.NewRedisLock("migration", client, relock.WithMaxHold(time.Minute)).Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("valid:", hold.Err() == nil && time.Until(hold.ValidUntil()) > 20*time.Second)
	fmt.Println(hold.Extend(ctx, time.Minute))
	fmt.Println(hold.Unlock(ctx))
	fmt.Println(context.Cause(hold.Context()))
	// Output:
	// valid: true
	// <nil>
	// <nil>
	// not held
}

func ExampleRedisLock_Validate() {
	client := newClient()
	defer client.Close()
	lock := relock.NewRedisLock("", client, relock.WithExpiry(time.Millisecond), relock.WithMaxLease(time.Minute))
	fmt.Println(lock.Validate())
	// Output:
	// relock: validate: invalid: key: is empty; WithExpiry: 1ms is below 10ms; WithMaxLease: this kind of lock cannot honour it
}

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
	for tick := time.Now(); len(counts) < 5; time.Sleep(time.Until(tick)) {
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
	// Output: [1 1 1 1 1]
}

// An API server locks an order and returns. A worker process goes on with the
// lock, and unlocks it.
func ExampleDetach() {
	ctx := context.Background()
	api, worker := newClient(), newClient()
	defer api.Close()
	defer worker.Close()

	hold, err := relock.NewRedisLock("order-17", api).Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	token, err := relock.Detach(ctx, hold, 10*time.Minute) // travels with the job, secret
	fmt.Println("detached:", err)

	resumed, err := worker.Resume(ctx, token)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("resumed", resumed.Key())
	fmt.Println("unlocked:", resumed.Unlock(ctx))
	_, err = worker.Resume(ctx, token)
	fmt.Println(err)
	// Output:
	// detached: <nil>
	// resumed order-17
	// unlocked: <nil>
	// relock: resume "order-17": lock lost (the token was used, or its time is over)
}

// ErrDetached tells a worker of the detaching process to stop.
func ExampleClient_Resume() {
	ctx := context.Background()
	client := newClient()
	defer client.Close()
	hold, err := relock.NewReentrantLock("report", client).Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	work := hold.Context()
	token, err := relock.Detach(ctx, hold, time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(errors.Is(context.Cause(work), relock.ErrDetached))
	err = errors.Join(err, resumeFor(ctx, client, token))
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

func resumeFor(ctx context.Context, client *relock.Client, token string) error {
	hold, err := client.Resume(ctx, token, relock.WithExpiry(time.Minute), relock.WithLabel("night run"))
	if err != nil {
		return err
	}
	return hold.Unlock(ctx)
}
