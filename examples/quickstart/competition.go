package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
)

const turns = 3 // of each worker

// worker is one of two that want the same lock, each through its own client.
type worker struct {
	*stage
	name   string
	lock   *relock.RedisLock
	inside *atomic.Int32 // how many workers are at work, of both
}

func showCompetition(ctx context.Context, s *stage) error {
	var inside atomic.Int32
	var group sync.WaitGroup
	errs := make([]error, 2)
	for i, client := range []*relock.Client{s.first, s.second} {
		lock := relock.NewRedisLock(s.key("job"), client, relock.WithBlock())
		w := &worker{s, string(rune('A' + i)), lock, &inside}
		group.Go(func() { errs[i] = w.run(ctx) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.say("Seen: %d turns of two workers, never both at a time.", 2*turns)
	return nil
}

func (w *worker) run(ctx context.Context) error {
	for range turns {
		w.say("worker %s wants the lock", w.name)
		if err := w.lock.Do(ctx, w.turn); err != nil {
			return fmt.Errorf("worker %s: %w", w.name, err)
		}
		if err := work(ctx, 50*time.Millisecond); err != nil { // elsewhere
			return err
		}
	}
	return nil
}

// turn is the work that needs the lock.
func (w *worker) turn(ctx context.Context) error {
	defer w.inside.Add(-1)
	if w.inside.Add(1) > 1 {
		return errors.New("the other one is at work")
	}
	w.say("worker %s has it and works", w.name)
	defer w.say("worker %s is done and releases it", w.name)
	return work(ctx, 60*time.Millisecond)
}
