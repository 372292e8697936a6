package relock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
)

// At most two call the service together, whichever processes they are in.
func ExampleSemaphore() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	service := relock.NewSemaphore("service", 2, client)
	err := service.Do(ctx, func(ctx context.Context) error {
		second, err := service.Acquire(ctx)
		fmt.Println("a second call:", err)
		_, err = service.TryAcquire(ctx)
		fmt.Println("a third one is refused:", errors.Is(err, relock.ErrLockAcquiredByOthers))
		return second.Unlock(ctx)
	})
	fmt.Println("error:", err)
	// Output:
	// a second call: <nil>
	// a third one is refused: true
	// error: <nil>
}

// Two calls together, and no more than two in any tenth of a second.
func ExampleSemaphore_rate() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	start := time.Now()
	service := relock.NewSemaphore("service per second", 2, client,
		relock.WithBlock(), relock.WithFair(), relock.WithMinHold(100*time.Millisecond))
	for range 5 {
		if err := service.Do(ctx, func(context.Context) error { return nil }); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("at least 200ms:", time.Since(start) >= 200*time.Millisecond)
	// Output: at least 200ms: true
}
