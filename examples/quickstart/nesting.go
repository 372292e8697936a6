package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/relock-go/relock"
)

// showNesting locks an account in one function, and again in a function that it
// calls. Neither uses the other's lock object.
func showNesting(ctx context.Context, s *stage) error {
	rival := relock.NewReentrantLock(s.key("account"), s.second)
	if err := transfer(ctx, s, rival); err != nil {
		return err
	}
	if err := expectFree(ctx, rival); err != nil {
		return fmt.Errorf("after the outer unlock: %w", err)
	}
	s.say("transfer has unlocked: a second client gets the lock now")
	s.say("Seen: locked twice, free only after the second unlock.")
	return nil
}

func transfer(ctx context.Context, s *stage, rival relock.Mutex) (err error) {
	lock := relock.NewReentrantLock(s.key("account"), s.first)
	if err := lock.Lock(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock(ctx)) }()
	s.say("transfer has the lock, and calls book")
	if err := book(ctx, s); err != nil {
		return err
	}
	if err := expectTaken(ctx, rival); err != nil {
		return fmt.Errorf("after the inner unlock: %w", err)
	}
	s.say("book has unlocked: a second client still cannot get the lock")
	return nil
}

func book(ctx context.Context, s *stage) error {
	lock := relock.NewReentrantLock(s.key("account"), s.first)
	if err := lock.Lock(ctx); err != nil {
		return fmt.Errorf("inner lock: %w", err)
	}
	s.say("book has the lock too, through another lock object")
	return lock.Unlock(ctx)
}
