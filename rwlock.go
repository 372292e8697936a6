package relock

import (
	"context"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lockspec"
)

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
// Lock returns [ErrUpgrade] to an owner that reads while others do. Inside a hold
// that was lost it returns [ErrLockLost] until the hold's outermost Unlock. When
// Unlock leaves the last level that writes and others read, the owner goes on
// reading, and other readers may get the lock.
//
// With [WithFencing] each hold has a token of its own, also of those who read together. It stays the same when the owner
// goes on to write: nobody else can have written since it began to read.
type RWLock struct {
	base
	reading base // the same lock, for reading
}

// NewRWLock returns the read/write lock of this name on client. It is cheap, does no I/O and needs no closing. Names are
// 1 to 1024 bytes and do not start with a closing brace.
//
// By default Lock and RLock make one attempt, a hold is renewed until its outermost Unlock, and the goroutine is the
// owner. It cannot honour [WithMinHold] and [WithMaxLease].
func NewRWLock(key string, client *Client, opts ...LockOption) *RWLock {
	l := &RWLock{base: newBase(key, client, opts, lockspec.Write)}
	l.reading = l.base
	l.reading.target.Settings.Kind = lockspec.Read
	l.use(acquire.ReadWrite{Target: &l.target})
	l.reading.use(acquire.ReadWrite{Target: &l.reading.target})
	return l
}

// RLock acquires the lock for reading, or goes one level deeper: in one attempt,
// or with [WithBlock] as soon as it can, until ctx is cancelled. See Lock for
// the rest.
func (l *RWLock) RLock(ctx context.Context) error { return l.reading.Lock(ctx) }

// TryRLock is RLock in one attempt, also with [WithBlock].
func (l *RWLock) TryRLock(ctx context.Context) error { return l.reading.TryLock(ctx) }

// RUnlock leaves the owner's newest level that reads, whichever object of this
// name and client acquired it. It returns [ErrNotHeld] if the owner has none.
// See [Hold] for its other errors.
func (l *RWLock) RUnlock(ctx context.Context) error { return l.reading.Unlock(ctx) }

// RAcquire is RLock for callers that want the [Hold], here one level.
func (l *RWLock) RAcquire(ctx context.Context) (Hold, error) { return l.reading.Acquire(ctx) }

// TryRAcquire is TryRLock for callers that want the [Hold], here one level.
func (l *RWLock) TryRAcquire(ctx context.Context) (Hold, error) { return l.reading.TryAcquire(ctx) }

// RLocker returns the lock as readers see it: its Lock is RLock, its Unlock is
// RUnlock, and its Do runs a function while reading.
func (l *RWLock) RLocker() Mutex { return &l.reading }
