package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/queue"
)

const crowd = 64 // buyers of a process that order at the same time

// everyBuyer calls do for each buyer of the process, in no order. It returns
// the errors.
func (s *stand) everyBuyer(ctx context.Context, do func(ctx context.Context, buyer string) error) error {
	all := rand.Perm((s.role.buyers - s.role.number + processes - 1) / processes)
	var next atomic.Int64
	errs := make([]error, crowd)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			for n := next.Add(1) - 1; n < int64(len(all)) && errs[i] == nil; n = next.Add(1) - 1 {
				errs[i] = do(ctx, fmt.Sprint("buyer-", s.role.number+processes*all[n]))
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// order gets a buyer into the line. An order that was not answered may be in
// the line already. It is repeated: the line takes each buyer once.
func (s *stand) order(ctx context.Context, buyer string) error {
	return persist(ctx, func() error {
		_, err := s.line.Enqueue(ctx, queue.Task{ID: buyer, Key: stock})
		if errors.Is(err, queue.ErrDuplicate) {
			return nil
		}
		return err
	})
}

// leave gets a buyer out of the line, unless its order is done.
func (s *stand) leave(ctx context.Context, buyer string) error {
	return persist(ctx, func() error {
		err := s.line.Remove(ctx, buyer)
		if errors.Is(err, queue.ErrNotFound) {
			return nil
		}
		return err
	})
}

// persist repeats a request that may succeed later.
func persist(ctx context.Context, request func() error) error {
	for {
		err := request()
		again := relock.IsRetryableErr(err) || errors.Is(err, relock.ErrUnconfirmed) || errors.Is(err, queue.ErrInFlight)
		if !again {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
