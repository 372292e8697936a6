package relock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
)

// An API server locks an order and returns. A worker process goes on with the
// lock, and unlocks it.
func ExampleClient_Detach() {
	ctx := context.Background()
	api, worker := newClient(), newClient()
	defer api.Close()
	defer worker.Close()

	hold, err := relock.NewRedisLock("order-17", api).Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	token, err := api.Detach(ctx, hold, 10*time.Minute) // travels with the job, secret
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
	token, err := client.Detach(ctx, hold, time.Minute)
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
