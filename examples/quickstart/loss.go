package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
)

// showLoss deletes the key of a held lock externally, and shows what the holder
// notices.
func showLoss(ctx context.Context, s *stage) error {
	key := s.key("import")
	hold, err := relock.NewRedisLock(key, s.first).Acquire(ctx)
	if err != nil {
		return err
	}
	s.say("the lock is held, and work goes on for as long as the hold's context does")
	if err := deleteKey(ctx, s, key); err != nil {
		_ = hold.Unlock(ctx) // err says more
		return err
	}
	after, err := untilNoticed(ctx, hold)
	if err != nil {
		_ = hold.Unlock(ctx) // err says more
		return err
	}
	s.say("the hold's context has ended, %d ms later: %v", after.Milliseconds(), context.Cause(hold.Context()))
	return checkLoss(ctx, s, hold)
}

var del = relock.NewScript(`return redis.call('DEL', KEYS[1])`)

// deleteKey is what an operator's DEL does.
func deleteKey(ctx context.Context, s *stage, key string) error {
	deleted, err := s.second.Eval(ctx, del, []string{"relock:{" + key + "}"})
	if err != nil {
		return err
	}
	if deleted != int64(1) {
		return fmt.Errorf("DEL answered %v, the key was not there", deleted)
	}
	s.say("an operator deletes the key with DEL")
	return nil
}

// untilNoticed waits for the end of the hold, which must come before the end of
// the lease.
func untilNoticed(ctx context.Context, hold relock.Hold) (time.Duration, error) {
	start := time.Now()
	if work(hold.Context(), lease) == nil {
		return 0, fmt.Errorf("not noticed within the lease of %v", lease)
	}
	return time.Since(start), ctx.Err()
}

func checkLoss(ctx context.Context, s *stage, hold relock.Hold) error {
	unlocked := hold.Unlock(ctx)
	for _, answer := range []struct {
		name string
		err  error
	}{
		{"the context's cause", context.Cause(hold.Context())}, {"Err", hold.Err()}, {"Unlock", unlocked},
	} {
		if !errors.Is(answer.err, relock.ErrLockLost) {
			return fmt.Errorf("%s says %q, not that the lock was lost", answer.name, fmt.Sprint(answer.err))
		}
	}
	s.say("Seen: the context's cause, Err and Unlock all say that the lock was lost.")
	return nil
}
