// Accounts books payments with a queue: those of one account one at a time and
// in order, those of others meanwhile. It needs only Go, see quickstart.
package main

import (
	"context"
	"crypto/rand"
	"io"
	"log"
	"sync/atomic"
	"time"

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
	payments, err := queue.New("payments "+rand.Text(), client)
	if err != nil {
		return err
	}
	lines, left := log.New(out, "", 0), atomic.Int64{}
	for _, amount := range []string{"+100", "-30", "-70", "+5"} {
		for _, account := range []string{"alice", "bob", "carol"} {
			left.Add(1)
			if _, err := payments.Enqueue(ctx, queue.Task{Key: account, Payload: []byte(amount)}); err != nil {
				return err
			}
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	return payments.Process(ctx, func(_ context.Context, d *queue.Delivery) error {
		lines.Printf("%s: booking %s", d.Key, d.Payload)
		time.Sleep(20 * time.Millisecond) // the work
		lines.Printf("%s: booked %s", d.Key, d.Payload)
		if left.Add(-1) == 0 {
			stop() // Process returns
		}
		return nil
	})
}
