package relock

import (
	"context"

	"github.com/relock-go/relock/internal/kinds/rwlock"
	"github.com/relock-go/relock/internal/lockspec"
)

// RWLock is a read/write lock: it has many readers or one writer. Its owner can
// acquire it again.
//
// Lock, TryLock, Unlock, Do and Acquire write. RLock, TryRLock, RUnlock and
// RAcquire read, as do all methods of [RWLock.RLocker].
//
// All waiters are in one queue, so neither readers nor writers starve. A reader
// waits behind a writer that came earlier, once the writer has waited for more
// than 10ms. With [WithFair] it always does. Adjacent readers at the front get
// the lock together, up to 64 of them.
//
// The owner is, in order of precedence: the hold that ctx carries,
// [ContextWithOwner], the goroutine, as of a [ReentrantLock]. An owner may
// acquire more levels of either sort, and never queues for them. A writer may
// also read, and stays a reader when it unlocks its write levels. A reader may
// write only while there is no other reader. Otherwise Lock returns
// [ErrUpgrade] immediately.
//
// Each reader has its own lease. So a crashed reader blocks writers no longer
// than its own lease.
//
// Lock inside a hold that was lost returns [ErrLockLost] until the hold's
// outermost Unlock. When Unlock leaves the last write level and read levels
// remain, the owner goes on reading, and other readers may get the lock.
//
// With [WithFencing] each hold has its own token, also the holds of readers
// that read together. The token stays the same when a reader becomes a writer:
// nobody else can have written since it began to read.
type RWLock struct {
	base
	reading base // the same lock, for reading
}

// NewRWLock returns the read/write lock with this name on client. It is cheap,
// does no I/O and needs no closing. Names are 1 to 1024 bytes, and do not start
// with a closing brace.
//
// By default Lock and RLock make one attempt, a hold is renewed until its
// outermost Unlock, and the goroutine is the owner. [WithMinHold] and
// [WithMaxLease] are for other kinds.
func NewRWLock(key string, client *Client, opts ...LockOption) *RWLock {
	l := &RWLock{base: newBase(key, client, opts, lockspec.Write)}
	l.reading = l.base
	l.reading.target.Settings.Kind = lockspec.Read
	l.use(rwlock.New(&l.target))
	l.reading.use(rwlock.New(&l.reading.target))
	return l
}

// RLock acquires the lock for reading, or goes one level deeper. It makes one
// attempt. With [WithBlock] it waits until it gets the lock or ctx is
// cancelled. Its errors are those of Lock.
func (l *RWLock) RLock(ctx context.Context) error { return l.reading.Lock(ctx) }

// TryRLock is RLock in one attempt, also with [WithBlock].
func (l *RWLock) TryRLock(ctx context.Context) error { return l.reading.TryLock(ctx) }

// RUnlock leaves the owner's newest read level, whichever object of this name
// and client acquired it. Its errors are those of Unlock.
func (l *RWLock) RUnlock(ctx context.Context) error { return l.reading.Unlock(ctx) }

// RAcquire is RLock for callers that want the [Hold]. It is one level.
func (l *RWLock) RAcquire(ctx context.Context) (Hold, error) { return l.reading.Acquire(ctx) }

// TryRAcquire is TryRLock for callers that want the [Hold]. It is one level.
func (l *RWLock) TryRAcquire(ctx context.Context) (Hold, error) { return l.reading.TryAcquire(ctx) }

// RLocker returns the lock as readers see it. Its Lock is RLock, its Unlock is
// RUnlock, and its Do runs a function while reading.
func (l *RWLock) RLocker() Mutex { return &l.reading }
