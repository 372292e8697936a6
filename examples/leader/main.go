// Leader elects one of two candidates. It needs only Go, see quickstart.
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
)

func main() { embedded.Main(run) }

func run(ctx context.Context, out io.Writer, url string) error {
	lines, news, candidates := log.New(out, "", 0), make(chan string, 9), sync.WaitGroup{}
	ctx, stop := context.WithCancel(ctx)
	defer func() { stop(); candidates.Wait() }()
	for _, name := range []string{"ann", "bob"} { // each candidate is a process in real life
		client, err := relock.NewClientURL(url, relock.WithLabel(name))
		if err != nil {
			return err
		}
		candidates.Go(func() {
			defer client.Close() //nolint:errcheck // nothing is held by then
			lines.Println(name, "ends:", campaign(ctx, client, func(ctx context.Context) error {
				news <- name + " leads"
				<-ctx.Done() // until she leads no more
				news <- name + " stops: " + context.Cause(ctx).Error()
				return context.Cause(ctx)
			}))
		})
		if name == "bob" {
			lines.Println("deposed:", depose(ctx, client), embedded.Next(ctx, news))
		}
		lines.Println(embedded.Next(ctx, news))
	}
	return nil
}

func campaign(ctx context.Context, client *relock.Client, lead func(context.Context) error) error {
	locker, err := relock.NewLocker(client)
	if err != nil {
		return err
	}
	return relock.NewLeader(locker, "leader").Run(ctx, lead) // after a loss it campaigns again
}

// depose is what an operator does, once the leader has a candidate behind it.
func depose(ctx context.Context, client *relock.Client) error {
	i, err := client.Inspect(ctx, "leader")
	for err == nil && (i.Holder == nil || i.Holder.Label != "ann" || i.Waiting == 0) {
		time.Sleep(10 * time.Millisecond)
		i, err = client.Inspect(ctx, "leader")
	}
	return errors.Join(err, client.ForceUnlock(ctx, "leader", "moves to another zone"))
}
