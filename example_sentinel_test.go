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
