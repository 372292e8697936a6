// Competition shows when each caller gets a lock. Three processes with ten
// goroutines each take the same lock once, and hold it for a second. They do so
// with unfair locks and then with fair ones.
//
//	go run -C etcd/test ./competition [-hold 1s] [-endpoints 127.0.0.1:2379]
//
// It needs only Go: without endpoints it starts a server in its own process. It
// fails if two callers held the lock at the same time, or if a fair lock was
// not granted in the order of arrival.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/relock-go/relock/etcd/test/internal/embedded"
	"github.com/relock-go/relock/internal/test/competition"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if role := os.Getenv(competition.Variable); role != "" {
		exit(work(ctx, os.Stdout, role))
	}
	hold := flag.Duration("hold", time.Second, "for how long each has the lock")
	endpoints := flag.String("endpoints", "", "of etcd, between commas; a server inside this process by default")
	flag.Parse()
	exit(run(ctx, os.Stdout, *endpoints, *hold))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "competition:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run lets the processes compete for both kinds of locks, and checks the
// result.
func run(ctx context.Context, out io.Writer, endpoints string, hold time.Duration) error {
	if endpoints == "" {
		server, stop, err := embedded.Start()
		if err != nil {
			return err
		}
		defer stop()
		endpoints = server
	}
	return competition.Run(out, "token", func(mode string) ([]competition.Turn, error) { return compete(ctx, endpoints, mode, hold) })
}
