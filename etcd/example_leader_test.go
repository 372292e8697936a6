package etcdlock_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/relock-go/relock"
	etcdlock "github.com/relock-go/relock/etcd"
)

// A candidate of a relock.Leader. Why its campaigns fail is logged where its
// Locker logs.
func ExampleLocker_Logger() {
	client := exampleClient()
	defer client.Close()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	locker, err := etcdlock.NewLocker(client, etcdlock.WithLogger(logger))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locker.Close()
	leader := relock.NewLeader(locker, "scheduler")
	err = leader.Run(context.Background(), func(ctx context.Context) error {
		fmt.Println("leads:", leader.IsLeader(ctx) == nil)
		return nil
	})
	fmt.Println("error:", err)
	fmt.Println("logs there:", locker.Logger() == logger)
	// Output:
	// leads: true
	// error: <nil>
	// logs there: true
}
