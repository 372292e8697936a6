// Migrate brings a schema up to date once, while three replicas start together.
// The others wait, and find it done. It needs only Go, see quickstart.
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

// schema is the database in this example, which sees how often it is migrated.
type schema struct {
	mu              sync.Mutex
	version, starts int
}

func main() { embedded.Main(run) }

func run(ctx context.Context, out io.Writer, url string) error {
	db, failed, replicas := &schema{}, make(chan error, 3), sync.WaitGroup{}
	for range cap(failed) { // each replica is a process in real life
		replicas.Go(func() { failed <- start(ctx, url, db) })
	}
	replicas.Wait()
	log.New(out, "", 0).Printf("version %d after %d migration", db.version, db.starts)
	return errors.Join(<-failed, <-failed, <-failed)
}

// start is what a replica does before it serves.
func start(ctx context.Context, url string, db *schema) error {
	client, err := relock.NewClientURL(url)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing is held by then
	// A migration that hangs loses the lock after 10 minutes. One that crashes
	// frees it when its lease ends, after 30 seconds.
	lock := relock.NewRedisLock("migrate/shop", client, relock.WithBlock(), relock.WithMaxHold(10*time.Minute))
	return lock.Do(ctx, func(ctx context.Context) error { return db.migrate(ctx, 7) })
}

// migrate must look again under the lock: the replica that held it has done it.
// ctx is cancelled when the lock is lost. Run each step in a transaction.
func (s *schema) migrate(ctx context.Context, to int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version >= to {
		return nil
	}
	s.starts++
	s.version = to
	return context.Cause(ctx)
}
