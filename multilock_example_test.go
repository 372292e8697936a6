package relock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
)

// A transfer locks both accounts, or none. The order of the names does not matter.
func ExampleNewMultiLock() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	transfer := relock.NewMultiLock([]string{"account:7", "account:3"}, client, relock.WithBlockTimeout(5*time.Second))
	err := transfer.Do(ctx, func(context.Context) error {
		fmt.Println("both are mine")
		err := relock.NewMultiLock([]string{"account:3", "account:9"}, client).TryLock(ctx)
		fmt.Println(err)
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// both are mine
	// relock: lock "account:3,account:9": lock is held by others: key "account:3" (one attempt; see WithBlock)
	// error: <nil>
}

// The hold of a MultiLock is that of all its keys: it is over when one of them is.
func ExampleMultiLock_Acquire() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	lock := relock.NewMultiLock([]string{"b", "a"}, client, relock.WithWatchdog(10*time.Second))
	hold, err := lock.Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = lock.TryAcquire(ctx)
	fmt.Println(hold.Key(), hold.Err(), errors.Is(err, relock.ErrLockAcquiredByOthers))
	fmt.Println(hold.Extend(ctx, time.Minute), time.Until(hold.ValidUntil()) > 50*time.Second)
	fmt.Println(hold.Unlock(ctx), errors.Is(hold.Err(), relock.ErrNotHeld))
	// Output:
	// a,b <nil> true
	// <nil> true
	// <nil> true
}

func ExampleMultiLock() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	lock := relock.NewMultiLock([]string{"x", "y"}, client)
	fmt.Println(lock.Validate())
	fmt.Println(lock.Lock(ctx), lock.Unlock(ctx))
	fmt.Println(lock.TryLock(ctx), lock.Unlock(ctx))
	fmt.Println(lock.TryDo(ctx, func(ctx context.Context) error {
		_, ok := relock.HoldFromContext(ctx, "y")
		fmt.Println("carried:", ok)
		return nil
	}))
	// Output:
	// <nil>
	// <nil> <nil>
	// <nil> <nil>
	// carried: true
	// <nil>
}
