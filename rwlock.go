package relock

import "context"

// RWLock is a lock that many may hold to read, or one alone to write, and that its owner can take again.
//
// Lock, TryLock, Unlock, Do and Acquire write; RLock, TryRLock, RUnlock and RAcquire read, as does all of [RWLock.RLocker].
// Who waits does so in one queue, so that neither those who read nor those who write starve: a reader that comes after a
// writer who has waited for more than 10ms, or always [WithFair], waits behind it. Readers next to each other at the front
// get the lock together, up to 64 at once.
//
// The owner is, in this order: the hold that ctx carries, [ContextWithOwner], [WithOwner], the goroutine. An owner may
// take more levels of either sort, and never queues for them: who writes may read as well, and goes on reading when it
// unlocks the levels that write. Who reads may write only while nobody else reads, else it gets [ErrUpgrade] at once.
//
// The lease of each reader ends by itself: one whose process died keeps writers out no longer than its own lease.
//
// With [WithFencing] each hold has a token of its own, also of those who read together. It stays the same when the owner
// goes on to write: nobody else can have written since it began to read.
type RWLock struct {
	handle
	reading handle // the same for those who read
}

const rwOptions = ^(optMinHold | optMaxLease)

// NewRWLock returns the read/write lock of this name on client. It is cheap, does no I/O and needs no closing. Names are
// 1 to 1024 bytes and do not start with a closing brace.
//
// By default Lock and RLock make one attempt, a hold is renewed until its outermost Unlock, and the goroutine is the
// owner. It cannot honour [WithMinHold] and [WithMaxLease].
func NewRWLock(key string, client *Client, opts ...LockOption) *RWLock {
	l := &RWLock{handle: newHandle(key, client, opts, rwOptions)}
	l.settings.kind = kindRead
	l.reading = l.handle
	l.settings.kind, l.settings.write = kindWrite, true
	return l
}

// Validate reports all mistakes in the key and the options, in an error that matches [ErrInvalid].
func (l *RWLock) Validate() error { return l.validate() }

// Lock takes the lock to write, or goes one level deeper: in one attempt, or with [WithBlock] as soon as it can, until ctx
// ends. An owner that reads while others do gets [ErrUpgrade]. A level inside a hold that was lost is [ErrLockLost],
// until the hold's outermost Unlock.
func (l *RWLock) Lock(ctx context.Context) error {
	_, err := l.call(ctx, l.settings.block, l.write)
	return err
}

// TryLock is Lock in one attempt, also with [WithBlock].
func (l *RWLock) TryLock(ctx context.Context) error {
	_, err := l.call(ctx, false, l.write)
	return err
}

// Unlock leaves the owner's newest level that writes, whichever object of this name and client took it; [ErrNotHeld] when
// the owner has none. When it was the last that writes, and others read, the owner goes on reading, and so may others. See
// [Hold] for its other errors.
func (l *RWLock) Unlock(ctx context.Context) error {
	return wrap("unlock", l.key, l.unlockNewest(ctx, rwKind, newestThat(true)))
}

// Do runs fn while holding the lock to write. Its context ends with ctx and when the hold is lost, and carries the hold:
// goroutines that use it share the owner.
//
// If fn was not run, the error is an [*Error] with Op "lock". Else it is fn's own, joined with [ErrLockLost] when the
// hold was lost before the end. A release that is not confirmed is logged. If fn panics, the lock is unlocked.
func (l *RWLock) Do(ctx context.Context, fn func(context.Context) error) error {
	return l.do(ctx, l.settings.block, fn, l.write, (*level).unlock)
}

// TryDo is Do with one attempt to get the lock.
func (l *RWLock) TryDo(ctx context.Context, fn func(context.Context) error) error {
	return l.do(ctx, false, fn, l.write, (*level).unlock)
}

// Acquire is Lock for callers that want the [Hold], here one level.
func (l *RWLock) Acquire(ctx context.Context) (Hold, error) {
	return l.hold(ctx, l.settings.block, l.write)
}

// TryAcquire is TryLock for callers that want the [Hold], here one level.
func (l *RWLock) TryAcquire(ctx context.Context) (Hold, error) {
	return l.hold(ctx, false, l.write)
}

// RLock takes the lock to read, or goes one level deeper: in one attempt, or with [WithBlock] as soon as it can, until
// ctx ends. See Lock for the rest.
func (l *RWLock) RLock(ctx context.Context) error {
	_, err := l.reading.call(ctx, l.settings.block, l.read)
	return err
}

// TryRLock is RLock in one attempt, also with [WithBlock].
func (l *RWLock) TryRLock(ctx context.Context) error {
	_, err := l.reading.call(ctx, false, l.read)
	return err
}

// RUnlock leaves the owner's newest level that reads, whichever object of this name and client took it; [ErrNotHeld] when
// the owner has none. See [Hold] for its other errors.
func (l *RWLock) RUnlock(ctx context.Context) error {
	return wrap("unlock", l.key, l.unlockNewest(ctx, rwKind, newestThat(false)))
}

// RAcquire is RLock for callers that want the [Hold], here one level.
func (l *RWLock) RAcquire(ctx context.Context) (Hold, error) {
	return l.reading.hold(ctx, l.settings.block, l.read)
}

// TryRAcquire is TryRLock for callers that want the [Hold], here one level.
func (l *RWLock) TryRAcquire(ctx context.Context) (Hold, error) {
	return l.reading.hold(ctx, false, l.read)
}

// RLocker returns the lock as those see it who read: its Lock is RLock, its Unlock is RUnlock, and its Do runs a function
// while reading.
func (l *RWLock) RLocker() Mutex { return &readLocker{l} }

func (l *RWLock) write(ctx context.Context, block bool) (*level, error) {
	return l.acquire(ctx, &l.settings, block)
}

func (l *RWLock) read(ctx context.Context, block bool) (*level, error) {
	return l.acquire(ctx, &l.reading.settings, block)
}

// readLocker is what RLocker returns.
type readLocker struct{ lock *RWLock }

func (r *readLocker) Lock(ctx context.Context) error    { return r.lock.RLock(ctx) }
func (r *readLocker) TryLock(ctx context.Context) error { return r.lock.TryRLock(ctx) }
func (r *readLocker) Unlock(ctx context.Context) error  { return r.lock.RUnlock(ctx) }

func (r *readLocker) Do(ctx context.Context, fn func(context.Context) error) error {
	return r.lock.reading.do(ctx, r.lock.settings.block, fn, r.lock.read, (*level).unlock)
}

func (r *readLocker) TryDo(ctx context.Context, fn func(context.Context) error) error {
	return r.lock.reading.do(ctx, false, fn, r.lock.read, (*level).unlock)
}

// String names the lock.
func (r *readLocker) String() string { return r.lock.String() }
