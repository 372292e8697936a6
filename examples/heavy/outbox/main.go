// Outbox enqueues a task for each order that was committed, and none for one
// that was rolled back. It needs only Go, see quickstart.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"time"

	_ "modernc.org/sqlite" // or the driver of your database

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
	"github.com/relock-go/relock/queue"
)

func main() { embedded.Main(run) }

func run(ctx context.Context, out io.Writer, url string) error {
	client, err := relock.NewClientURL(url)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing is held by then
	mails, err := queue.New("mails", client, queue.WithUnique(time.Hour))
	if err != nil {
		return err
	}
	db, err := open(ctx, ":memory:")
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // it is in memory
	lines := log.New(out, "", 0)
	lines.Println("order 1:", order(ctx, db, 1, nil))
	lines.Println("order 2:", order(ctx, db, 2, errors.New("rolled back")))
	lines.Println("order 3:", order(ctx, db, 3, nil))
	lines.Println("relayed:", relay(ctx, db, client, mails))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return mails.Process(ctx, func(_ context.Context, d *queue.Delivery) error {
		if lines.Printf("mail for order %s", d.Payload); string(d.Payload) == "3" {
			stop() // Process returns
		}
		return nil
	}, queue.WithWorkers(1))
}
