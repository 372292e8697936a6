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

// parts are what is shown, in this order.
var parts = []struct {
	name, title string
	show        func(context.Context, *stage) error
}{
	{"competing workers", "Two workers compete for one lock", showCompetition},
	{"nested locking", "A reentrant lock is taken again by its owner", showNesting},
	{"watchdog", "The watchdog keeps a lock for longer than its lease", showWatchdog},
	{"lost lock", "A lost lock is noticed in time", showLoss},
}

const turns = 3 // of each worker

func showCompetition(ctx context.Context, s *stage) error {
	var inside atomic.Int32 // how many workers are at work
	var group sync.WaitGroup
	errs := make([]error, 2)
	for i, client := range []*relock.Client{s.first, s.second} {
		lock := relock.NewRedisLock(s.key("job"), client, relock.WithBlock())
		group.Go(func() { errs[i] = s.takeTurns(ctx, "worker "+string(rune('A'+i)), lock, &inside) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	s.say("Seen: %d turns of two workers, never both at a time.", 2*turns)
	return nil
}

func (s *stage) takeTurns(ctx context.Context, worker string, lock *relock.RedisLock, inside *atomic.Int32) error {
	for range turns {
		s.say("%s wants the lock", worker)
		err := lock.Do(ctx, func(ctx context.Context) error {
			defer inside.Add(-1)
			if inside.Add(1) > 1 {
				return errors.New("the other one is at work")
			}
			s.say("%s has it and works", worker)
			defer s.say("%s is done and releases it", worker)
			return work(ctx, 60*time.Millisecond)
		})
		if err = errors.Join(err, work(ctx, 50*time.Millisecond)); err != nil {
			return fmt.Errorf("%s: %w", worker, err)
		}
	}
	return nil
}

// showNesting locks an account in one function, and again in a function that it
// calls. Neither uses the other's lock object.
func showNesting(ctx context.Context, s *stage) error {
	rival := relock.NewReentrantLock(s.key("account"), s.second)
	transfer := relock.NewReentrantLock(s.key("account"), s.first)
	err := transfer.Do(ctx, func(ctx context.Context) error {
		s.say("transfer has the lock, and calls book")
		book := relock.NewReentrantLock(s.key("account"), s.first)
		err := book.Do(ctx, func(context.Context) error {
			s.say("book has the lock too, through another lock object")
			return nil
		})
		if err != nil {
			return fmt.Errorf("inner lock: %w", err)
		}
		s.say("book has unlocked: a second client still cannot get the lock")
		return expectTaken(ctx, rival)
	})
	if err != nil {
		return err
	}
	if err := expectFree(ctx, rival); err != nil {
		return fmt.Errorf("after the outer unlock: %w", err)
	}
	s.say("transfer has unlocked: a second client gets the lock now")
	s.say("Seen: locked twice, free only after the second unlock.")
	return nil
}

const outlived = 3 // leases

// showWatchdog works for longer than three leases under one hold, while a
// second client keeps trying.
func showWatchdog(ctx context.Context, s *stage) error {
	hold, err := relock.NewRedisLock(s.key("report"), s.first).Acquire(ctx)
	if err != nil {
		return err
	}
	s.say("the lock is held with a lease of %v, and there is work for %d of them", lease, outlived)
	rival := relock.NewRedisLock(s.key("report"), s.second)
	if err := outlive(ctx, s, hold, rival); err != nil {
		_ = hold.Unlock(ctx) // err says more
		return err
	}
	if err := hold.Unlock(ctx); err != nil {
		return err
	}
	s.say("Seen: %d leases went by, and the lock was kept until its unlock.", outlived)
	return expectFree(ctx, rival)
}

func outlive(ctx context.Context, s *stage, hold relock.Hold, rival relock.Mutex) error {
	tries := 0
	for start, n := time.Now(), 1; n <= outlived; tries++ {
		taken := expectTaken(ctx, rival)
		if err := hold.Err(); err != nil { // asked last: a hold ends before its key does
			taken = err
		}
		if taken != nil {
			return fmt.Errorf("after %.2fs of work: %w", time.Since(start).Seconds(), taken)
		}
		if time.Since(start) > time.Duration(n)*lease {
			s.say("%v later it is still held; a second client has failed %d times to get it",
				time.Duration(n)*lease, tries+1)
			n++
		}
		if err := work(ctx, lease/20); err != nil {
			return err
		}
	}
	return nil
}

var del = relock.NewScript(`return redis.call('DEL', KEYS[1])`)

// showLoss deletes the key of a held lock as an operator would, and shows what
// the holder notices before the lease ends.
func showLoss(ctx context.Context, s *stage) error {
	key := s.key("import")
	hold, err := relock.NewRedisLock(key, s.first).Acquire(ctx)
	if err != nil {
		return err
	}
	s.say("the lock is held, and work goes on for as long as the hold's context does")
	if deleted, err := s.second.Eval(ctx, del, []string{"relock:{" + key + "}"}); err != nil || deleted != int64(1) {
		return errors.Join(fmt.Errorf("DEL answered %v", deleted), err, hold.Unlock(ctx))
	}
	s.say("an operator deletes the key with DEL")
	start := time.Now()
	if work(hold.Context(), lease) == nil || ctx.Err() != nil {
		return errors.Join(fmt.Errorf("not noticed within the lease of %v", lease), context.Cause(ctx), hold.Unlock(ctx))
	}
	s.say("the hold's context has ended, %d ms later: %v", time.Since(start).Milliseconds(), context.Cause(hold.Context()))
	unlocked := hold.Unlock(ctx)
	for name, err := range map[string]error{
		"the context's cause": context.Cause(hold.Context()), "Err": hold.Err(), "Unlock": unlocked,
	} {
		if !errors.Is(err, relock.ErrLockLost) {
			return fmt.Errorf("%s is %q, not that the lock was lost", name, fmt.Sprint(err))
		}
	}
	s.say("Seen: the context's cause, Err and Unlock all say that the lock was lost.")
	return nil
}
