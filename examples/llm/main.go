// Llm calls a service that allows 20 calls together and 20 a second, from three
// processes. It needs only Go, see quickstart.
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
	together, second = 20, time.Second
	processes        = 3
	calls            = 18 // of each process
)

func main() { embedded.Main(run) }

func run(ctx context.Context, out io.Writer, url string) error {
	var now, most atomic.Int32
	complete := func(context.Context) error { // calls the model in real life
		n := now.Add(1)
		defer now.Add(-1)
		for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
		}
		time.Sleep(50 * time.Millisecond)
		return nil
	}
	start, failed, group := time.Now(), make(chan error, processes*calls), sync.WaitGroup{}
	for range processes {
		client, err := relock.NewClientURL(url)
		if err != nil {
			return err
		}
		defer client.Close() //nolint:errcheck // nothing is held by then
		api := relock.NewSemaphore("llm", together, client, relock.WithBlock(), relock.WithFair(), relock.WithMinHold(second))
		for range calls {
			group.Go(func() { failed <- api.Do(ctx, complete) })
		}
	}
	group.Wait()
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	log.New(out, "", 0).Printf("%d calls, at most 20 together: %v, in 2 seconds or more: %v",
		len(errs), most.Load() <= together, time.Since(start) >= 2*second)
	return errors.Join(errs...)
}
