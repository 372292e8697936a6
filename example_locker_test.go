package relock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/relocktest"
)

// A job that is skipped while another replica runs it.
func ExampleTryDo() {
	client := newClient()
	defer client.Close()
	locker := newLocker(client)
	ctx := context.Background()

	job := func() error {
		return relock.TryDo(ctx, locker, "cleanup", func(context.Context) error {
			fmt.Println("cleaning up")
			return nil
		})
	}
	fmt.Println("error:", job())
	other, err := locker.Lock(ctx, "cleanup") // another replica
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("skipped:", errors.Is(job(), relock.ErrLockAcquiredByOthers))
	fmt.Println("error:", other.Unlock(ctx))
	// Output:
	// cleaning up
	// error: <nil>
	// skipped: true
	// error: <nil>
}

// logged is a Locker that logs. Its holds are its own, and carry themselves.
type logged struct{ relock.Locker }

type loggedHold struct {
	relock.Hold
	began time.Time
}

func (l logged) Lock(ctx context.Context, key string) (relock.Hold, error) {
	hold, err := l.Locker.Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	return loggedHold{hold, time.Now()}, nil
}

// Context carries this hold, and not the one inside of it.
func (h loggedHold) Context() context.Context { return relock.ContextWithHold(h.Hold.Context(), h) }

func (h loggedHold) Unlock(ctx context.Context) error {
	fmt.Println("held for less than a minute:", time.Since(h.began) < time.Minute)
	return h.Hold.Unlock(ctx)
}

// A Locker whose holds are its own carries them in their contexts.
func ExampleContextWithHold() {
	ctx := context.Background()
	hold, err := logged{relocktest.NewLocker()}.Lock(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	found, ok := relock.HoldFromContext(hold.Context(), "report")
	fmt.Println("found:", ok && found == hold)
	fmt.Println("error:", hold.Unlock(ctx))
	// Output:
	// found: true
	// held for less than a minute: true
	// error: <nil>
}

// Code that uses a Mutex works with the locks of any Locker.
func ExampleFromLocker() {
	client := newClient()
	defer client.Close()
	locker := newLocker(client)
	ctx := context.Background()

	report := relock.FromLocker(locker, "report")
	if err := report.Lock(ctx); err != nil { // waits until ctx is cancelled
		log.Fatal(err)
	}
	again := report.TryLock(ctx)
	fmt.Println("held:", errors.Is(again, relock.ErrLockAcquiredByOthers))
	fmt.Println("error:", report.Unlock(ctx))
	// Output:
	// held: true
	// error: <nil>
}

// Packages that call each other take the same lock of a Locker.
func ExampleDo_nested() {
	client := newClient()
	defer client.Close()
	locker := newLocker(client)

	audit := func(ctx context.Context) error {
		return relock.Do(ctx, locker, "account/7", func(context.Context) error {
			fmt.Println("audit, inside")
			return nil
		})
	}
	err := relock.Do(context.Background(), locker, "account/7", func(ctx context.Context) error {
		fmt.Println("transfer")
		return audit(ctx) // ctx carries the hold, so audit does not wait
	})
	fmt.Println("error:", err)
	// Output:
	// transfer
	// audit, inside
	// error: <nil>
}

// One interface for the locks of Redis and of etcd. This function does not know
// which it uses.
func ExampleNewLocker() {
	nightly := func(ctx context.Context, locks relock.Locker) error {
		return relock.Do(ctx, locks, "reports", func(context.Context) error {
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

// TryLock does not wait.
func ExampleLocker() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	locks := newLocker(client)
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

	locks := newLocker(client)
	err := relock.Do(context.Background(), locks, "account:7", func(ctx context.Context) error {
		hold, _ := relock.HoldFromContext(ctx, "account:7")
		fmt.Println("still ours:", hold.Err() == nil)
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// still ours: true
	// error: <nil>
}

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

// Check the hold right before a write.
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

// There are many readers at the same time, or one writer.
func ExampleRWLock() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()
	ann, bob := relock.ContextWithOwner(ctx, "ann"), relock.ContextWithOwner(ctx, "bob")

	prices := relock.NewRWLock("prices", client)
	fmt.Println("ann reads:", prices.RLock(ann))
	fmt.Println("bob reads:", prices.RLock(bob))
	err := prices.TryLock(bob)
	fmt.Println("bob cannot write while ann reads:", errors.Is(err, relock.ErrUpgrade))
	fmt.Println(prices.RUnlock(ann), prices.RUnlock(bob))

	err = prices.Do(ann, func(context.Context) error {
		err := prices.TryRLock(bob)
		fmt.Println("bob cannot read while ann writes:", errors.Is(err, relock.ErrLockAcquiredByOthers))
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// ann reads: <nil>
	// bob reads: <nil>
	// bob cannot write while ann reads: true
	// <nil> <nil>
	// bob cannot read while ann writes: true
	// error: <nil>
}

// A writer can become a reader, with no other writer in between.
func ExampleRWLock_downgrade() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()
	ann, bob := relock.ContextWithOwner(ctx, "ann"), relock.ContextWithOwner(ctx, "bob")

	cache := relock.NewRWLock("cache", client)
	write, err := cache.Acquire(ann)
	fmt.Println("writes:", err)
	read, err := cache.RAcquire(ann)
	fmt.Println("and reads:", err)
	fmt.Println("reads only:", write.Unlock(ctx))
	fmt.Println("bob may read too:", cache.TryRLock(bob), cache.RUnlock(bob))
	fmt.Println(read.Unlock(ctx))
	// Output:
	// writes: <nil>
	// and reads: <nil>
	// reads only: <nil>
	// bob may read too: <nil> <nil>
	// <nil>
}

// RLocker is the read lock for code that only knows a Mutex.
func ExampleRWLock_RLocker() {
	client := newClient()
	defer client.Close()

	report := func(l relock.Mutex) error {
		return l.Do(context.Background(), func(context.Context) error {
			fmt.Println("reads")
			return nil
		})
	}
	fmt.Println("error:", report(relock.NewRWLock("orders", client, relock.WithBlock()).RLocker()))
	// Output:
	// reads
	// error: <nil>
}
