// Cache loads a value once, although three processes miss it in 99 goroutines.
// It needs only Go, see quickstart.
package main

import (
	"context"
	"errors"
	"io"
	"log"
	"sync"
	"sync/atomic"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
)

func main() { embedded.Main(run) }

func run(ctx context.Context, out io.Writer, url string) error {
	var loads atomic.Int32
	load := func(context.Context) (string, error) { // the slow query in real life
		loads.Add(1)
		return "report", nil
	}
	callers, failed := sync.WaitGroup{}, make(chan error, 99)
	for range 3 { // each is a process in real life
		client, err := relock.NewClientURL(url)
		if err != nil {
			return err
		}
		defer client.Close() //nolint:errcheck // nothing is held by then
		reports := &cache{client: client, load: load}
		for range cap(failed) / 3 {
			callers.Go(func() {
				value, err := reports.get(ctx, "report/7")
				if err == nil && value != "report" {
					err = errors.New("another value: " + value)
				}
				failed <- err
			})
		}
	}
	callers.Wait()
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	log.New(out, "", 0).Printf("%d callers, %d load", len(errs), loads.Load())
	return errors.Join(errs...)
}
