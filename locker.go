package relock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/errs"
	"github.com/relock-go/relock/internal/lockspec"
)

// Locker acquires locks by name, independent of the backend. [NewLocker]
// returns one for Redis, and package etcdlock has one for etcd. [Do] is the
// usual way to use a Locker.
//
// Calls can be nested. A call whose context carries a live hold of the same
// Locker and name does not wait: it adds a level. Each level is a [Hold] with
// its own Unlock, and the last Unlock releases the lock. Under a hold that was
// lost, the call returns [ErrLockLost]. Goroutines that use the same context
// share the lock. To exclude each other, they need contexts without the hold.
type Locker interface {
	// Lock waits until it gets the lock or ctx is cancelled. It returns sooner
	// on an error that is not temporary, see [IsRetryableErr], and if the queue
	// is full, see [WithQueueLimit].
	Lock(ctx context.Context, key string) (Hold, error)
	// TryLock makes one attempt. Its error matches [ErrLockAcquiredByOthers] if
	// another owner holds the lock.
	TryLock(ctx context.Context, key string) (Hold, error)
}

// NewLocker returns a Locker whose locks are those of [NewRedisLock] with these
// options, except that calls can be nested. They are unfair unless [WithFair]
// is given. A nested call sends nothing. The goroutine is no owner, and
// [ContextWithOwner] has no effect. Lockers of one client with the same options
// count as the same. Under a hold with other options, Lock returns
// [ErrInvalid] and TryLock [ErrLockAcquiredByOthers].
//
// NewLocker does no I/O, and the Locker needs no closing. Mistakes in the
// options, such as [WithBlockTimeout], are returned in an error that matches
// [ErrInvalid].
func NewLocker(client *Client, opts ...LockOption) (Locker, error) {
	l := &locker{newBase("any", client, opts, lockspec.Locker)}
	if m, ok := l.base.acquirer.(invalid); ok {
		return nil, wrap("new locker", "", m.why)
	}
	return l, nil
}

// locker makes a plain lock for each call. Its options were resolved once.
type locker struct{ base base }

func (l *locker) Lock(ctx context.Context, key string) (Hold, error) { return l.take(ctx, key, true) }

func (l *locker) TryLock(ctx context.Context, key string) (Hold, error) {
	return l.take(ctx, key, false)
}

func (l *locker) take(ctx context.Context, key string, block bool) (Hold, error) {
	var m lockspec.Problems
	lockspec.CheckKey(&m, key)
	b := l.base
	b.target.Use(b.target.Manager, key)
	if err := m.Err(); err != nil {
		b.acquirer = invalid{err}
	}
	return newRedisLock(b).hold(ctx, block)
}

// Logger returns the logger of the client. A [Leader] uses it.
func (l *locker) Logger() *slog.Logger { return l.base.client.engine.Logger }

// String does not contain the name that the locker was checked with.
func (l *locker) String() string { return "locker of redis" }

// Do runs fn while holding the lock with this name of l, as [RedisLock.Do]
// does. It always waits for the lock. A timeout of ctx limits the work as well:
// Lock of l, with a shorter context, limits the wait alone. A release that is
// not confirmed is left to the backend's log.
func Do(ctx context.Context, l Locker, key string, fn func(context.Context) error) error {
	if l == nil {
		return notRun(wrap("lock", key, errNilLocker))
	}
	return doWith(ctx, l.Lock, key, fn)
}

// TryDo is [Do] with one attempt to acquire the lock. Its error matches
// [ErrLockAcquiredByOthers] if another owner holds the lock.
func TryDo(ctx context.Context, l Locker, key string, fn func(context.Context) error) error {
	if l == nil {
		return notRun(wrap("lock", key, errNilLocker))
	}
	return doWith(ctx, l.TryLock, key, fn)
}

var errNilLocker = fmt.Errorf("%w: locker: is nil", ErrInvalid)

// acquireFunc is one of the methods of a Locker.
type acquireFunc func(ctx context.Context, key string) (Hold, error)

// doWith runs fn between acquire and Unlock.
func doWith(ctx context.Context, acquire acquireFunc, key string, fn func(context.Context) error) (err error) {
	if fn == nil {
		return notRun(wrap("lock", key, errNilFn))
	}
	got, err := acquire(ctx, key)
	if err != nil {
		return notRun(asLockError(key, err))
	}
	if own, ok := got.(hold); ok {
		return own.run(ctx, own.level.Unlock, fn)
	}
	defer func() { err = unlockAfter(got, err) }()
	ctx, cancel := under(ctx, got)
	defer cancel(ErrNotHeld)
	return errs.Ran(fn(ctx))
}

// run runs fn while the lock is held, and then unlocks it.
func (h hold) run(ctx context.Context, unlock func() error, fn func(context.Context) error) (err error) {
	defer func() { err = h.after(err, unlock()) }()
	ctx, cancel := h.level.Work(ctx)
	defer cancel(ErrNotHeld)
	return errs.Ran(fn(ctx))
}

// after returns the result of Do: fn's own error, joined with the loss of a
// hold that ended too early.
func (h hold) after(err, unlocked error) error {
	if lost := h.level.FoundLost(); unlocked == ErrNotHeld && lost != nil { //nolint:errorlint // our own sentinel
		unlocked = lost // fn has unlocked it, and got this error
	}
	switch {
	case errors.Is(unlocked, ErrUnconfirmed):
		h.level.WarnUnconfirmed(unlocked)
		return err
	case !errs.IsLoss(unlocked):
		return err // unlocked, by us or by fn
	case err == nil:
		return wrap("unlock", h.Key(), unlocked)
	case errs.Covers(err, unlocked):
		return err
	}
	return errors.Join(err, wrap("unlock", h.Key(), unlocked))
}

// asLockError makes err the error of a Lock call. A Locker of another package
// may return other errors.
func asLockError(key string, err error) error {
	var own *Error
	if errors.As(err, &own) && own.Op == "lock" {
		return err
	}
	return wrap("lock", key, err)
}

// under returns a context that is cancelled with ctx and with a hold of another
// backend, for the reason of the one that ends first. For the deadline of ctx
// it needs a separate timer. A context that follows ctx can only be cancelled,
// but Err must be DeadlineExceeded.
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

// unlockAfter unlocks a hold of another backend after fn. If the hold ended too
// early, it joins that with fn's error.
func unlockAfter(hold Hold, err error) error {
	unlocked := hold.Unlock(context.Background())
	if errors.Is(unlocked, ErrNotHeld) && errs.IsLoss(hold.Err()) {
		unlocked = hold.Err() // fn has unlocked it, and got this error
	}
	switch {
	case !errs.IsLoss(unlocked):
		return err
	case err == nil:
		return unlocked
	case errs.Covers(err, unlocked):
		return err
	}
	return errors.Join(err, unlocked)
}
