package proof

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/faults"
)

const permitLease = 200 * time.Millisecond

// permitRole takes permits again and again, on several goroutines, until the
// test ends it. Arguments: network, address, goroutines, permits, minimum hold
// in ms or 0.
func permitRole(self *faults.Self, client *relock.Client) error {
	var numbers [3]int
	for i := range numbers {
		var err error
		if numbers[i], err = strconv.Atoi(self.Args[2+i]); err != nil {
			return err
		}
	}
	goroutines, limit, keep := numbers[0], numbers[1], time.Duration(numbers[2])*time.Millisecond
	opts := []relock.LockOption{relock.WithBlock(), relock.WithWatchdog(permitLease)}
	if keep > 0 {
		opts = append(opts, relock.WithMinHold(keep), relock.WithFair())
	}
	s := relock.NewSemaphore("permits", limit, client, opts...)
	ctx := self.Context()
	return faults.Together(goroutines, func(i int) error { return takePermits(ctx, self, s, i) })
}

// takePermits reports each permit when it was granted, with the time until
// which it is valid, and again before it is returned.
func takePermits(ctx context.Context, self *faults.Self, s *relock.Semaphore, goroutine int) error {
	for {
		hold, err := s.Acquire(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			return nil
		case err != nil:
			return err
		}
		from, until := faults.Now(), validUntil(hold, 0)
		self.Emit("begin", goroutine, from, until)
		time.Sleep(rand.N(2 * time.Millisecond)) //nolint:gosec // no secret
		self.Emit("end", goroutine, from, min(validUntil(hold, until), faults.Now()))
		err = hold.Unlock(context.Background())
		if err != nil && !errors.Is(err, relock.ErrLockLost) && !errors.Is(err, relock.ErrUnconfirmed) {
			return err
		}
	}
}

// validUntil returns until when a hold is valid, or known if it has ended.
func validUntil(hold relock.Hold, known int64) int64 {
	if until := hold.ValidUntil(); !until.IsZero() {
		return faults.Stamp(until)
	}
	return known
}
