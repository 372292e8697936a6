package acquire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// The scripts answer with a number, which does not say what the key is. So a
// call that met something else, or a minimum hold, reads the key once more.
// This only changes the text of its error.

// explainLimit is how long a call may read the key for the text of its error.
const explainLimit = 200 * time.Millisecond

// explain adds to an error what the key is. If once is true, the call makes one
// attempt.
func (t *Target) explain(ctx context.Context, err error, once bool) error {
	return t.explainAt(ctx, t.Manager, t.Key, err, once)
}

// explainAt is explain for a key of this client.
func (t *Target) explainAt(ctx context.Context, m *lease.Manager, key string, err error, once bool) error {
	switch {
	case errors.Is(err, errs.ErrKeyConflict):
		if f, ok := readFound(ctx, m, key); ok {
			return fmt.Errorf("%w: %s, requested as %s", err, f, t.Settings.Asked(f))
		}
		return fmt.Errorf("%w: requested as %s", err, t.Settings.Asked(lockspec.Found{}))
	case once && t.Settings.MinHold > 0 && errors.Is(err, errs.ErrLockAcquiredByOthers):
		if f, ok := readFound(ctx, m, key); ok && f.State == lockspec.Kept {
			return fmt.Errorf("%w: minimum hold until %s", err, errs.Clock(time.Now().Add(f.Left)))
		}
	}
	return err
}

// reading is a read of a key that is under way, for all calls that want it.
type reading struct {
	done  chan struct{}
	found lockspec.Found
	ok    bool
}

// readFound reads what a key is. It returns false if that is not known. Calls
// that want it together share one request: thousands may meet one conflict.
func readFound(ctx context.Context, m *lease.Manager, key string) (lockspec.Found, bool) {
	own := &reading{done: make(chan struct{})}
	if other, taken := m.Reading.LoadOrStore(key, own); taken {
		r := other.(*reading)
		select {
		case <-r.done:
			return r.found, r.ok
		case <-ctx.Done():
			return lockspec.Found{}, false
		}
	}
	own.found, own.ok = inspect(ctx, m, key)
	m.Reading.Delete(key)
	close(own.done)
	return own.found, own.ok
}

func inspect(ctx context.Context, m *lease.Manager, key string) (lockspec.Found, bool) {
	limit := driver.Limits{Connect: explainLimit, Answer: explainLimit, End: time.Now().Add(explainLimit)}
	redisKey := m.RedisKey(key)
	o, _ := m.Eval(ctx, limit, script.Call{Script: script.Inspect, Key: redisKey})
	f, ok := lockspec.ReadFound(o.Reply)
	if ok && f.State == lockspec.Alien {
		o, _ = m.Eval(ctx, limit, script.Call{Script: script.RWInspect, Key: redisKey})
		if rw, ok := lockspec.ReadFoundRW(o.Reply); ok {
			return rw, true
		}
	}
	return f, ok
}

// refusedOnce returns the error of a call that makes one attempt, and found the
// lock held by others.
func refusedOnce(err error, s *lockspec.Spec) error {
	switch {
	case s.Block || s.Kind == lockspec.Locker:
		return fmt.Errorf("%w (one attempt)", err)
	case err == errs.ErrLockAcquiredByOthers: //nolint:errorlint // our own sentinel
		return errOnce
	}
	return fmt.Errorf("%w (one attempt; see WithBlock)", err)
}

var errOnce = fmt.Errorf("%w (one attempt; see WithBlock)", errs.ErrLockAcquiredByOthers)
