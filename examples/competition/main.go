// Competition shows when each caller gets a lock. Three processes with ten
// goroutines each take the same lock once, and hold it for a second. They do so
// with an unfair lock and then with a fair one.
//
//	go run ./examples/competition [-hold 1s]
//
// It needs only Go, since it starts a server in its own process. With REDIS_URL
// (redis://, rediss:// or unix://) it uses the server named there. It fails if
// two callers held the lock at the same time, or if the fair lock was not
// granted in the order of arrival.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/relock-go/relock/examples/internal/embedded"
	"github.com/relock-go/relock/internal/test/competition"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if role := os.Getenv(competition.Variable); role != "" {
		exit(work(ctx, os.Stdin, os.Stdout, role))
	}
	hold := flag.Duration("hold", time.Second, "for how long each has the lock")
	flag.Parse()
	exit(run(ctx, os.Stdout, os.Getenv("REDIS_URL"), *hold))
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
func run(ctx context.Context, out io.Writer, url string, hold time.Duration) error {
	url, stop, err := embedded.Open(url)
	if err != nil {
		return err
	}
	defer stop()
	return competition.Run(out, "", func(mode string) ([]competition.Turn, error) { return compete(ctx, url, mode, hold) })
}
