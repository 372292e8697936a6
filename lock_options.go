package relock

import (
	"time"

	"github.com/relock-go/relock/internal/lockspec"
)

// A LockOption configures one lock. Given to a [Client] it is the default of
// its locks; a lock's own option wins, and a default that a kind of lock cannot
// honour is ignored there. A nil one is [ErrInvalid].
type LockOption interface {
	ClientOption
	applyLock(*lockspec.Options)
}

// lockOption sets one field and notes that it was given.
type lockOption struct {
	name lockspec.Option
	set  func(*lockspec.Options)
}

func (o lockOption) applyLock(c *lockspec.Options) {
	c.Given |= o.name
	if o.set != nil {
		o.set(c)
	}
}

func (o lockOption) applyClient(c *clientConfig) { o.applyLock(&c.locks) }

// WithBlock makes Lock wait until it gets the lock or its context ends. By default it makes one attempt.
func WithBlock() LockOption { return lockOption{name: lockspec.OptBlock} }

// WithBlockTimeout makes Lock wait for at most d; then it fails with [ErrLockAcquiredByOthers] or the last
// error of the server. It implies [WithBlock].
func WithBlockTimeout(d time.Duration) LockOption {
	return lockOption{lockspec.OptBlock | lockspec.OptBlockTimeout, func(c *lockspec.Options) { c.BlockTimeout = d }}
}

// WithFair hands the lock over in the order of arrival, over all processes, and no TryLock overtakes who waits. A
// client that is gone costs its successors next to nothing, one that hangs the time that a waiter has to take what
// was handed to it, see [WithPollInterval]. All users of a key have to agree on it: whoever meets a lock of the
// other mode gets [ErrKeyConflict]. By default a newcomer may take a lock that has just become free; but a waiter
// that has been there for over 10ms is the next for certain when the lock is given back, not when it ends by itself.
func WithFair() LockOption { return lockOption{name: lockspec.OptFair} }

// WithPollInterval sets how often a waiter looks at the lock by itself while no message can wake it, and how soon it
// tries again after an error. It may be 1ms to a quarter of the lease. The default is 50ms, or a quarter of the
// lease where that is less.
//
// A waiter that the lock is handed to has 1.25s to take it, or four poll intervals where that is more, and one lease
// at most; then the next one has its turn.
func WithPollInterval(d time.Duration) LockOption {
	return lockOption{lockspec.OptPollInterval, func(c *lockspec.Options) { c.PollInterval = d }}
}

// WithMaxHold ends a hold that is not unlocked within d and releases it; its error matches [ErrMaxHold] and
// [ErrLockLost]. It bounds what a forgotten Unlock or a stuck goroutine can do. By default there is no limit.
func WithMaxHold(d time.Duration) LockOption {
	return lockOption{lockspec.OptMaxHold, func(c *lockspec.Options) { c.MaxHold = d }}
}

// WithMinHold keeps the key for at least d after the request was sent that has
// locked it, even when Unlock comes sooner: Unlock returns at once, and others
// get the lock when d is over. It must be whole milliseconds, 10ms to 10 years,
// and no more than [WithMaxHold]. With a minimum above the lease the key is
// taken for d at once, so that neither a crash nor an outage cuts it short. By
// default there is no minimum.
//
// If several replicas have a job that is to run once per period, call TryDo at
// each tick with nine tenths of the period as d. With the whole period, runs
// are skipped: the key is taken a moment after a tick, and is still there at
// the next one. With a much shorter d, the job can run twice, because the
// clocks of the replicas differ.
func WithMinHold(d time.Duration) LockOption {
	return lockOption{lockspec.OptMinHold, func(c *lockspec.Options) { c.MinHold = d }}
}

// WithOwner names the owner of a reentrant or read/write lock, 1 to 256 bytes: calls with the same owner on the same client
// share the hold. By default the goroutine is the owner. See [ContextWithOwner].
func WithOwner(id string) LockOption {
	return lockOption{lockspec.OptOwner, func(c *lockspec.Options) { c.Owner = id }}
}

// WithLabel stores s beside the lock, for people who look at it; at most 256 bytes as escaped for a URL. By
// default there is none.
func WithLabel(s string) LockOption {
	return lockOption{lockspec.OptLabel, func(c *lockspec.Options) { c.Label = s }}
}

// WithFencing gives each hold a fencing token, see [Hold]: a number that is
// higher than those of all holds before it, whatever becomes of them. A store
// that refuses a write with a token below the highest that it has seen is safe
// from a holder that was paused beyond its lease, and does not know it yet. By
// default there is none.
//
// A token is the server's time in microseconds, or one more than the last token
// if that is higher. An unfair [RedisLock] sets some tokens aside, because it
// can be passed on within a process. No token is more than 63 µs ahead of the
// server's clock. So if Redis loses its data, a grant 63 µs later gets a higher
// token than all before it, as long as the server's clock is not set back.
//
// A level of a reentrant hold has the token of the hold, and is [ErrInvalid]
// where that has none.
func WithFencing() LockOption { return lockOption{name: lockspec.OptFencing} }

// WithQueueLimit lets a call fail at once with [ErrQueueFull] when n others wait for the lock: in Redis, and, as the calls
// of one client for an unfair lock share one place there, in this client. Those whose process is gone count until the lock
// is given back and their turn comes. It may be 1 to a million. By default there is no limit.
func WithQueueLimit(n int) LockOption {
	return lockOption{lockspec.OptQueueLimit, func(c *lockspec.Options) { c.QueueLimit = n }}
}

// WithReplicas makes a lock wait until n replicas of the server have it, for at most timeout: an acquire that too few
// confirm in time fails with [ErrReplicas], and is given back. A renewal that too few confirm does not lengthen the hold, and is
// tried again until that ends; an Extend fails with [ErrReplicas] and leaves the hold as it was. So a failover to any replica that
// has all that n of them have confirmed keeps the lock. It makes a loss in a failover less likely, and does not rule it out: Redis
// does not say which replica will be chosen. timeout is whole milliseconds, 10ms to a quarter of the lease. A lock that is passed on
// within a process was confirmed before. A level of a reentrant hold waits for the replicas of the hold, and is [ErrInvalid] when it
// asks for more. By default no replica is waited for.
func WithReplicas(n int, timeout time.Duration) LockOption {
	return lockOption{lockspec.OptReplicas, func(c *lockspec.Options) { c.Replicas, c.ReplicaTimeout = n, timeout }}
}

// WithMaxLease sets the largest lease that any user of a [RedLock] may ask for, with [WithExpiry], [WithWatchdog],
// [WithMinHold] or [Hold.Extend]; a larger one is [ErrInvalid]. A node whose server was started less than that and a
// second or two ago is not counted: it may have forgotten a lock. All users of a key have to agree on it. It must be whole milliseconds, 10ms
// to 10 years. The default is 30s. It is for RedLock alone.
func WithMaxLease(d time.Duration) LockOption {
	return lockOption{lockspec.OptMaxLease, func(c *lockspec.Options) { c.MaxLease = d }}
}
