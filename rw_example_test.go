package relock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/relock-go/relock"
)

// Many read at once; one who writes is alone.
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

// Who writes may go on reading, with nobody in between.
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

// RLocker gives the side that reads to code that knows a Mutex only.
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
