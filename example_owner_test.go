package relock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
)

func ExampleReentrantLock_Lock() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	lock := relock.NewReentrantLock("tree", client, relock.WithWatchdog(10*time.Second))
	fmt.Println(lock.Lock(ctx), lock.Lock(ctx)) // the same goroutine

	other := make(chan error)
	go func() { other <- lock.TryLock(ctx) }()
	fmt.Println(<-other)

	fmt.Println(lock.Unlock(ctx), lock.Unlock(ctx))
	fmt.Println(lock.Unlock(ctx))
	// Output:
	// <nil> <nil>
	// relock: lock "tree": lock is held by others (one attempt; see WithBlock)
	// <nil> <nil>
	// relock: unlock "tree": not held
}

// Goroutines that share an owner share the hold.
func ExampleContextWithOwner() {
	client := newClient()
	defer client.Close()
	ctx := relock.ContextWithOwner(context.Background(), "request 17")

	lock := relock.NewReentrantLock("basket", client)
	fmt.Println(lock.Lock(ctx))
	done := make(chan error)
	go func() { done <- lock.Unlock(ctx) }()
	fmt.Println(<-done)
	// Output:
	// <nil>
	// <nil>
}

// Check the hold right before a write.
func ExampleHoldFromContext() {
	client := newClient()
	defer client.Close()

	write := func(ctx context.Context) error {
		hold, ok := relock.HoldFromContext(ctx, "ledger")
		if !ok {
			return errors.New("call me under the lock")
		}
		if err := hold.Err(); err != nil {
			return err
		}
		fmt.Println("written")
		return nil
	}
	fmt.Println(relock.NewRedisLock("ledger", client).Do(context.Background(), write))
	// Output:
	// written
	// <nil>
}

func ExampleIsRetryableErr() {
	fmt.Println(relock.IsRetryableErr(relock.ErrLockAcquiredByOthers))
	fmt.Println(relock.IsRetryableErr(relock.ErrDenied))
	fmt.Println(relock.IsRetryableErr(context.DeadlineExceeded))
	// Output:
	// true
	// false
	// false
}

func ExampleError() {
	client := newClient()
	defer client.Close()
	err := relock.NewRedisLock("orders", client).Unlock(context.Background())
	var e *relock.Error
	if errors.As(err, &e) {
		fmt.Printf("%s / %s / %v\n", e.Op, e.Key, e.Err)
	}
	// Output: unlock / orders / not held
}

// There are many readers at the same time, or one writer.
func ExampleRWLock() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()
	ann, bob := relock.ContextWithOwner(ctx, "ann"), relock.ContextWithOwner(ctx, "bob")

	prices := relock.NewRWLock("prices", client)
	fmt.Println("ann reads:", prices.RLock(ann))
	fmt.Println("bob reads:", prices.RLock(bob))
	err := prices.TryLock(bob)
	fmt.Println("bob cannot write while ann reads:", errors.Is(err, relock.ErrUpgrade))
	fmt.Println(prices.RUnlock(ann), prices.RUnlock(bob))

	err = prices.Do(ann, func(context.Context) error {
		err := prices.TryRLock(bob)
		fmt.Println("bob cannot read while ann writes:", errors.Is(err, relock.ErrLockAcquiredByOthers))
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// ann reads: <nil>
	// bob reads: <nil>
	// bob cannot write while ann reads: true
	// <nil> <nil>
	// bob cannot read while ann writes: true
	// error: <nil>
}

// A writer can become a reader, with no other writer in between.
func ExampleRWLock_downgrade() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()
	ann, bob := relock.ContextWithOwner(ctx, "ann"), relock.ContextWithOwner(ctx, "bob")

	cache := relock.NewRWLock("cache", client)
	write, err := cache.Acquire(ann)
	fmt.Println("writes:", err)
	read, err := cache.RAcquire(ann)
	fmt.Println("and reads:", err)
	fmt.Println("reads only:", write.Unlock(ctx))
	fmt.Println("bob may read too:", cache.TryRLock(bob), cache.RUnlock(bob))
	fmt.Println(read.Unlock(ctx))
	// Output:
	// writes: <nil>
	// and reads: <nil>
	// reads only: <nil>
	// bob may read too: <nil> <nil>
	// <nil>
}

// RLocker is the read lock for code that only knows a Mutex.
func ExampleRWLock_RLocker() {
	client := newClient()
	defer client.Close()

	report := func(l relock.Mutex) error {
		return l.Do(context.Background(), func(context.Context) error {
			fmt.Println("reads")
			return nil
		})
	}
	fmt.Println("error:", report(relock.NewRWLock("orders", client, relock.WithBlock()).RLocker()))
	// Output:
	// reads
	// error: <nil>
}
