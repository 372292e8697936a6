package relock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock"
)

// newClient returns a client of the server that the examples run on. In a program it is made once, see [relock.NewClient].
func newClient(opts ...relock.ClientOption) *relock.Client {
	client, err := relock.NewClient(os.Getenv("EXAMPLE_NETWORK"), os.Getenv("EXAMPLE_ADDRESS"), "", opts...)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// The shape that cannot forget an Unlock or overlook a loss.
func Example() {
	client := newClient()
	defer client.Close()

	lock := relock.NewRedisLock("nightly-report", client, relock.WithBlock())
	err := lock.Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("only one process is here")
		return ctx.Err() // ctx ends when the lock is lost
	})
	fmt.Println("error:", err)
	// Output:
	// only one process is here
	// error: <nil>
}

// Packages that call each other lock the same name, each with an object of its own.
func Example_nested() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	transfer := relock.NewReentrantLock("account:7", client)
	audit := relock.NewReentrantLock("account:7", client)
	err := transfer.Do(ctx, func(ctx context.Context) error {
		fmt.Println("transfer")
		return audit.Do(ctx, func(context.Context) error {
			fmt.Println("audit, inside")
			return nil
		})
	})
	fmt.Println("error:", err)
	// Output:
	// transfer
	// audit, inside
	// error: <nil>
}

// A lock that is lost tells its holder in time.
func Example_lostLock() {
	client := newClient()
	defer client.Close()

	lock := relock.NewRedisLock("import", client, relock.WithExpiry(100*time.Millisecond))
	err := lock.Do(context.Background(), func(ctx context.Context) error {
		<-ctx.Done() // work that takes longer than the lease
		return context.Cause(ctx)
	})
	fmt.Println("lost:", errors.Is(err, relock.ErrLockLost))
	// Output: lost: true
}

func ExampleNewClient() {
	client, err := relock.NewClient(os.Getenv("EXAMPLE_NETWORK"), os.Getenv("EXAMPLE_ADDRESS"), "",
		relock.WithMaxActive(50), relock.WithWaitMode(),
		relock.WithMaxIdle(5), relock.WithIdleTimeout(time.Minute),
		relock.WithDialTimeout(2*time.Second), relock.WithCommandTimeout(time.Second),
		relock.WithKeyPrefix("shop:"),
		relock.WithLogger(slog.New(slog.DiscardHandler)),
		relock.WithBlockTimeout(10*time.Second), // the default of every lock of this client
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fmt.Println(client.Ping(context.Background()))
	// Output: <nil>
}

// All mistakes are reported at once.
func ExampleNewClient_mistakes() {
	_, err := relock.NewClient("tcp", "localhost", "", relock.WithMaxIdle(-1), relock.WithDialTimeout(0))
	fmt.Println(errors.Is(err, relock.ErrInvalid))
	fmt.Println(err)
	// Output:
	// true
	// relock: new client: invalid: address: "localhost" is not host:port; WithMaxIdle: -1 is negative; WithDialTimeout: 0s is not above 0
}

// A client makes no network call until it is used.
func ExampleNewClientURL() {
	client, err := relock.NewClientURL("rediss://app:secret@redis.example.com:6380/2",
		relock.WithTLS(&tls.Config{MinVersion: tls.VersionTLS13}))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client.Close())
	// Output: <nil>
}

// Options instead of a URL.
func ExampleWithTLS() {
	client, err := relock.NewClient("tcp", "redis.example.com:6380", "secret",
		relock.WithUsername("app"), relock.WithDatabase(2), relock.WithTLS(nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client.Close())
	// Output: <nil>
}

// A pool that the program has already. Close leaves it open.
func ExampleNewClientPool() {
	pool := &redis.Pool{MaxIdle: 3, Dial: func() (redis.Conn, error) {
		return redis.Dial(os.Getenv("EXAMPLE_NETWORK"), os.Getenv("EXAMPLE_ADDRESS"))
	}}
	defer pool.Close()

	client, err := relock.NewClientPool(pool)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fmt.Println(relock.NewRedisLock("k", client).Do(context.Background(), func(context.Context) error { return nil }))
	// Output: <nil>
}

func ExampleClient_Close() {
	client := newClient()
	hold, err := relock.NewRedisLock("until-close", client, relock.WithExpiry(time.Second)).Acquire(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client.Close())
	fmt.Println(hold.Err())
	// Output:
	// <nil>
	// relock: hold "until-close": client closed
}

func ExampleClient_SetNEX() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	first, err := client.SetNEX(ctx, "seen:order-42", "1", time.Second)
	fmt.Println(first, err)
	again, err := client.SetNEX(ctx, "seen:order-42", "1", time.Second)
	fmt.Println(again, err)
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleClient_Eval() {
	client := newClient()
	defer client.Close()

	script := relock.NewScript("return {KEYS[1], tonumber(ARGV[1]) + 1}")
	answer, err := client.Eval(context.Background(), script, []string{"a key"}, 41)
	fmt.Println(answer, err)
	// Output: [a key 42] <nil>
}

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
	// relock: lock "settlement": lock is held by others
	// try again later: true
}

// Waits until the lock is free, for at most the block timeout.
func ExampleRedisLock_Lock_blocking() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	first := relock.NewRedisLock("queue-head", client, relock.WithExpiry(100*time.Millisecond))
	if err := first.Lock(ctx); err != nil {
		fmt.Println(err)
		return
	}
	second := relock.NewRedisLock("queue-head", client, relock.WithBlockTimeout(5*time.Second), relock.WithPollInterval(20*time.Millisecond))
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

// Whoever asks first is served first, over all processes.
func ExampleWithFair() {
	client := newClient()
	defer client.Close()

	sold := 0
	var buyers sync.WaitGroup
	for range 3 {
		buyers.Go(func() {
			lock := relock.NewRedisLock("last-phones", client, relock.WithFair(), relock.WithBlockTimeout(10*time.Second))
			err := lock.Do(context.Background(), func(context.Context) error {
				sold++
				return nil
			})
			if err != nil {
				log.Print(err)
			}
		})
	}
	buyers.Wait()
	fmt.Println("sold:", sold)
	// Output: sold: 3
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

	lock := relock.NewRedisLock("hourly", client, relock.WithMinHold(200*time.Millisecond), relock.WithLabel("hourly job"))
	job := func(context.Context) error { fmt.Println("runs"); return nil }
	fmt.Println(lock.TryDo(context.Background(), job))
	err := lock.TryDo(context.Background(), job)
	fmt.Println("within the minimum hold:", errors.Is(err, relock.ErrLockAcquiredByOthers))
	// Output:
	// runs
	// <nil>
	// within the minimum hold: true
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
	lock := relock.NewRedisLock("", client, relock.WithExpiry(time.Millisecond), relock.WithOwner("me"))
	fmt.Println(lock.Validate())
	// Output:
	// relock: validate: invalid: key: is empty; WithExpiry: 1ms is below 10ms; WithOwner: this kind of lock cannot honour it
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
	// relock: lock "tree": lock is held by others
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

func ExampleWithOwner() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	lock := relock.NewReentrantLock("device", client, relock.WithOwner("controller"))
	fmt.Println(lock.Lock(ctx))
	done := make(chan error)
	go func() { done <- lock.Unlock(ctx) }()
	fmt.Println(<-done)
	// Output:
	// <nil>
	// <nil>
}

// Right before a write is the moment to ask.
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
