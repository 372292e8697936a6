package relock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/relock-go/relock"
)

// Counts who gets a lock and who does not, and measures how long locks are held.
func ExampleWithObserver() {
	var got, refused, lost int
	var held time.Duration
	counts := relock.Observer{
		LockDone: func(_ context.Context, e relock.LockDone) {
			switch {
			case e.Err == nil:
				got++
			case errors.Is(e.Err, relock.ErrLockAcquiredByOthers):
				refused++
			}
		},
		HoldDone: func(_ context.Context, e relock.HoldDone) {
			held += e.End.Sub(e.Start)
			if errors.Is(e.Err, relock.ErrLockLost) {
				lost++
			}
		},
	}
	client, err := relock.NewClient(os.Getenv("EXAMPLE_NETWORK"), os.Getenv("EXAMPLE_ADDRESS"), "", relock.WithObserver(counts))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock := relock.NewRedisLock("counted", client)
	err = lock.Do(context.Background(), func(ctx context.Context) error {
		return lock.TryLock(ctx) // it is not reentrant
	})
	fmt.Println(err)
	fmt.Printf("%d got it, %d did not, %d lost it, held: %v\n", got, refused, lost, held > 0)
	// Output:
	// relock: lock "counted": lock is held by others (one attempt; see WithBlock)
	// 1 got it, 1 did not, 0 lost it, held: true
}

// Tells two observers, each of what it has a hook for.
func ExampleObserver_And() {
	slow := relock.Observer{HoldDone: func(_ context.Context, e relock.HoldDone) {
		if e.End.Sub(e.Start) > time.Minute {
			fmt.Println("held for long:", e.Key)
		}
	}}
	all := relock.Observer{LockStart: func(_ context.Context, e relock.LockStart) { fmt.Println(e.Kind, "lock", e.Key) }}
	client, err := relock.NewClient(os.Getenv("EXAMPLE_NETWORK"), os.Getenv("EXAMPLE_ADDRESS"), "", relock.WithObserver(slow.And(all)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	err = relock.NewReentrantLock("report", client).Do(context.Background(), func(context.Context) error { return nil })
	fmt.Println(err)
	// Output:
	// reentrant lock report
	// <nil>
}
