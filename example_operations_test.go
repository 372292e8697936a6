package relock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/relock-go/relock"
)

// Who has a lock, and who waits for it.
func ExampleClient_Inspect() {
	client := newClient()
	defer client.Close()
	ctx := relock.ContextWithOwner(context.Background(), "billing")

	lock := relock.NewReentrantLock("invoice:7", client, relock.WithLabel("month end"))
	err := lock.Do(ctx, func(ctx context.Context) error {
		info, err := client.Inspect(ctx, "invoice:7")
		if err != nil {
			return err
		}
		fmt.Println(info.State, info.Kind, info.Holder.Owner, info.Holder.Count, info.Holder.Label)
		fmt.Println("goes without a renewal:", info.Remaining > 20*time.Second, "waiting:", info.Waiting)
		return nil
	})
	info, _ := client.Inspect(ctx, "invoice:7")
	fmt.Println(info.State == relock.StateFree, err)
	// Output:
	// held reentrant billing 1 month end
	// goes without a renewal: true waiting: 0
	// true <nil>
}

// The locks that are held at the moment.
func ExampleClient_List() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	locks := relock.NewMultiLock([]string{"shelf:a", "shelf:b"}, client)
	err := locks.Do(ctx, func(ctx context.Context) error {
		var held []string
		for info, err := range client.List(ctx, "shelf:*") {
			if err != nil {
				return err
			}
			held = append(held, info.Key)
		}
		slices.Sort(held)
		fmt.Println(held)
		return nil
	})
	fmt.Println(err)
	// Output:
	// [shelf:a shelf:b]
	// <nil>
}

// A person ends the hold of a process that hangs. The holder is told why.
func ExampleClient_ForceUnlock() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	hold, err := relock.NewRedisLock("stuck", client).Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.ForceUnlock(ctx, "stuck", "the batch hangs"))
	err = hold.Unlock(ctx) // ErrForced as well, with the reason, where the server tells it in time
	fmt.Println("lost:", errors.Is(err, relock.ErrLockLost))
	fmt.Println(client.ForceUnlock(ctx, "stuck", "once more"))
	// Output:
	// <nil>
	// lost: true
	// relock: force unlock "stuck": not held
}

// What was held when the client is closed is free for others, instead of staying until its lease ends.
func ExampleWithReleaseOnClose() {
	client := newClient(relock.WithReleaseOnClose())
	ctx := context.Background()
	if err := relock.NewRedisLock("deployment", client).Lock(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.Close())

	next := newClient()
	defer next.Close()
	lock := relock.NewRedisLock("deployment", next)
	fmt.Println(lock.TryLock(ctx), lock.Unlock(ctx))
	// Output:
	// <nil>
	// <nil> <nil>
}

// Each holder has a higher token than all before it. Whoever keeps the data refuses writes with a lower one, see package
// fence.
func ExampleWithFencing() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	var tokens []int64
	lock := relock.NewRedisLock("ledger-writer", client, relock.WithFencing())
	for range 2 {
		hold, err := lock.Acquire(ctx)
		if err != nil {
			log.Fatal(err)
		}
		tokens = append(tokens, hold.Fence())
		fmt.Println(hold.Unlock(ctx))
	}
	fmt.Println("rises:", tokens[0] < tokens[1])
	// Output:
	// <nil>
	// <nil>
	// rises: true
}

// One may wait; the next is told at once that it is one too many.
func ExampleWithQueueLimit() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	lock := func() *relock.RedisLock {
		return relock.NewRedisLock("ticket-office", client, relock.WithBlock(), relock.WithQueueLimit(1))
	}
	holder := lock()
	if err := holder.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	first := make(chan error)
	go func() { first <- lock().Do(ctx, func(context.Context) error { return nil }) }()
	for waiting := 0; waiting == 0; {
		info, err := client.Inspect(ctx, "ticket-office")
		if err != nil {
			log.Fatal(err)
		}
		waiting = info.Waiting
	}
	err := lock().Lock(ctx)
	fmt.Println(errors.Is(err, relock.ErrQueueFull), relock.IsRetryableErr(err))
	fmt.Println(holder.Unlock(ctx), <-first)
	// Output:
	// true true
	// <nil> <nil>
}

// This server has no replica, so nobody could take over with the lock.
func ExampleWithReplicas() {
	client := newClient()
	defer client.Close()

	lock := relock.NewRedisLock("payout", client, relock.WithExpiry(3*time.Second), relock.WithReplicas(1, 20*time.Millisecond))
	err := lock.TryLock(context.Background())
	fmt.Println(errors.Is(err, relock.ErrReplicas), relock.IsRetryableErr(err))
	// Output: true true
}

// A function that forgets to end loses the lock.
func ExampleWithMaxHold() {
	client := newClient()
	defer client.Close()

	lock := relock.NewRedisLock("report-writer", client, relock.WithMaxHold(500*time.Millisecond))
	err := lock.Do(context.Background(), func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	fmt.Println(errors.Is(err, relock.ErrMaxHold), errors.Is(err, relock.ErrLockLost))
	// Output: true true
}

// A key that another program uses is left alone.
func ExampleErrKeyConflict() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	if _, err := client.SetNEX(ctx, "relock:{settings}", "not a lock", time.Minute); err != nil {
		log.Fatal(err)
	}
	err := relock.NewRedisLock("settings", client, relock.WithBlock()).Lock(ctx)
	fmt.Println(errors.Is(err, relock.ErrKeyConflict), relock.IsRetryableErr(err))
	// Output: true false
}

func ExampleReentrantLock_HoldCount() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	lock := relock.NewReentrantLock("folder", client)
	fmt.Println(lock.HoldCount(ctx))
	err := lock.Do(ctx, func(ctx context.Context) error {
		return lock.Do(ctx, func(ctx context.Context) error {
			fmt.Println(lock.HoldCount(ctx))
			return nil
		})
	})
	fmt.Println(lock.HoldCount(ctx), err)
	// Output:
	// 0
	// 2
	// 0 <nil>
}
