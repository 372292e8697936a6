package relock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
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

// Whoever asks first is served first, over all processes.
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
		for waiting := 0; waiting <= n; { // until this buyer stands in the queue
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
