package relock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

// A worker that runs in one process at a time. It stops when it leads no more.
func ExampleNewLeader() {
	client := newClient()
	defer client.Close()
	ctx, stop := context.WithCancel(context.Background())

	leader := relock.NewLeader(newLocker(client), "worker")
	err := leader.Run(ctx, func(ctx context.Context) error {
		fmt.Println("leads:", leader.IsLeader(ctx) == nil)
		stop() // as a signal of the system does
		<-ctx.Done()
		return context.Cause(ctx)
	})
	fmt.Println("error:", err)
	// Output:
	// leads: true
	// error: <nil>
}

// After a loss, the Leader campaigns again.
func ExampleLeader_Run() {
	locker := relocktest.NewLocker()
	ctx, stop := context.WithCancel(context.Background())
	leads, terms := make(chan int), 0
	done := make(chan error)
	go func() {
		done <- relock.NewLeader(locker, "scheduler").Run(ctx, func(ctx context.Context) error {
			terms++
			leads <- terms
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}()
	fmt.Println("term", <-leads)
	locker.Lose("scheduler")
	fmt.Println("term", <-leads) // after a pause of a second
	stop()
	fmt.Println("error:", <-done)
	// Output:
	// term 1
	// term 2
	// error: <nil>
}

// A health check, or an elector of gocron, asks without a request.
func ExampleLeader_IsLeader() {
	ctx := context.Background()
	leader := relock.NewLeader(relocktest.NewLocker(), "scheduler")
	var _ interface{ IsLeader(context.Context) error } = leader // as gocron.WithDistributedElector takes it
	fmt.Println(leader.IsLeader(ctx))
	err := leader.Run(ctx, func(ctx context.Context) error {
		fmt.Println(leader.IsLeader(ctx))
		return nil
	})
	fmt.Println(err, errors.Is(leader.IsLeader(ctx), relock.ErrNotHeld))
	// Output:
	// relock: hold "scheduler": not held
	// <nil>
	// <nil> true
}
