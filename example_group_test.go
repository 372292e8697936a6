package relock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/relock-go/relock"
)

// A transfer locks both accounts, or none. The order of the names does not
// matter.
func ExampleNewMultiLock() {
	client := newClient()
	defer client.Close()
	ctx := context.Background()

	transfer := relock.NewMultiLock([]string{"account:7", "account:3"}, client, relock.WithBlockTimeout(5*time.Second))
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

	lock := relock.NewRedLock("nightly-report", clients, relock.WithBlockTimeout(10*time.Second),
		relock.WithMaxLease(time.Second), relock.WithWatchdog(time.Second))
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

	lock := relock.NewRedLock("nightly-report", clients, relock.WithMaxLease(time.Hour))
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
	fmt.Println(relock.NewRedLock("k", clients, relock.WithWatchdog(time.Minute), relock.WithMaxLease(time.Minute)).Validate())
	// Output:
	// relock: validate "k": invalid: lease: 1m0s is above the largest allowed, 30s; see WithMaxLease
	// <nil>
}
