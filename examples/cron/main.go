// Cron runs a job once per period, with three replicas that all have the same
// schedule. It needs only Go, see quickstart. Its server lags behind on a busy
// machine, and then skips a run.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
)

const (
	period = time.Second
	ticks  = 3
)

func main() { embedded.Main(run) }

func run(ctx context.Context, out io.Writer, url string) error {
	ctx, stop := context.WithTimeout(ctx, ticks*period+period/2)
	defer stop()
	lines := log.New(out, "", 0)
	var replicas sync.WaitGroup
	var runs atomic.Int32
	report := func(ctx context.Context) error { lines.Println("report", runs.Add(1)); return context.Cause(ctx) }
	for range 3 {
		client, err := relock.NewClientURL(url) // each replica is a process in real life
		if err != nil {
			return err
		}
		defer client.Close() //nolint:errcheck // nothing is held by then
		replicas.Go(func() { schedule(ctx, client, report) })
	}
	replicas.Wait()
	return nil
}

func schedule(ctx context.Context, client *relock.Client, report func(context.Context) error) {
	lock := relock.NewRedisLock("report", client, relock.WithMinHold(period*9/10))
	for tick := time.Tick(period); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-tick:
			switch err := lock.TryDo(ctx, report); {
			case relock.NotRun(err) && errors.Is(err, relock.ErrLockAcquiredByOthers): // another replica's turn
			case err != nil:
				log.Println(err)
			}
		}
	}
}
