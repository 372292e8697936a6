// Leader elects one of two candidates, and an operator deposes her. It needs
// only Go, see quickstart.
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
	client, err := relock.NewClientURL(url)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	lines, leads, candidates := log.New(out, "", 0), make(chan string, 9), sync.WaitGroup{}
	for _, name := range []string{"ann", "bob"} {
		candidates.Go(func() {
			campaign(ctx, client, name, lines, func(ctx context.Context) error {
				leads <- name
				<-ctx.Done() // until she leads no more
				return nil
			})
		})
		lines.Println(<-leads, "leads")
		if name == "ann" {
			err = client.ForceUnlock(ctx, "leader", "moves to another zone")
		}
	}
	stop()
	candidates.Wait()
	return errors.Join(err, client.Close())
}

func campaign(ctx context.Context, client *relock.Client, name string, lines *log.Logger, lead func(context.Context) error) {
	lock := relock.NewRedisLock("leader", client, relock.WithBlock(), relock.WithLabel(name))
	for ctx.Err() == nil {
		err := lock.Do(ctx, lead) // waits, then leads until the lock is lost
		lines.Println(name, "stops:", err)
		time.Sleep(time.Second) // others first
	}
}
