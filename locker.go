package relock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// Locker gives locks by name, the same way for every backend: [NewLocker] makes one for Redis, package etcdlock one
// for etcd. Code that takes a Locker does not need to know which of them it uses, as long as it does not lock a name
// again under its own hold's context: on etcd that is one level more, in Redis a Lock is [ErrInvalid] and a TryLock
// [ErrLockAcquiredByOthers]. See [Do] for the usual way to use it.
type Locker interface {
	// Lock waits until it gets the lock or ctx ends. It ends sooner with what waiting does not mend, see [IsRetryableErr],
	// and where no more may wait ([WithQueueLimit]).
	Lock(ctx context.Context, key string) (Hold, error)
	// TryLock makes one attempt; the error matches [ErrLockAcquiredByOthers] when somebody else has the lock.
	TryLock(ctx context.Context, key string) (Hold, error)
}

// NewLocker returns a Locker whose locks are those of [NewRedisLock] with these options: not reentrant, unfair unless
// [WithFair] is given. It does no I/O and needs no closing. Mistakes in the options, [WithBlockTimeout] among them, are
// an error that matches [ErrInvalid].
func NewLocker(client *Client, opts ...LockOption) (Locker, error) {
	l := &locker{newBase("any", client, opts, lockspec.Locker)}
	if m, ok := l.base.how.(invalid); ok {
		return nil, wrap("new locker", "", m.why)
	}
	return l, nil
}

// locker makes a plain lock for each call, from options that are settled once.
type locker struct{ base base }

func (l *locker) Lock(ctx context.Context, key string) (Hold, error) { return l.take(ctx, key, true) }

func (l *locker) TryLock(ctx context.Context, key string) (Hold, error) {
	return l.take(ctx, key, false)
}

func (l *locker) take(ctx context.Context, key string, block bool) (Hold, error) {
	var m lockspec.Problems
	lockspec.CheckKey(&m, key)
	b := l.base
	b.target.Key = key
	if err := m.Err(); err != nil {
		b.how = invalid{err}
	}
	return newRedisLock(b).hold(ctx, block)
}

// String says what it is without the name that it was checked with.
func (l *locker) String() string { return "locker of redis" }

// Do runs fn while it has the lock of that name. The context of fn ends with
// ctx and when the hold is lost, and carries the hold, see [HoldFromContext].
//
// If fn was not run, the error is an [*Error] with Op "lock". Else it is fn's
// own, joined with [ErrLockLost] when the hold was lost before the end. A
// release that is not confirmed is left to the backend's log. If fn panics, the
// lock is unlocked.
func Do(ctx context.Context, l Locker, key string, fn func(context.Context) error) (err error) {
	switch {
	case l == nil:
		return wrap("lock", key, fmt.Errorf("%w: locker: is nil", ErrInvalid))
	case fn == nil:
		return wrap("lock", key, fmt.Errorf("%w: fn: is nil", ErrInvalid))
	}
	got, err := l.Lock(ctx, key)
	if err != nil {
		return asLockError(key, err)
	}
	if own, ok := got.(hold); ok {
		return own.run(ctx, own.level.Unlock, fn)
	}
	defer func() { err = unlockAfter(got, err) }()
	ctx, cancel := under(ctx, got)
	defer cancel(ErrNotHeld)
	return fn(ctx)
}

// run runs fn while the lock is held, and unlocks it.
func (h hold) run(ctx context.Context, unlock func() error, fn func(context.Context) error) (err error) {
	defer func() { err = h.after(err, unlock()) }()
	ctx, cancel := h.level.Work(ctx)
	defer cancel(ErrNotHeld)
	return fn(ctx)
}

// after is the result of Do: fn's error as it is, joined with the end of a hold
// that ended before its time.
func (h hold) after(err, unlocked error) error {
	if lost := h.level.FoundLost(); unlocked == ErrNotHeld && lost != nil { //nolint:errorlint // our own sentinel
		unlocked = lost // fn has unlocked it, and was told
	}
	switch {
	case errors.Is(unlocked, ErrUnconfirmed):
		h.level.WarnUnconfirmed(unlocked)
		return err
	case !errs.IsLoss(unlocked):
		return err // unlocked, by us or by fn
	case err == nil:
		return wrap("unlock", h.Key(), unlocked)
	}
	return errors.Join(err, wrap("unlock", h.Key(), unlocked))
}

// asLockError is the error of a Locker, also of one that is not ours.
func asLockError(key string, err error) error {
	var own *Error
	if errors.As(err, &own) && own.Op == "lock" {
		return err
	}
	return wrap("lock", key, err)
}

// under is a context that ends with ctx and with a hold of another backend, for
// the reason of whichever was first. At the deadline of ctx it ends by a timer
// of its own: what follows ctx can only cancel it, and Err has to be
// DeadlineExceeded.
func under(ctx context.Context, hold Hold) (context.Context, context.CancelCauseFunc) {
	work, cancel := context.WithCancelCause(carried.WithHold(hold.Context(), hold))
	at, limited := ctx.Deadline()
	stop := context.AfterFunc(ctx, func() {
		if !limited || time.Now().Before(at) {
			cancel(context.Cause(ctx))
		}
	})
	end := func(why error) { stop(); cancel(why) }
	if limited {
		timed, release := context.WithDeadline(work, at)
		return timed, func(why error) { end(why); release() }
	}
	return work, end
}

// unlockAfter ends such a hold after fn, and joins its end with what fn has
// returned when it came before its time.
func unlockAfter(hold Hold, err error) error {
	unlocked := hold.Unlock(context.Background())
	if errors.Is(unlocked, ErrNotHeld) && errs.IsLoss(hold.Err()) {
		unlocked = hold.Err() // fn has unlocked it, and was told
	}
	switch {
	case !errs.IsLoss(unlocked):
		return err
	case err == nil:
		return unlocked
	}
	return errors.Join(err, unlocked)
}
