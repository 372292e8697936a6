package relock_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strings"

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

	// This master has no replica. Otherwise use relock.WithReplicas for all
	// replicas, so that whichever is promoted has the lock.
	lock := relock.NewRedisLock("reports", client, relock.WithBlock())
	err = lock.Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("only one process is here")
		return ctx.Err()
	})
	fmt.Println("error:", err)
	// Output:
	// only one process is here
	// error: <nil>
}

// Sentinels without TLS, beside servers with TLS: the dialer encrypts only for
// servers.
func ExampleWithDialer_sentinels() {
	sentinels := []string{"sentinel-1:26379", "sentinel-2:26379", "sentinel-3:26379"}
	client, err := relock.NewClientSentinel("orders", sentinels, "password", relock.WithDialer(
		func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasSuffix(address, ":26379") { // a sentinel
				return new(net.Dialer).DialContext(ctx, network, address)
			}
			return new(tls.Dialer).DialContext(ctx, network, address)
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fmt.Println("made without a network call")
	// Output: made without a network call
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

	// Use relock.WithReplicas here, too, for all replicas of each master.
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
