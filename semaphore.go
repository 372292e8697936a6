package relock

import (
	"context"
	"strconv"

	"github.com/relock-go/relock/internal/kinds/semaphore"
	"github.com/relock-go/relock/internal/lockspec"
)

// Semaphore limits how many callers hold it together, over all processes. Each
// holder has a permit with its own lease, so the permit of a crashed process is
// free after that.
//
// The limit is the caller's own number. If the callers of one key differ, each
// keeps to its own: one with 3 permits waits while 3 or more are taken. So a
// rollout can change the number, and a lower one is reached as holders leave.
// The first waiter decides for those behind it, also if their number is higher.
//
// With [WithFair] waiters are served in order of arrival. Without it, a
// newcomer may overtake waiters for their first 10ms. TryAcquire overtakes no
// waiter that came earlier than that.
//
// With [WithMinHold] a permit stays taken for at least d from its grant, by the
// server's clock: after Unlock, and also if the holder dies or its hold is
// forced to end. So no more than so many callers begin in any time of d, which
// limits the rate of calls. Waiters of such a semaphore poll when a minimum
// hold ends, at most once per poll interval, see [WithPollInterval].
//
// It is not reentrant: a nested call takes another permit.
type Semaphore struct{ base base }

// The fewest and the most permits.
const (
	minPermits = 1
	maxPermits = 10_000
)

// NewSemaphore returns the semaphore with this name and number of permits on
// client, 1 to 10000. It is cheap, does no I/O and needs no closing. Names are
// 1 to 1024 bytes, and do not start with a closing brace. Goroutines may share
// it.
//
// By default Acquire makes one attempt, and a hold is renewed until Unlock.
// [WithFencing] and [WithMaxLease] are for other kinds: holds side by side have
// no order.
func NewSemaphore(key string, permits int, client *Client, opts ...LockOption) *Semaphore {
	var m lockspec.Problems
	lockspec.CheckKey(&m, key)
	m.Check(permits >= minPermits && permits <= maxPermits, "permits: %d is not %d to %d", permits, minPermits, maxPermits)
	s := &Semaphore{newBaseWith(m, key, client, opts, lockspec.Semaphore)}
	s.base.target.Settings.Permits = int32(min(max(permits, 0), maxPermits))
	s.base.use(semaphore.New(&s.base.target))
	return s
}

// Validate returns all mistakes in the arguments and options in one error,
// which matches [ErrInvalid]. Without mistakes it returns nil.
func (s *Semaphore) Validate() error { return s.base.Validate() }

// Acquire takes a permit, which the Unlock of the [Hold] returns. It makes one
// attempt. With [WithBlock] it waits until it gets a permit or ctx is
// cancelled. If no permit is free, the error matches
// [ErrLockAcquiredByOthers]. Its other errors are those of [RedisLock.Lock].
// The hold cannot be detached, see [Client.Detach].
func (s *Semaphore) Acquire(ctx context.Context) (Hold, error) { return s.base.Acquire(ctx) }

// TryAcquire is Acquire in one attempt, also with [WithBlock].
func (s *Semaphore) TryAcquire(ctx context.Context) (Hold, error) { return s.base.TryAcquire(ctx) }

// Do runs fn with a permit, as [RedisLock.Do] runs it with the lock.
func (s *Semaphore) Do(ctx context.Context, fn func(context.Context) error) error {
	return s.base.Do(ctx, fn)
}

// TryDo is Do with one attempt to get a permit.
func (s *Semaphore) TryDo(ctx context.Context, fn func(context.Context) error) error {
	return s.base.TryDo(ctx, fn)
}

// String returns "semaphore" and the quoted name.
func (s *Semaphore) String() string { return "semaphore " + strconv.Quote(s.base.target.Key) }
