package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// The pause between two rounds doubles, from the first to the last one.
const (
	firstForcePause = 50 * time.Millisecond
	lastForcePause  = 500 * time.Millisecond
)

// await asks again until nothing is left. It rides out errors that may pass
// until the holds have ended by themselves.
func (f *Force) await(ctx context.Context) error {
	for pause := firstForcePause; len(f.pending) > 0; pause = min(2*pause, lastForcePause) {
		if !f.sleep(ctx, pause) {
			return f.stillHeld(ctx)
		}
		_, err := f.round(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return f.stillHeld(ctx)
		case err != nil && f.isOver():
			return errs.Join(errs.ErrUnconfirmed, err)
		case err != nil && !lockspec.IsRetryable(err):
			return err
		}
	}
	return nil
}

// sleep waits for a pause, which ends when the last hold does. It reports
// whether ctx goes on.
func (f *Force) sleep(ctx context.Context, pause time.Duration) bool {
	if !f.ends.IsZero() && !f.isOver() {
		pause = min(pause, time.Until(f.ends)+time.Millisecond)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// isOver reports whether all holds have ended by themselves, by the last
// answer.
func (f *Force) isOver() bool { return !f.ends.IsZero() && !time.Now().Before(f.ends) }

// stillHeld returns the error of a call whose context has ended while holds are
// marked.
func (f *Force) stillHeld(ctx context.Context) error {
	ends := "no expiry"
	if !f.ends.IsZero() {
		ends = "ends at " + errs.Clock(f.ends)
	}
	return errs.EndOf(ctx, fmt.Errorf("%w: marked, %d of %d holds left, %s",
		errs.ErrLockAcquiredByOthers, f.left, f.all, ends))
}
