package relock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// newNodes returns clients of three servers that know nothing of each other. In a program they run on three machines, and
// are counted once they are up for longer than the largest lease.
func newNodes() (clients []*relock.Client, stop func()) {
	var stops []func()
	for range 3 {
		server, stopServer, err := redistest.Launch()
		if err != nil {
			log.Fatal(err)
		}
		client, err := relock.NewClient(server.Network, server.Address, "")
		if err != nil {
			log.Fatal(err)
		}
		clients = append(clients, client)
		stops = append(stops, func() {
			_ = client.Close()
			stopServer()
		})
	}
	return clients, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// More than half of the servers have to grant the lock, so that it survives the loss of any other one.
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

// A server that was started a moment ago may have forgotten a lock, so it is not counted yet. Too few nodes that count
// are ErrQuorum, and each NodeError says why.
func ExampleRedLock() {
	clients, stop := newNodes()
	defer stop()
	ctx := context.Background()

	lock := relock.NewRedLock("nightly-report", clients)
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

// The largest lease is how long a server is not counted after its start. All users of a lock have to agree on it.
func ExampleWithMaxLease() {
	clients, stop := newNodes()
	defer stop()

	fmt.Println(relock.NewRedLock("k", clients, relock.WithWatchdog(time.Minute)).Validate())
	fmt.Println(relock.NewRedLock("k", clients, relock.WithWatchdog(time.Minute), relock.WithMaxLease(time.Minute)).Validate())
	// Output:
	// relock: validate "k": invalid: lease of 1m0s: above the largest one allowed, 30s; see WithMaxLease
	// <nil>
}
