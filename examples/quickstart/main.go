// Quickstart shows what a relock lock does, and checks each thing that it
// shows:
//
//	go run ./examples/quickstart
//
// It needs only Go, since it starts a server in its own process. With REDIS_URL
// (redis://, rediss:// or unix://) it uses the server named there. If a check
// fails it prints the reason and exits with code 1.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
)

const (
	lease = time.Second      // of every lock here
	limit = 10 * time.Second // for everything together
)

// parts are what is shown, in this order.
var parts = []struct {
	name, title string
	show        func(context.Context, *stage) error
}{
	{"competing workers", "Two workers compete for one lock", showCompetition},
	{"nested locking", "A reentrant lock is taken again by its owner", showNesting},
	{"watchdog", "The watchdog keeps a lock for longer than its lease", showWatchdog},
	{"lost lock", "A lost lock is noticed in time", showLoss},
}

var errTooSlow = fmt.Errorf("it took longer than %v", limit)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Getenv("REDIS_URL"), relock.WithWatchdog(lease))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart failed:", err)
		os.Exit(1)
	}
}

// run shows all parts on the server at url, or on an embedded one if url is
// empty. keep is the lease that its locks request.
func run(ctx context.Context, out io.Writer, url string, keep relock.LockOption) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errTooSlow)
	defer cancel()
	url, stop, err := embedded.Open(url)
	if err != nil {
		return err
	}
	defer stop()
	s, err := newStage(out, url, keep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return s.showAll(ctx)
}
