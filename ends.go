package relock

import (
	"context"
	"errors"
	"fmt"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
)

// errLate is an acquire that was granted after the lease or the maximum hold
// that it grants had ended.
var errLate = errs.Both(errors.New("the grant came when its lease or its maximum hold had ended"), driver.ErrTimeout)

// endOf is the error of a call whose context has ended: it matches ctx.Err(),
// its cause, and the last reason seen.
func endOf(ctx context.Context, last error) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		err = errs.Both(err, cause)
	}
	if last != nil && !errors.Is(err, last) {
		err = fmt.Errorf("%w: %w", err, last)
	}
	return err
}

// ended turns the error of a call whose caller left into the end of its
// context.
func ended(ctx context.Context, err error) error {
	if errors.Is(err, driver.ErrAbandoned) {
		return endOf(ctx, nil)
	}
	return err
}

// isLoss reports whether a hold ended before its time.
func isLoss(err error) bool {
	return errors.Is(err, errs.ErrLockLost) || errors.Is(err, errs.ErrClosed)
}
