package acquire

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/script"
)

// The scripts answer with a number, which does not say what the key is. So a
// call that met something else, or a minimum hold, reads the key once more. It
// does so when it has ended: the read adds to the text of its error, but never
// changes which error that is.

// explainLimit is how long a call may read the key for the text of its error.
const explainLimit = 200 * time.Millisecond

// explain adds to the final error of a call what the key is, and that the call
// made one attempt.
func (w *wait) explain(err error) error {
	switch {
	case err == nil || lockspec.ContextEnd(err) != nil || errors.Is(err, errs.ErrQuorum):
		return err
	case errors.Is(err, errs.ErrKeyConflict):
		return explainConflict(w.Ctx, w.client, w.key, w.Settings, err)
	case !w.block && errors.Is(err, errs.ErrLockAcquiredByOthers):
		return refusedOnce(w.explainMinHold(err), w.Settings)
	}
	return err
}

// explain adds to the final error of a call what the key is on the nodes that
// met something else. It asks them together.
func (a *redAttempt) explain(err error) error {
	if !errors.Is(err, errs.ErrQuorum) || lockspec.ContextEnd(err) != nil {
		return err
	}
	l := a.lock
	var reads sync.WaitGroup
	for n := range a.failed {
		v := &a.failed[n]
		if v.err == errs.ErrKeyConflict { //nolint:errorlint // our own sentinel
			reads.Go(func() { v.err = explainConflict(a.call.Ctx, l.nodes[v.node], l.Key, &l.Settings, v.err) })
		}
	}
	reads.Wait()
	return l.tooFew(a.failed)
}

// explainConflict adds to an error what the key is, and what was requested.
func explainConflict(ctx context.Context, m *lease.Manager, key string, s *lockspec.Spec, err error) error {
	if f, ok := readFound(ctx, m, key); ok {
		return fmt.Errorf("%w: %s, requested as %s", err, f, s.Asked(f))
	}
	return fmt.Errorf("%w: requested as %s", err, s.Asked(lockspec.Found{}))
}

// explainMinHold adds to the error of a refused attempt until when the key is
// kept, if it is. Only a lock with a minimum hold asks. A RedLock does not: no
// single node knows.
func (w *wait) explainMinHold(err error) error {
	if w.Settings.MinHold == 0 || w.Settings.Kind == lockspec.Quorum {
		return err
	}
	if f, ok := readFound(w.Ctx, w.client, w.key); ok && f.State == lockspec.Kept {
		return errs.Kept(err, time.Now().Add(f.Left))
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
		return errs.OneAttempt(err)
	case err == errs.ErrLockAcquiredByOthers: //nolint:errorlint // our own sentinel
		return errOnce
	}
	return fmt.Errorf("%w (one attempt; see WithBlock)", err)
}

var errOnce = fmt.Errorf("%w (one attempt; see WithBlock)", errs.ErrLockAcquiredByOthers)
