package relock_test

import (
	"context"
	"fmt"
	"os"

	"github.com/relock-go/relock"
)

// A client of the master that sentinels name follows it through failovers.
func ExampleNewClientSentinel() {
	sentinels := []string{os.Getenv("EXAMPLE_SENTINEL")} // usually three: "sentinel-1:26379", ...
	client, err := relock.NewClientSentinel("orders", sentinels, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	lock := relock.NewRedisLock("nightly-report", client, relock.WithBlock())
	err = lock.Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("only one process is here")
		return ctx.Err()
	})
	fmt.Println("error:", err)
	// Output:
	// only one process is here
	// error: <nil>
}

// A client of a Cluster uses the master of each lock's slot.
func ExampleNewClientCluster() {
	servers := []string{os.Getenv("EXAMPLE_CLUSTER")} // some of them: "redis-1:6379", "redis-2:6379", ...
	client, err := relock.NewClientCluster(servers, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	transfer := relock.NewMultiLock([]string{"account:3", "account:7"}, client, relock.WithBlock())
	err = transfer.Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("both are locked, each at its master")
		return ctx.Err()
	})
	fmt.Println("error:", err)
	// Output:
	// both are locked, each at its master
	// error: <nil>
}
