package main

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock"
)

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
	for start, n := time.Now(), 1; n <= outlived; {
		if err := stillHeld(ctx, hold, rival); err != nil {
			return fmt.Errorf("after %.2fs of work: %w", time.Since(start).Seconds(), err)
		}
		tries++
		if time.Since(start) > time.Duration(n)*lease {
			s.say("%v later it is still held; a second client has failed %d times to get it", time.Duration(n)*lease, tries)
			n++
		}
		if err := work(ctx, lease/20); err != nil {
			return err
		}
	}
	return nil
}

// stillHeld fails if the hold has reported its end. It must never happen that
// the key is free and the hold still valid.
func stillHeld(ctx context.Context, hold relock.Hold, rival relock.Mutex) error {
	taken := expectTaken(ctx, rival)
	if err := hold.Err(); err != nil { // asked last: a hold ends before its key does
		return err
	}
	return taken
}
