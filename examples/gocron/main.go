// Gocron runs a job of gocron once per period, with three replicas. It needs
// only Go, see quickstart. Its server lags behind on a busy machine, and then
// skips a run.
package main

import (
	"context"
	"io"
	"log"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
)

const (
	period = time.Second
	ticks  = 3
)

// locker is a gocron.Locker. A job that had its turn is skipped.
type locker struct{ relock.Locker }

func (l locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	return l.TryLock(ctx, job)
}

func main() { embedded.Main(run) }

func run(_ context.Context, out io.Writer, url string) error {
	lines, runs, start := log.New(out, "", 0), atomic.Int32{}, time.Now().Add(period)
	report := func() { lines.Println("report", runs.Add(1)) }
	for range 3 {
		client, err := relock.NewClientURL(url, relock.WithMinHold(period*9/10)) // each replica is a process in real life
		if err != nil {
			return err
		}
		defer client.Close() //nolint:errcheck // nothing is held by then
		locks, err := relock.NewLocker(client)
		if err != nil {
			return err
		}
		s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker{locks}))
		if err != nil {
			return err
		}
		defer s.Shutdown() //nolint:errcheck // the jobs have ended
		_, err = s.NewJob(gocron.DurationJob(period), gocron.NewTask(report), gocron.WithName("report"),
			gocron.WithStartAt(gocron.WithStartDateTime(start)))
		if err != nil {
			return err
		}
		s.Start()
	}
	time.Sleep(time.Until(start.Add((ticks-1)*period + period/2)))
	return nil
}
