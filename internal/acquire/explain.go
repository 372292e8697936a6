package acquire

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
)

// The scripts answer with a number, which does not say what the key is. So a
// call that met something else, or a minimum hold, reads the key once more. It
// does so when it has ended: the read adds to the text of its error, but never
// changes which error that is.

// explainLimit is how long a call may read the key for the text of its error.
// The server has just answered, so only a machine under load takes longer than
// a moment.
const explainLimit = time.Second

// explain is called when a call ends: it waits no more. explain adds to its
// final error what the key is, that its own client has the lock, or that it
// made one attempt.
func (w *wait) explain(err error) error {
	err = w.explainOwn(err)
	w.endOutage(err)
	w.end()
	switch {
	case err == nil || lockspec.ContextEnd(err) != nil || errors.Is(err, errs.ErrQuorum):
		return err
	case errors.Is(err, errs.ErrKeyConflict):
		return explainConflict(w.Ctx, w.client, w.key, w.Settings, err)
	case errors.Is(err, errs.ErrLockAcquiredByOthers):
		if err = w.explainMinHold(err); !w.block {
			return refusedOnce(err, w.Settings)
		}
	}
	return err
}

// explain adds to the final error of a call what the key is on the nodes that
// met something else, or until when a minimum hold keeps the lock.
func (a *redAttempt) explain(err error) error {
	switch {
	case err == nil || lockspec.ContextEnd(err) != nil:
		return err
	case errors.Is(err, errs.ErrQuorum):
		return a.explainConflicts()
	case errors.Is(err, errs.ErrLockAcquiredByOthers) && a.lock.Settings.MinHold > 0:
		return a.explainMinHold(err)
	}
	return err
}

// explainConflicts returns the error of the last round, in which too few nodes
// answered. It asks the nodes that met something else, or are replicas,
// together.
func (a *redAttempt) explainConflicts() error {
	l := a.lock
	var reads sync.WaitGroup
	for n := range a.failed {
		v := &a.failed[n]
		if v.err == errs.ErrKeyConflict { //nolint:errorlint // our own sentinel
			reads.Go(func() { v.err = explainConflict(a.call.Ctx, l.nodes[v.node], l.Key, &l.Settings, v.err) })
		} else if driver.IsReadOnly(v.err) {
			reads.Go(func() { v.err = withRole(a.call.Ctx, l.nodes[v.node], v.err) })
		}
	}
	reads.Wait()
	return l.tooFew(a.failed)
}

// withRole adds to the refusal of a replica whose replica it is. Only that
// shows that nodes of a RedLock may be one server and its copies.
func withRole(ctx context.Context, m *lease.Manager, err error) error {
	if role := driver.RoleUnlessMaster(ctx, explainLimits(), m.Driver); role != "" {
		return fmt.Errorf("%w (it is %s)", err, role)
	}
	return err
}

func explainLimits() driver.Limits {
	return driver.Limits{Connect: explainLimit, Answer: explainLimit, End: time.Now().Add(explainLimit)}
}

// explainConflict adds to an error what the key is, and what was requested.
func explainConflict(ctx context.Context, m *lease.Manager, key string, s *lockspec.Spec, err error) error {
	f, ok := readFound(ctx, m, key)
	if !ok {
		f = lockspec.Found{}
	}
	return fmt.Errorf("%w: %s", err, s.Conflict(f))
}

// explainMinHold adds to the error of a RedLock until when minimum holds keep
// the nodes that it needs. It asks all nodes together. It adds nothing if a
// holder is in the way.
func (a *redAttempt) explainMinHold(err error) error {
	l := a.lock
	left := make([]time.Duration, len(l.nodes))
	var reads sync.WaitGroup
	for n, m := range l.nodes {
		reads.Go(func() {
			left[n] = math.MaxInt64
			if f, ok := readFound(a.call.Caller, m, l.Key); ok && f.State == lockspec.Kept {
				left[n] = f.Left
			} else if ok && f.State == lockspec.Free {
				left[n] = 0
			}
		})
	}
	reads.Wait()
	slices.Sort(left)
	if quorum := left[l.need-1]; quorum > 0 && quorum < math.MaxInt64 {
		return errs.Kept(err, time.Now().Add(quorum))
	}
	return err
}

// explainMinHold adds to the error of a refused call until when the key is
// kept, if it is. Only a lock with a minimum hold asks, once for each call. A
// RedLock asks its nodes. The permits of a semaphore end one by one.
func (w *wait) explainMinHold(err error) error {
	if w.Settings.MinHold == 0 || w.Settings.Kind == lockspec.Quorum || w.Settings.Kind == lockspec.Semaphore {
		return err
	}
	if f, ok := readFound(w.Caller, w.client, w.key); ok && f.State == lockspec.Kept {
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

// readFound reads what a key is, and reports whether that is known. Calls that
// want it together share one request: thousands may meet one conflict.
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
	limit := explainLimits()
	redisKey := m.RedisKey(key)
	o, _ := m.Eval(ctx, limit, script.Call{Script: script.Inspect, Key: redisKey})
	f, ok := lockspec.ReadFound(o.Reply)
	if ok && f.State == lockspec.Foreign {
		o, _ = m.Eval(ctx, limit, script.Call{Script: script.RWInspect, Key: redisKey})
		if rw, ok := lockspec.ReadFoundRW(o.Reply); ok {
			return rw, true
		}
	}
	return f, ok
}

// refusedOnce returns the error of a call that makes one attempt, and found the
// lock held by others. It names WithBlock unless the lock waits anyway, or has
// a minimum hold: a scheduled job that waited would run twice.
func refusedOnce(err error, s *lockspec.Spec) error {
	switch {
	case s.Block || s.MinHold > 0 || s.Kind == lockspec.Locker:
		return errs.OneAttempt(err)
	case err == errs.ErrLockAcquiredByOthers: //nolint:errorlint // our own sentinel
		return errOnce
	}
	return fmt.Errorf("%w (one attempt; see WithBlock)", err)
}

var errOnce = fmt.Errorf("%w (one attempt; see WithBlock)", errs.ErrLockAcquiredByOthers)
