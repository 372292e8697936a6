// Periodic runs a task once per tick, which three replicas enqueue. The tick is
// the task's ID, so no replica leads. It needs only Go, see quickstart.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
	"github.com/relock-go/relock/queue"
)

const period = 100 * time.Millisecond

func main() { embedded.Main(run) }

func run(ctx context.Context, out io.Writer, url string) error {
	client, err := relock.NewClientURL(url)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing is held by then
	reports, err := queue.New("reports", client, queue.WithUnique(time.Hour))
	if err != nil {
		return err
	}
	lines, first, replicas := log.New(out, "", 0), time.Now().UTC().Truncate(period), sync.WaitGroup{}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for range 3 { // each replica is a process in real life
		replicas.Go(func() { schedule(ctx, reports, first) })
		replicas.Go(func() {
			lines.Println("a replica ends:", reports.Process(ctx, func(_ context.Context, d *queue.Delivery) error {
				if lines.Println("report"); d.ID == task(first.Add(9*period)).ID {
					stop() // Process returns
				}
				return nil
			}))
		})
	}
	replicas.Wait()
	return nil
}

// schedule enqueues each tick, as others do. WithUnique refuses what was done.
func schedule(ctx context.Context, q *queue.Queue, tick time.Time) {
	for ; ctx.Err() == nil; tick = tick.Add(period) {
		time.Sleep(time.Until(tick)) // with a long period, end this with ctx
		if _, err := q.Enqueue(ctx, task(tick)); err != nil && !errors.Is(err, queue.ErrDuplicate) && ctx.Err() == nil {
			log.Println(err) // another replica enqueues it
		}
	}
}

func task(t time.Time) queue.Task { return queue.Task{ID: t.Format(time.RFC3339Nano), Key: "report"} }
