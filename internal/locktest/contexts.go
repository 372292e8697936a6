package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock"
)

// RoundWithEndingContext takes a lock with a context that ends at a random moment, gives it back, and says what came of it.
func (c *Cell) RoundWithEndingContext(name int) string {
	lock := AnyLock(relock.NewRedisLock(fmt.Sprint("plain", name), c.Client, relock.WithBlock(), relock.WithPollInterval(10*time.Millisecond)))
	if rand.IntN(2) == 0 {
		lock = relock.NewReentrantLock(fmt.Sprint("reentrant", name), c.Client)
	}
	delay := rand.N(3 * time.Millisecond)
	ctx, cancel := context.WithTimeout(c.Context(), delay)
	if rand.IntN(2) == 0 {
		ctx, cancel = context.WithCancel(c.Context())
		defer time.AfterFunc(delay, cancel).Stop()
	}
	defer cancel()
	take := lock.Acquire
	if rand.IntN(2) == 0 {
		take = lock.TryAcquire
	}
	hold, err := take(ctx)
	switch {
	case (hold == nil) == (err == nil):
		return fmt.Sprintf("hold %v, error %v", hold, err)
	case err == nil:
		if err := hold.Unlock(ctx); err != nil {
			return "unlock: " + err.Error()
		}
		return "granted"
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return "ended"
	case errors.Is(err, relock.ErrLockAcquiredByOthers):
		return "held by others"
	}
	return "lock: " + err.Error()
}
