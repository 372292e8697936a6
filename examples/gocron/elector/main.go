// Elector runs the jobs of gocron at one of two replicas, the leader. When that
// one stops, the other one goes on. It needs only Go, see quickstart.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
)

func main() { embedded.Main(run) }

func run(ctx context.Context, out io.Writer, url string) error {
	lines, reports, stops, replicas := log.New(out, "", 0), make(chan string, 99), map[string]func(){}, sync.WaitGroup{}
	defer replicas.Wait()
	for _, name := range []string{"ann", "bob"} { // each replica is a process in real life
		client, err := relock.NewClientURL(url)
		if err != nil {
			return err
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		stops[name] = stop
		replicas.Go(func() {
			err := replica(ctx, client, func() { reports <- name })
			lines.Println("a replica ends:", errors.Join(err, client.Close()))
		})
	}
	first := embedded.Next(ctx, reports)
	if first != "" { // else Ctrl-C came before
		stops[first]()
	}
	for name := first; name != ""; name = embedded.Next(ctx, reports) {
		if name != first {
			lines.Println("both have reported")
			break
		}
	}
	return nil
}

// replica runs a job each second while it leads.
func replica(ctx context.Context, client *relock.Client, report func()) error {
	locker, err := relock.NewLocker(client)
	if err != nil {
		return err
	}
	leader := relock.NewLeader(locker, "scheduler")
	s, err := gocron.NewScheduler(gocron.WithDistributedElector(leader))
	if err != nil {
		return err
	}
	_, err = s.NewJob(gocron.DurationJob(time.Second), gocron.NewTask(report))
	s.Start()
	run := leader.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
	return errors.Join(err, run, s.Shutdown())
}
