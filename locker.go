package relock

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	l := &locker{newHandle("any", client, opts, lockspec.Locker)}
	if l.mistake != nil {
		return nil, wrap("new locker", "", l.mistake)
	}
	return l, nil
}

// locker makes a plain lock for each call, from options that are settled once.
type locker struct{ handle }

func (l *locker) Lock(ctx context.Context, key string) (Hold, error) { return l.take(ctx, key, true) }

func (l *locker) TryLock(ctx context.Context, key string) (Hold, error) {
	return l.take(ctx, key, false)
}

func (l *locker) take(ctx context.Context, key string, block bool) (Hold, error) {
	var m lockspec.Problems
	lockspec.CheckKey(&m, key)
	lock := newRedisLock(handle{key: key, client: l.client, settings: l.settings, mistake: m.Err()})
	return lock.hold(ctx, block)
}

// String says what it is without the name that it was checked with.
func (l *locker) String() string { return "locker of redis" }

// Do runs fn while it has the lock of that name. The context of fn ends with ctx and when the hold is lost, and carries
// the hold, see [HoldFromContext].
//
// If fn was not run, the error is an [*Error] with Op "lock". Else it is fn's own, joined with [ErrLockLost] when the
// hold was lost before the end. A release that is not confirmed is left to the backend's log. If fn panics, the lock is
// unlocked.
func Do(ctx context.Context, l Locker, key string, fn func(context.Context) error) (err error) {
	switch {
	case l == nil:
		return wrap("lock", key, fmt.Errorf("%w: locker: is nil", ErrInvalid))
	case fn == nil:
		return wrap("lock", key, fmt.Errorf("%w: fn: is nil", ErrInvalid))
	}
	hold, err := l.Lock(ctx, key)
	if err != nil {
		return asLockError(key, err)
	}
	defer func() { err = unlockAfter(hold, err) }()
	ctx, cancel := under(ctx, hold)
	defer cancel(ErrNotHeld)
	return fn(ctx)
}

// asLockError is the error of a Locker, also of one that is not ours.
func asLockError(key string, err error) error {
	var own *Error
	if errors.As(err, &own) && own.Op == "lock" {
		return err
	}
	return wrap("lock", key, err)
}

// under is a context that ends with ctx and with the hold, for the reason of
// whichever was first. At the deadline of ctx it ends by a timer of its own:
// what follows ctx can only cancel it, and Err has to be DeadlineExceeded.
func under(ctx context.Context, hold Hold) (context.Context, context.CancelCauseFunc) {
	if h, ok := hold.(*level); ok {
		return h.work(ctx)
	}
	work, cancel := context.WithCancelCause(withHold(hold.Context(), hold))
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

// unlockAfter ends the hold after fn, and joins its end with what fn has returned when it came before its time.
func unlockAfter(hold Hold, err error) error {
	if h, ok := hold.(*level); ok {
		made := handle{key: h.Key(), client: h.lease.client}
		return made.after(err, h.unlock(), h)
	}
	unlocked := hold.Unlock(context.Background())
	if errors.Is(unlocked, ErrNotHeld) && isLoss(hold.Err()) {
		unlocked = hold.Err() // fn has unlocked it, and was told
	}
	switch {
	case !isLoss(unlocked):
		return err
	case err == nil:
		return unlocked
	}
	return errors.Join(err, unlocked)
}

// isLoss says that a hold ended before its time.
func isLoss(err error) bool { return errors.Is(err, ErrLockLost) || errors.Is(err, ErrClosed) }
