package relock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock"
)

// One word for each call, as the label of a metric.
func ExampleOutcomeOf() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()
	hold, err := relock.NewRedisLock("label", client).Acquire(ctx)
	fmt.Println(relock.OutcomeOf(err))

	fmt.Println(relock.OutcomeOf(relock.NewRedisLock("label", client).Lock(ctx)) == relock.OutcomeBusy)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	fmt.Println(relock.OutcomeOf(relock.NewRedisLock("label", client, relock.WithBlock()).Lock(ctx)))
	fmt.Println(relock.OutcomeOf(relock.NewRedisLock("", client).Lock(ctx)))
	fmt.Println(relock.OutcomeOf(hold.Unlock(ctx)))
	// Output:
	// ok
	// true
	// timeout
	// invalid
	// ok
}
