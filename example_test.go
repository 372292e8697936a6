package relock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/relock-go/relock"
)

// newClient returns a client of the server that the examples run on. A program
// makes it once, see [relock.NewClient].
func newClient(opts ...relock.ClientOption) *relock.Client {
	client, err := relock.NewClient(os.Getenv("EXAMPLE_NETWORK"), os.Getenv("EXAMPLE_ADDRESS"), "", opts...)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// newLocker returns a Locker of the client, see [relock.NewLocker].
func newLocker(client *relock.Client, opts ...relock.LockOption) relock.Locker {
	locker, err := relock.NewLocker(client, opts...)
	if err != nil {
		log.Fatal(err)
	}
	return locker
}

// Do cannot forget an Unlock or overlook a loss.
func Example() {
	client := newClient()
	defer client.Close()

	lock := relock.NewRedisLock("reports", client, relock.WithBlock())
	err := lock.Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("only one process is here")
		return ctx.Err() // ctx is cancelled when the lock is lost
	})
	fmt.Println("error:", err)
	// Output:
	// only one process is here
	// error: <nil>
}

// Packages that call each other lock the same name, each with its own object.
func Example_nested() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	audit := func(context.Context) error {
		fmt.Println("audit, inside")
		return nil
	}
	transfer := func(ctx context.Context) error { return relock.NewReentrantLock("account:7", client).Do(ctx, audit) }
	err := relock.NewReentrantLock("account:7", client).Do(ctx, transfer) // both lock it: level 2
	fmt.Println("error:", err)
	// Output:
	// audit, inside
	// error: <nil>
}

// The context of a lost lock is cancelled in time.
func Example_lostLock() {
	client := newClient()
	defer client.Close()

	lock := relock.NewRedisLock("import", client, relock.WithExpiry(time.Second))
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

// All mistakes are reported together.
func ExampleNewClient_mistakes() {
	_, err := relock.NewClient("tcp", "localhost", "", relock.WithMaxIdle(-1))
	fmt.Println(errors.Is(err, relock.ErrInvalid))
	fmt.Println(err)
	// Output:
	// true
	// relock: new client: invalid: address: "localhost" is not host:port; WithMaxIdle: -1 is negative
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

// The program's own pool, which Close leaves open.
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
	hold, err := relock.NewRedisLock("until-close", client, relock.WithExpiry(3*time.Second)).Acquire(context.Background())
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

	first, err := client.SetNEX(ctx, "seen:order-42", "1", 3*time.Second)
	fmt.Println(first, err)
	again, err := client.SetNEX(ctx, "seen:order-42", "1", 3*time.Second)
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

// Counts calls that get a lock and calls that do not, and measures how long
// locks are held.
func ExampleWithObserver() {
	var got, refused, lost, waited int
	var held time.Duration
	counts := relock.Observer{
		LockDone: func(_ context.Context, e relock.LockDone) {
			switch {
			case e.Err == nil:
				got++
			case errors.Is(e.Err, relock.ErrLockAcquiredByOthers):
				refused++
			}
			if e.Waited {
				waited++
			}
		},
		HoldDone: func(_ context.Context, e relock.HoldDone) {
			held += e.End.Sub(e.Start)
			if errors.Is(e.Err, relock.ErrLockLost) {
				lost++
			}
		},
	}
	client := newClient(relock.WithObserver(counts))
	defer client.Close()

	lock := relock.NewRedisLock("counted", client)
	err := lock.Do(context.Background(), func(ctx context.Context) error {
		return lock.TryLock(ctx) // it is not reentrant
	})
	fmt.Println(err)
	fmt.Printf("%d got it, %d did not, %d waited, %d lost it, held: %v\n", got, refused, waited, lost, held > 0)
	// Output:
	// relock: lock "counted": lock is held by others (one attempt; see WithBlock)
	// 1 got it, 1 did not, 0 waited, 0 lost it, held: true
}

// Notifies two observers, each of what it has a hook for.
func ExampleObserver_And() {
	slow := relock.Observer{HoldDone: func(_ context.Context, e relock.HoldDone) {
		if e.End.Sub(e.Start) > time.Minute {
			fmt.Println("held for long:", e.Key)
		}
	}}
	all := relock.Observer{LockStart: func(_ context.Context, e relock.LockStart) { fmt.Println(e.Kind, "lock", e.Key) }}
	client := newClient(relock.WithObserver(slow.And(all)))
	defer client.Close()

	err := relock.NewReentrantLock("report", client).Do(context.Background(), func(context.Context) error { return nil })
	fmt.Println(err)
	// Output:
	// reentrant lock report
	// <nil>
}
