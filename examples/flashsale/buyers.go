package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/queue"
)

const crowd = 64 // buyers of a process that order at the same time

// everyBuyer calls do for each buyer of the process, in no order, until one
// fails.
func (s *stand) everyBuyer(ctx context.Context, do func(ctx context.Context, buyer string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(crowd)
	for _, n := range rand.Perm((s.role.Buyers - s.role.Number + processes - 1) / processes) {
		group.Go(func() error { return do(ctx, fmt.Sprint("buyer-", s.role.Number+processes*n)) })
	}
	return group.Wait()
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
