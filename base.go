package relock

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/kinds/resume"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
)

// base is a lock. It has the methods that all kinds share.
type base struct {
	client   *Client // its observer is notified
	target   acquire.Target
	acquirer acquirer // nil if the lock was not made by its constructor
}

// Validate returns all mistakes in the lock's arguments and options in one
// error, which matches [ErrInvalid]. Without mistakes it returns nil.
func (b *base) Validate() error { return wrap("validate", b.target.Key, b.configErr()) }

// Lock acquires the lock. It makes one attempt. With [WithBlock] it waits until
// it gets the lock or ctx is cancelled. It returns no context: Unlock shows a
// later loss, and the contexts of Do and of a [Hold] are cancelled in time. The
// package documentation lists the errors under Outcomes.
func (b *base) Lock(ctx context.Context) error {
	_, err := b.call(ctx, b.target.Settings.Block, true)
	return err
}

// TryLock acquires the lock in one attempt, also with [WithBlock].
func (b *base) TryLock(ctx context.Context) error {
	_, err := b.call(ctx, false, true)
	return err
}

// Unlock ends what Lock or TryLock acquired, as [RedisLock.Unlock] does. Of a
// [ReentrantLock] it ends the owner's newest level, of an [RWLock] the newest
// one that writes, whichever object of this name and client acquired it.
func (b *base) Unlock(ctx context.Context) error {
	if err := b.ready(ctx); err != nil {
		return wrap("unlock", b.target.Key, err)
	}
	return wrap("unlock", b.target.Key, b.acquirer.Release(ctx))
}

// Do runs fn while holding the lock, as [RedisLock.Do] does.
func (b *base) Do(ctx context.Context, fn func(context.Context) error) error {
	return b.do(ctx, b.target.Settings.Block, fn)
}

// TryDo is Do with one attempt to acquire the lock.
func (b *base) TryDo(ctx context.Context, fn func(context.Context) error) error {
	return b.do(ctx, false, fn)
}

// Acquire is Lock for callers that want the [Hold], as [RedisLock.Acquire] is.
// Of a [ReentrantLock] and an [RWLock] the hold is one level.
func (b *base) Acquire(ctx context.Context) (Hold, error) {
	return b.hold(ctx, b.target.Settings.Block)
}

// TryAcquire is TryLock for callers that want the [Hold].
func (b *base) TryAcquire(ctx context.Context) (Hold, error) { return b.hold(ctx, false) }

// hold acquires the lock and returns its Hold.
func (b *base) hold(ctx context.Context, block bool) (Hold, error) {
	got, err := b.call(ctx, block, false)
	if err != nil {
		return nil, err
	}
	return hold{got}, nil
}

// do runs fn between Lock and Unlock.
func (b *base) do(ctx context.Context, block bool, fn func(context.Context) error) error {
	if fn == nil {
		return notRun(wrap("lock", b.target.Key, errNilFn))
	}
	got, err := b.call(ctx, block, true)
	if err != nil {
		return notRun(err)
	}
	return hold{got}.run(ctx, func() error { return b.acquirer.Unlock(got) }, fn)
}

// take acquires the lock in the way of its kind.
func (b *base) take(ctx context.Context, block, lasting bool) (h *lease.Hold, waited bool, err error) {
	if err := b.ready(ctx); err != nil {
		return nil, false, err
	}
	return b.acquirer.Take(ctx, block, lasting)
}

// acquirer acquires and releases the locks of one kind.
type acquirer interface {
	// Take acquires the lock. Lock and Do set lasting: the hold then belongs to
	// the object or the owner until Release. waited reports whether the
	// call did not get the lock at its first attempt, and waited for it.
	Take(ctx context.Context, block, lasting bool) (h *lease.Hold, waited bool, err error)
	// Release ends the hold that a lasting Take of the caller acquired last.
	Release(ctx context.Context) error
	// Unlock ends a hold that a lasting Take returned.
	Unlock(h *lease.Hold) error
}

// newBase returns the lock with this name. How it is acquired is set by use.
func newBase(key string, client *Client, opts []LockOption, k *lockspec.Kind) base {
	var m lockspec.Problems
	lockspec.CheckKey(&m, key)
	return newBaseWith(m, key, client, opts, k)
}

// newBaseWith is newBase for a key that was checked: m has its mistakes.
func newBaseWith(m lockspec.Problems, key string, client *Client, opts []LockOption, k *lockspec.Kind) base {
	b := base{client: client, target: acquire.Target{Key: key}}
	var defaults lockspec.Options
	m.CheckClient("client", client == nil, client.isMade())
	if client.isMade() {
		defaults = client.config.locks
		b.target.Use(client.engine, key)
	}
	b.target.Settings = lockspec.Resolve(defaults, applied(opts, &m), k, &m)
	if err := m.Err(); err != nil {
		b.acquirer = invalid{err}
	}
	return b
}

// applied returns the lock's own options. It adds their mistakes to m.
func applied(opts []LockOption, m *lockspec.Problems) (own lockspec.Options) {
	for i, opt := range opts {
		if m.Check(opt != nil, "opts[%d]: LockOption is nil", i); opt != nil {
			opt.applyLock(&own)
		}
	}
	return own
}

// use sets how the lock is acquired, unless the lock is invalid.
func (b *base) use(a acquirer) {
	if b.acquirer == nil {
		b.acquirer = a
	}
}

// invalid is the acquirer of a lock with mistakes in its key or options. Every
// call returns the mistakes.
type invalid struct{ why error }

// Take returns the mistakes.
func (m invalid) Take(context.Context, bool, bool) (*lease.Hold, bool, error) {
	return nil, false, m.why
}

// Release returns the mistakes.
func (m invalid) Release(context.Context) error { return m.why }

// Unlock returns the mistakes.
func (m invalid) Unlock(*lease.Hold) error { return m.why }

// configErr returns the mistakes in the lock itself, or nil.
func (b *base) configErr() error {
	if b.acquirer == nil {
		return errNotMade
	}
	if m, ok := b.acquirer.(invalid); ok {
		return m.why
	}
	return nil
}

var errNilFn = fmt.Errorf("%w: fn: is nil", ErrInvalid)

var errNotMade = fmt.Errorf("%w: lock: was not made by its constructor", ErrInvalid)

// ready returns an error if the lock is invalid or ctx is nil. It does not
// check whether the client was closed.
func (b *base) ready(ctx context.Context) error {
	if err := b.configErr(); err != nil {
		return err
	}
	if ctx == nil {
		return errNilContext
	}
	return nil
}

// String returns "lock" and the quoted name.
func (b *base) String() string { return "lock " + strconv.Quote(b.target.Key) }

// op returns the operation of an acquiring call, for its error.
func (b *base) op() string {
	if _, resumed := b.acquirer.(resume.Lock); resumed {
		return "resume"
	}
	return "lock"
}

// call acquires the lock and notifies the observer.
func (b *base) call(ctx context.Context, block, lasting bool) (*lease.Hold, error) {
	o, start := b.observer(), LockStart{b.target.Key, b.target.Settings.KindName(), block}
	seen := orEmpty(ctx)
	var began time.Time
	if o.LockDone != nil {
		began = time.Now()
	}
	if o.LockStart != nil {
		o.LockStart(seen, start)
	}
	got, waited, err := b.take(ctx, block, lasting)
	err = wrap(b.op(), b.target.Key, err)
	if o.LockDone != nil {
		o.LockDone(seen, LockDone{start, began, time.Now(), err, waited})
	}
	if err == nil {
		got.Announce()
	}
	return got, err
}
