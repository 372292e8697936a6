package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock"
)

// takeStock counts the phones every half a second until none are left, under
// the lock of the sales. No sale may go on meanwhile.
func takeStock(ctx context.Context, s *shop, say func(string, ...any)) error {
	for left := phones; left > 0; {
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
		counted := left
		err := relock.Do(ctx, s.locker, stock, func(ctx context.Context) (err error) {
			counted, err = countTwice(ctx, s, say)
			return err
		})
		switch {
		case errors.Is(err, relock.ErrLockLost) || ctx.Err() != nil:
			continue // A sale may have gone on: the count does not count.
		case err != nil:
			return fmt.Errorf("stocktaking: %w", err)
		}
		left = counted
	}
	return nil
}

func countTwice(ctx context.Context, s *shop, say func(string, ...any)) (int, error) {
	before, _, err := s.count(ctx)
	if err != nil {
		return 0, err
	}
	time.Sleep(payment)
	left, sold, err := s.count(ctx)
	if err != nil {
		return 0, err
	}
	if left != before || left+len(sold) != phones {
		return 0, fmt.Errorf("%d phones left, then %d, and %d sold", before, left, len(sold))
	}
	say("stocktaking, under the same lock: %d left, %d sold", left, len(sold))
	return left, nil
}
