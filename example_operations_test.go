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

// The holder of a lock, and its waiters.
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

// An operator ends the hold of a process that hangs. The holder learns why.
func ExampleClient_ForceUnlock() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	hold, err := relock.NewRedisLock("stuck", client).Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.ForceUnlock(ctx, "stuck", "the batch hangs"))
	err = hold.Unlock(ctx) // ErrForced as well, with the reason, if the server replies in time
	fmt.Println("lost:", errors.Is(err, relock.ErrLockLost))
	fmt.Println(client.ForceUnlock(ctx, "stuck", "once more"))
	// Output:
	// <nil>
	// lost: true
	// relock: force unlock "stuck": not held
}

// The machine of the holder is gone, and the lease is long. The operator does
// not wait until it ends.
func ExampleWithoutAck() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	dead, err := relock.NewRedisLock("backup", client, relock.WithExpiry(time.Hour)).Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.ForceUnlock(ctx, "backup", "web-7 has burned down", relock.WithoutAck()))
	fmt.Println(relock.NewRedisLock("backup", client).Do(ctx, func(context.Context) error { return nil }))
	fmt.Println(errors.Is(dead.Err(), relock.ErrForced))
	// Output:
	// <nil>
	// <nil>
	// true
}

// Locks that are held when the client is closed are free for others. Otherwise
// they stay until their lease ends.
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

// Each holder has a higher token than all before it. The store of the data
// refuses writes with a lower one, see package fence.
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

// One call may wait. The next one returns immediately.
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

// This server has no replica that could keep the lock in a failover. Give the
// number of all replicas: Redis may promote any of them.
func ExampleWithReplicas() {
	client := newClient()
	defer client.Close()

	lock := relock.NewRedisLock("payout", client,
		relock.WithExpiry(3*time.Second), relock.WithReplicas(1, 20*time.Millisecond))
	err := lock.TryLock(context.Background())
	fmt.Println(errors.Is(err, relock.ErrReplicas), relock.IsRetryableErr(err))
	// Output: true true
}

// A function that does not return loses the lock.
func ExampleWithMaxHold() {
	client := newClient()
	defer client.Close()

	lock := relock.NewRedisLock("report-writer", client, relock.WithMaxHold(time.Second))
	err := lock.Do(context.Background(), func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	fmt.Println(errors.Is(err, relock.ErrMaxHold), errors.Is(err, relock.ErrLockLost))
	// Output: true true
}

// A key of another program is left unchanged.
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
	client := newClient(relock.WithObserver(observer))
	defer client.Close()
	lock := relock.NewRedisLock("measured", client)
	err := relock.NewRedisLock("measured", client).Do(context.Background(), func(ctx context.Context) error {
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
