package proof

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/locktest"
)

const (
	permits  = "Semaphore"
	multi    = "MultiLock"
	apart    = "MultiLock, key by key" // as if its keys were in three slots
	red      = "RedLock"
	rivalKey = "contended"
	// longPause is a quarter of how long some holds last, at most.
	longPause = 15 * time.Millisecond
	// rivalPermits is how many permits the semaphore has.
	rivalPermits = 3
)

// rivalKeys are those of a MultiLock.
var rivalKeys = []string{rivalKey, "second", "third"}

// rivalLease is the lease of a kind of lock. A RedLock waits longer for its
// servers with a longer one.
func rivalLease(kind string) time.Duration {
	if kind == red {
		return quorumLease
	}
	return contentionLease
}

// rivalRole takes a lock of a kind again and again, on several goroutines,
// until the test ends it. Arguments: kind, whether it is fair, number of
// goroutines, then the network and the address of each server.
func rivalRole(self *faults.Self) (err error) {
	fair, err := strconv.ParseBool(self.Args[1])
	if err != nil {
		return err
	}
	goroutines, err := strconv.Atoi(self.Args[2])
	if err != nil {
		return err
	}
	var clients []*relock.Client
	for i := 3; i < len(self.Args); i += 2 {
		client, err := newProcessClient(self.Args[i], self.Args[i+1])
		if err != nil {
			return err
		}
		locktest.Engine(client).OneByOne.Store(self.Args[0] == apart)
		clients = append(clients, client)
	}
	ctx := self.Context()
	err = faults.Together(goroutines, func(i int) error {
		r := &rival{self: self, goroutine: i, kind: self.Args[0], fair: fair}
		r.reads, r.lock = r.kind == toWrite && i%2 == 0, r.newLock(clients)
		return r.run(ctx)
	})
	for _, c := range clients {
		err = errors.Join(err, c.Close())
	}
	return err
}

// rival is one goroutine that uses the lock.
type rival struct {
	self        *faults.Self
	goroutine   int
	kind        string
	fair, reads bool
	lock        processLock
}

func (r *rival) newLock(clients []*relock.Client) processLock {
	lease := rivalLease(r.kind)
	opts := []relock.LockOption{relock.WithBlock(), relock.WithWatchdog(lease)}
	switch r.kind {
	case multi, apart:
		return relock.NewMultiLock(rivalKeys, clients[0], opts...)
	case red:
		return relock.NewRedLock(rivalKey, clients, append(opts, relock.WithMaxLease(lease))...)
	}
	if r.fair {
		opts = append(opts, relock.WithFair())
	}
	switch {
	case r.kind == permits:
		return relock.NewSemaphore(rivalKey, rivalPermits, clients[0], opts...)
	case r.reads:
		return newLockOf(toRead, rivalKey, clients[0], opts...)
	}
	return newLockOf(r.kind, rivalKey, clients[0], opts...)
}

// run reports each hold when it was granted, and again before its Unlock, with
// the times between which it was valid. A call that waits must not fail.
func (r *rival) run(ctx context.Context) error {
	for n := 0; ; n++ {
		began := faults.Now()
		hold, err := r.lock.Acquire(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			return nil
		case err != nil:
			return fmt.Errorf("acquire: %w", err)
		}
		s := &section{from: faults.Now()}
		s.observe(hold)
		r.self.Emit("begin", r.goroutine, s.from, s.until, r.reads, s.from-began)
		r.work(ctx, hold, s, n)
		s.ends(s.endOf(hold))
		r.self.Emit("end", r.goroutine, s.from, s.until)
		err = hold.Unlock(context.Background())
		if errors.Is(err, relock.ErrForced) {
			r.self.Emit("forced")
		}
		if err != nil && !errors.Is(err, relock.ErrLockLost) && !errors.Is(err, relock.ErrUnconfirmed) {
			return fmt.Errorf("unlock: %w", err)
		}
	}
}

// work keeps the lock for a moment, and now and then for longer. Every fourth
// hold of a reentrant lock is nested.
func (r *rival) work(ctx context.Context, hold relock.Hold, s *section, n int) {
	if r.kind == reentrant && n%4 == 0 {
		inner, err := r.lock.Acquire(ctx)
		if err != nil {
			return // lost, or the run is over
		}
		defer inner.Unlock(ctx) //nolint:errcheck // what the outer level says counts
	}
	pause := time.Millisecond
	if n%8 == 0 {
		pause = longPause
	}
	for range 4 {
		time.Sleep(rand.N(pause)) //nolint:gosec // no secret
		s.observe(hold)
	}
}
