package relock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
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

// Right before a write is the moment to ask.
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

// One interface for the locks of Redis and of etcd: this function does not know which it uses.
func ExampleNewLocker() {
	nightly := func(ctx context.Context, locks relock.Locker) error {
		return relock.Do(ctx, locks, "nightly-report", func(context.Context) error {
			fmt.Println("only one process is here")
			return nil
		})
	}

	client := newClient()
	defer client.Close()
	locks, err := relock.NewLocker(client, relock.WithFair())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("error:", nightly(context.Background(), locks))
	// Output:
	// only one process is here
	// error: <nil>
}

// Without waiting.
func ExampleLocker() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	locks, err := relock.NewLocker(client)
	if err != nil {
		log.Fatal(err)
	}
	hold, err := locks.TryLock(ctx, "report:7")
	fmt.Println("first:", err)
	_, err = locks.TryLock(ctx, "report:7")
	fmt.Println("second:", errors.Is(err, relock.ErrLockAcquiredByOthers))
	fmt.Println("unlock:", hold.Unlock(ctx))
	// Output:
	// first: <nil>
	// second: true
	// unlock: <nil>
}

func ExampleDo() {
	client := newClient()
	defer client.Close()

	locks, err := relock.NewLocker(client)
	if err != nil {
		log.Fatal(err)
	}
	err = relock.Do(context.Background(), locks, "account:7", func(ctx context.Context) error {
		hold, _ := relock.HoldFromContext(ctx, "account:7")
		fmt.Println("still ours:", hold.Err() == nil)
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// still ours: true
	// error: <nil>
}
