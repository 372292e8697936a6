package relock_test

import (
	"context"
	"fmt"
	"os"
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

// Counts calls by outcome, and measures how long they and the renewals took.
func ExampleOutcomeOf_observer() {
	calls, took := map[string]int{}, map[string]time.Duration{}
	observer := relock.Observer{
		LockDone: func(_ context.Context, e relock.LockDone) {
			calls[e.Kind+" "+string(relock.OutcomeOf(e.Err))]++
			took["wait"] += e.End.Sub(e.Start)
		},
		RenewDone: func(_ context.Context, e relock.RenewDone) {
			calls[e.Kind+" renewal "+string(relock.OutcomeOf(e.Err))]++
			took["renewal"] += e.End.Sub(e.Start)
		},
	}
	client, err := relock.NewClient(os.Getenv("EXAMPLE_NETWORK"), os.Getenv("EXAMPLE_ADDRESS"), "", relock.WithObserver(observer))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	lock := relock.NewRedisLock("measured", client)
	err = relock.NewRedisLock("measured", client).Do(context.Background(), func(ctx context.Context) error {
		_ = lock.TryLock(ctx)
		hold, _ := relock.HoldFromContext(ctx, "measured")
		return hold.Extend(ctx, time.Minute)
	})
	fmt.Println(calls, took["wait"] > 0, took["renewal"] > 0, err)
	// Output:
	// map[plain busy:1 plain ok:1 plain renewal ok:1] true true <nil>
}

// Figures for a health check, or for gauges that are read now and then.
func ExampleClient_Stats() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()
	hold, err := relock.NewRedisLock("gauge", client).Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	stats := client.Stats()
	fmt.Println("held:", stats.Held, "waiting:", stats.Waiting, "connected:", stats.Connections > 0)
	fmt.Println("old:", stats.OldestHold > time.Hour)
	fmt.Println(hold.Extend(ctx, time.Minute), hold.Unlock(ctx))
	stats = client.Stats()
	fmt.Println("held:", stats.Held, "renewals:", stats.Renewals, "errors:", stats.RenewalErrors, "lost:", stats.Losses)
	// Output:
	// held: 1 waiting: 0 connected: true
	// old: false
	// <nil> <nil>
	// held: 0 renewals: 1 errors: 0 lost: 0
}

// A request to another system gets no more time than the lock has.
func ExampleHold_remaining() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()
	hold, err := relock.NewRedisLock("upload", client, relock.WithExpiry(10*time.Second)).Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	request, cancel := context.WithTimeout(ctx, hold.Remaining())
	defer cancel()
	deadline, _ := request.Deadline()
	fmt.Println(time.Until(deadline) <= 10*time.Second, request.Err())
	fmt.Println(hold.Unlock(ctx), hold.Remaining())
	// Output:
	// true <nil>
	// <nil> 0s
}
