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
		err := relock.Do(ctx, s.locker, stock, func(ctx context.Context) error {
			before, _, err := s.count(ctx)
			time.Sleep(payment)
			after, sold, again := s.count(ctx)
			switch err = errors.Join(err, again); {
			case err != nil:
				return err
			case after != before || after+len(sold) != phones:
				return fmt.Errorf("%d phones left, then %d, and %d sold", before, after, len(sold))
			}
			say("stocktaking, under the same lock: %d left, %d sold", after, len(sold))
			left = after
			return nil
		})
		// A count of a lost lock does not count: a sale may have gone on.
		if err != nil && !errors.Is(err, relock.ErrLockLost) && ctx.Err() == nil {
			return fmt.Errorf("stocktaking: %w", err)
		}
	}
	return nil
}
