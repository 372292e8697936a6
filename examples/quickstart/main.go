// Quickstart shows what a relock lock does, and checks each thing that it
// shows:
//
//	go run ./examples/quickstart
//
// It needs only Go, since it starts a server in its own process. With REDIS_URL
// (redis://, rediss:// or unix://) it uses the server named there. If a check
// fails it prints the reason and exits with code 1.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
)

const (
	lease = time.Second      // of every lock here
	limit = 10 * time.Second // for everything together
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, os.Getenv("REDIS_URL"), relock.WithWatchdog(lease))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart failed:", err)
		os.Exit(1)
	}
}

// run shows all parts on the server at url, or on an embedded one if url is
// empty. keep is the lease that its locks request.
func run(ctx context.Context, out io.Writer, url string, keep relock.LockOption) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %v", limit))
	defer cancel()
	url, stop, err := embedded.Open(url)
	if err != nil {
		return err
	}
	defer stop()
	s, err := newStage(out, url, keep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return s.showAll(ctx)
}

// stage is what the parts share: two clients, as two programs would have, and a
// way to print what happens.
type stage struct {
	first, second *relock.Client
	run           string // in every key, so that two runs on one server do not meet
	log           *log.Logger
	start         time.Time
}

func newStage(out io.Writer, url string, keep relock.LockOption) (*stage, error) {
	first, err := relock.NewClientURL(url, keep)
	if err != nil {
		return nil, err
	}
	second, err := relock.NewClientURL(url, keep)
	if err != nil {
		return nil, errors.Join(err, first.Close())
	}
	return &stage{first: first, second: second, run: rand.Text(), log: log.New(out, "", 0), start: time.Now()}, nil
}

func (s *stage) close() error { return errors.Join(s.first.Close(), s.second.Close()) }

func (s *stage) showAll(ctx context.Context) error {
	if err := s.first.Ping(ctx); err != nil {
		return fmt.Errorf("the server cannot be used: %w", err)
	}
	for i, part := range parts {
		s.log.Printf("\n%d. %s", i+1, part.title)
		if err := part.show(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	s.say("Done: all of it happened as it should.")
	return nil
}

// key is the name of a lock of this run.
func (s *stage) key(name string) string { return "quickstart:" + name + ":" + s.run }

// say prints what happens, and when. Goroutines may share it.
func (s *stage) say(format string, args ...any) {
	s.log.Printf("%6.2fs  %s", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

// expectTaken fails unless others hold the lock.
func expectTaken(ctx context.Context, lock relock.Mutex) error {
	err := lock.TryLock(ctx)
	switch {
	case errors.Is(err, relock.ErrLockAcquiredByOthers):
		return nil
	case err != nil:
		return err
	}
	return errors.Join(errors.New("a second client got the lock while it was held"), lock.Unlock(ctx))
}

// expectFree fails unless the lock can be taken.
func expectFree(ctx context.Context, lock relock.Mutex) error {
	return lock.TryDo(ctx, func(context.Context) error { return nil })
}

// work takes its time, unless ctx is cancelled.
func work(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
