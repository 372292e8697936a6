package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/relock-go/relock"
)

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

// work takes its time, unless ctx ends.
func work(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
