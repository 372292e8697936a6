package relock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
)

// Without WithBlock a lock is tried once.
func ExampleRedisLock_Lock() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	lock := relock.NewRedisLock("settlement", client)
	if err := lock.Lock(ctx); err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Unlock(ctx)

	err := relock.NewRedisLock("settlement", client).Lock(ctx)
	fmt.Println(err)
	fmt.Println("try again later:", relock.IsRetryableErr(err))
	// Output:
	// relock: lock "settlement": lock is held by others (one attempt; see WithBlock)
	// try again later: true
}

// Waits until the lock is free, for at most the block timeout.
func ExampleRedisLock_Lock_blocking() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	first := relock.NewRedisLock("queue-head", client, relock.WithExpiry(time.Second))
	if err := first.Lock(ctx); err != nil {
		fmt.Println(err)
		return
	}
	second := relock.NewRedisLock("queue-head", client,
		relock.WithBlockTimeout(30*time.Second), relock.WithPollInterval(20*time.Millisecond))
	if err := second.Lock(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("second has it")
	fmt.Println(second.Unlock(ctx))
	// Output:
	// second has it
	// <nil>
}

// Waiters get the lock in order of arrival, across all processes.
func ExampleWithFair() {
	client := newClient()
	defer client.Close()

	ctx := context.Background()

	phones := relock.NewRedisLock("last-phones", client, relock.WithFair(), relock.WithBlockTimeout(time.Minute))
	if err := phones.Lock(ctx); err != nil {
		log.Fatal(err)
	}
	var buyers sync.WaitGroup
	for n := range 3 {
		buyers.Go(func() {
			lock := relock.NewRedisLock("last-phones", client, relock.WithFair(), relock.WithBlockTimeout(time.Minute))
			if err := lock.Do(ctx, func(context.Context) error { fmt.Println("buyer", n+1); return nil }); err != nil {
				log.Print(err)
			}
		})
		for waiting := 0; waiting <= n; { // until this buyer is queued
			info, err := client.Inspect(ctx, "last-phones")
			if err != nil {
				log.Fatal(err)
			}
			waiting = info.Waiting
		}
	}
	if err := phones.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	buyers.Wait()
	// Output:
	// buyer 1
	// buyer 2
	// buyer 3
}

func ExampleRedisLock_TryLock() {
	client := newClient(relock.WithBlock())
	defer client.Close()
	ctx := context.Background()

	lock := relock.NewRedisLock("cleanup", client)
	switch err := lock.TryLock(ctx); {
	case errors.Is(err, relock.ErrLockAcquiredByOthers):
		fmt.Println("somebody else does it")
	case err != nil:
		fmt.Println(err)
	default:
		defer lock.Unlock(ctx)
		fmt.Println("cleaning up")
	}
	// Output: cleaning up
}

func ExampleRedisLock_TryDo() {
	client := newClient()
	defer client.Close()

	lock := relock.NewRedisLock("hourly", client, relock.WithMinHold(3*time.Second), relock.WithLabel("hourly job"))
	job := func(context.Context) error { fmt.Println("runs"); return nil }
	fmt.Println(lock.TryDo(context.Background(), job))
	err := lock.TryDo(context.Background(), job)
	fmt.Println("within the minimum hold:", errors.Is(err, relock.ErrLockAcquiredByOthers))
	// Output:
	// runs
	// <nil>
	// within the minimum hold: true
}

// A job is skipped if others run it. That its own work finds a busy lock is a
// failure.
func ExampleNotRun() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	report := relock.NewRedisLock("report", client)
	tick := func(job func(context.Context) error) {
		switch err := report.TryDo(ctx, job); {
		case relock.NotRun(err) && errors.Is(err, relock.ErrLockAcquiredByOthers):
			fmt.Println("skipped")
		case err != nil:
			fmt.Println(err)
		}
	}
	rows := relock.NewRedisLock("rows", client)
	others, err := rows.Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer others.Unlock(ctx)
	tick(func(context.Context) error {
		tick(func(context.Context) error { return nil }) // another replica, meanwhile
		return rows.TryDo(ctx, func(context.Context) error { return nil })
	})
	// Output:
	// skipped
	// relock: lock "rows": lock is held by others (one attempt; see WithBlock)
}

// The Hold says how long it is valid, and can be unlocked from any goroutine.
func ExampleRedisLock_Acquire() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	hold, err := relock.NewRedisLock("migration", client, relock.WithMaxHold(time.Minute)).Acquire(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("valid:", hold.Err() == nil && time.Until(hold.ValidUntil()) > 20*time.Second)
	fmt.Println(hold.Extend(ctx, time.Minute))
	fmt.Println(hold.Unlock(ctx))
	fmt.Println(context.Cause(hold.Context()))
	// Output:
	// valid: true
	// <nil>
	// <nil>
	// not held
}

func ExampleRedisLock_Validate() {
	client := newClient()
	defer client.Close()
	lock := relock.NewRedisLock("", client, relock.WithExpiry(time.Millisecond), relock.WithMaxLease(time.Minute))
	fmt.Println(lock.Validate())
	// Output:
	// relock: validate: invalid: key: is empty; WithExpiry: 1ms is below 10ms; WithMaxLease: is not supported by RedisLock
}

// A job that runs once per period. Each replica calls TryDo at its tick, and
// the lock is kept for nine tenths of the period.
func ExampleWithMinHold() {
	const period = 200 * time.Millisecond
	ctx := context.Background()
	var replicas []*relock.RedisLock
	for range 3 {
		client := newClient()
		defer client.Close()
		replicas = append(replicas, relock.NewRedisLock("report", client, relock.WithMinHold(period*9/10)))
	}
	var runs atomic.Int32
	job := func(ctx context.Context) error { runs.Add(1); return ctx.Err() }

	var counts []int32 // how often the job ran in each period
	for tick := time.Now(); len(counts) < 5; time.Sleep(time.Until(tick)) {
		start := time.Now()
		tried := make(chan error)
		for i, lock := range replicas {
			go func() {
				time.Sleep(time.Duration(i) * time.Millisecond) // their clocks differ
				tried <- lock.TryDo(ctx, job)
			}()
		}
		for range replicas {
			if err := <-tried; err != nil && !errors.Is(err, relock.ErrLockAcquiredByOthers) {
				fmt.Println(err)
			}
		}
		end, ran := time.Now(), runs.Swap(0)
		if end.Sub(start) < period/2 { // else this machine was too busy to try in time
			counts = append(counts, ran)
		}
		tick = tick.Add(period)
		if latest := end.Add(period * 19 / 20); tick.Before(latest) {
			tick = latest // it is so far behind that the lock would still be kept
		}
	}
	fmt.Println(counts)
	// Output: [1 1 1 1 1]
}

// A transfer locks both accounts, or none. The order of the names does not
// matter.
func ExampleNewMultiLock() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	transfer := relock.NewMultiLock([]string{"account:7", "account:3"}, client, relock.WithBlockTimeout(30*time.Second))
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

// The hold of a MultiLock is that of all its keys. It ends when one of them is
// lost.
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

// newNodes returns clients of three servers that do not know each other. In a
// program they run on three machines. They are counted once they are up for
// longer than the largest lease.
func newNodes() (clients []*relock.Client, stop func()) {
	for _, server := range nodes {
		client, err := relock.NewClient(server.Network, server.Address, "")
		if err != nil {
			log.Fatal(err)
		}
		clients = append(clients, client)
	}
	return clients, func() {
		for _, client := range clients {
			_ = client.Close()
		}
	}
}

// More than half of the servers have to grant the lock, so that it survives the
// loss of any other one.
func ExampleNewRedLock() {
	clients, stop := newNodes()
	defer stop()
	ctx := context.Background()

	lock := relock.NewRedLock("reports", clients, relock.WithBlockTimeout(30*time.Second),
		relock.WithMaxLease(3*time.Second), relock.WithWatchdog(3*time.Second))
	_ = clients[1].Close() // as if its server were gone
	err := lock.Do(ctx, func(ctx context.Context) error {
		fmt.Println("only one process is here")
		return ctx.Err() // ctx ends when no quorum has the lock any more
	})
	fmt.Println("error:", err)
	// Output:
	// only one process is here
	// error: <nil>
}

// A server that has not been up for the largest lease may have forgotten a
// lock, so it is not counted yet. Too few nodes that count are ErrQuorum, and
// each NodeError says why.
func ExampleRedLock() {
	clients, stop := newNodes()
	defer stop()
	ctx := context.Background()

	lock := relock.NewRedLock("reports", clients, relock.WithMaxLease(time.Hour))
	fmt.Println(lock.Validate())
	err := lock.TryLock(ctx)
	var node *relock.NodeError
	fmt.Println(errors.Is(err, relock.ErrQuorum), errors.As(err, &node), relock.IsRetryableErr(err))
	_, err = lock.TryAcquire(ctx)
	fmt.Println(errors.Is(err, relock.ErrQuorum))
	fmt.Println(errors.Is(lock.Unlock(ctx), relock.ErrNotHeld))
	// Output:
	// <nil>
	// true true true
	// true
	// true
}

// The largest lease is how long a server is not counted after its start. All
// users of a lock have to agree on it.
func ExampleWithMaxLease() {
	clients, stop := newNodes()
	defer stop()

	fmt.Println(relock.NewRedLock("k", clients, relock.WithWatchdog(time.Minute)).Validate())
	fmt.Println(
		relock.NewRedLock("k", clients, relock.WithWatchdog(time.Minute), relock.WithMaxLease(time.Minute)).Validate())
	// Output:
	// relock: validate "k": invalid: lease: 1m0s is above the largest allowed, 30s; see WithMaxLease
	// <nil>
}
