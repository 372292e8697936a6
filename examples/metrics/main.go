// Metrics serves figures about locks in the text format of Prometheus. It needs
// only Go, see quickstart.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
)

// counts has the calls by outcome. Names of locks are no labels: there are too
// many.
type counts struct {
	mu    sync.Mutex
	calls map[string]int
}

func (c *counts) observer() relock.Observer {
	return relock.Observer{LockDone: func(_ context.Context, e relock.LockDone) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls[fmt.Sprintf("lock_calls_total{kind=%q,outcome=%q}", e.Kind, relock.OutcomeOf(e.Err))]++
	}}
}

// write is what a handler of /metrics does.
func (c *counts) write(w io.Writer, s relock.Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := log.New(w, "", 0)
	for _, name := range slices.Sorted(maps.Keys(c.calls)) {
		lines.Println(name, c.calls[name])
	}
	lines.Printf("locks_held %d\nlocks_waiting %d\nlocks_lost_total %d", s.Held, s.Waiting, s.Losses)
}

func main() { embedded.Main(run) }

func run(ctx context.Context, out io.Writer, url string) error {
	c := &counts{calls: map[string]int{}}
	client, err := relock.NewClientURL(url, relock.WithObserver(c.observer()), relock.WithExpiry(time.Second))
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing is held by then
	lock := relock.NewRedisLock("invoice", client)
	return lock.Do(ctx, func(ctx context.Context) error {
		_ = lock.TryLock(ctx) // is busy
		c.write(out, client.Stats())
		return nil
	})
}
