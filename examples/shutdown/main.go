// Shutdown stops on SIGTERM or Ctrl-C, or after a second. Work under locks ends
// first, and unlocks. It needs only Go, see quickstart.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
)

func main() { embedded.Main(run) }

func run(ctx context.Context, out io.Writer, url string) error {
	lines := log.New(out, "", 0)
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	client, err := relock.NewClientURL(url, relock.WithBlock())
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() { report(lines, relock.NewRedisLock("import", client).Do(ctx, work)) })
	}
	workers.Wait()        // they end soon after ctx is cancelled, and have unlocked
	return client.Close() // the last thing: it ends what is left
}

// work ends when ctx is cancelled: by the signal, or because the lock is lost.
func work(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func report(lines *log.Logger, err error) {
	if errors.As(err, new(*relock.Error)) {
		lines.Println("stopped waiting")
	} else {
		lines.Println("stopped working")
	}
}
