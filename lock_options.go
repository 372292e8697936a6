package relock

import (
	"time"

	"github.com/relock-go/relock/internal/lockspec"
)

// A LockOption configures one lock. Given to a [Client] it is the default of
// its locks. A lock's own option overrides the default. A kind of lock ignores
// a default that it does not support. So a [Locker] waits for longer than a
// default [WithBlockTimeout], a [RedLock] ignores a default [WithReplicas], and
// an [RWLock] a default [WithMinHold]. A nil option is [ErrInvalid].
type LockOption interface {
	ClientOption
	applyLock(*lockspec.Options)
}

// lockOption sets one field and records that it was given.
type lockOption struct {
	name lockspec.Option
	set  func(*lockspec.Options)
}

var _ lockspec.Applier = lockOption{}

// Apply is applyLock for other packages of this module.
func (o lockOption) Apply(c *lockspec.Options) { o.applyLock(c) }

func (o lockOption) applyLock(c *lockspec.Options) {
	c.Given |= o.name
	if o.set != nil {
		o.set(c)
	}
}

func (o lockOption) applyClient(c *clientConfig) { o.applyLock(&c.locks) }

// WithBlock makes Lock wait until it gets the lock or its context is cancelled.
// By default it makes one attempt. For a lock of a client with a default
// [WithBlockTimeout], it lifts that limit.
func WithBlock() LockOption { return lockOption{name: lockspec.OptBlock} }

// WithBlockTimeout makes Lock wait for at most d. Then it fails with
// [ErrLockAcquiredByOthers] or the last error of the server. It implies
// [WithBlock]. A [Locker] does not have it: give its Lock a context with a
// timeout.
func WithBlockTimeout(d time.Duration) LockOption {
	return lockOption{lockspec.OptBlock | lockspec.OptBlockTimeout, func(c *lockspec.Options) { c.BlockTimeout = d }}
}

// WithFair grants the lock in order of arrival across all processes. TryLock
// never overtakes a waiter. A waiter that crashed or hangs delays those behind
// it by the time that it has to take the lock, see [WithPollInterval]. After
// 2.5s of silence it delays nobody. The order survives a failover as far as the
// new master knows it.
//
// Calls with and without WithFair may use the same lock, as in a rolling
// deploy. They wait in one queue, and nobody overtakes a fair first waiter. But
// an unfair call takes a key that is free at its first request, as [MultiLock]
// does. So the order is strict once the last unfair caller has gone.
//
// By default a lock is unfair: a newcomer may take a lock that has just become
// free. But a waiter of over 10ms is certainly next when the lock is released.
// That does not hold when the lock expires.
func WithFair() LockOption { return lockOption{name: lockspec.OptFair} }

// WithPollInterval sets how often a waiter polls while no notification can
// reach it, and how soon it retries after an error. It may be 1ms to a quarter
// of the lease. The default is 50ms, or a quarter of the lease if that is less.
//
// A waiter has 1.25s to take a lock that is handed off to it, or four poll
// intervals if that is more. It never has more than one lease. Then it is the
// next waiter's turn.
func WithPollInterval(d time.Duration) LockOption {
	return lockOption{lockspec.OptPollInterval, func(c *lockspec.Options) { c.PollInterval = d }}
}

// WithMaxHold ends and releases a hold that is not unlocked within d. Its error
// matches [ErrMaxHold] and [ErrLockLost]. It limits the effect of a forgotten
// Unlock. It does not end the work: the context of the hold is cancelled, and a
// function that goes on runs beside the next holder. By default there is no
// limit: a forgotten hold is renewed until the process ends. One that is older
// than 100 leases is logged.
func WithMaxHold(d time.Duration) LockOption {
	return lockOption{lockspec.OptMaxHold, func(c *lockspec.Options) { c.MaxHold = d }}
}

// WithMinHold keeps the lock for at least d, even if Unlock comes sooner. d
// counts from the sending of the request that has acquired the lock. Unlock
// returns immediately, and others get the lock when d is over. d must be whole
// milliseconds, 10ms to 10 years, and no more than [WithMaxHold]. If d is above
// the lease, the key is taken for d from the start. So neither a crash nor an
// outage cuts it short. For a [RedLock], d above [WithMaxLease] is
// [ErrInvalid]. By default there is no minimum. For a [Semaphore] d counts from
// the grant, by the server's clock.
//
// Use it if several replicas have a job that is to run once per period. Call
// TryDo at each tick, with nine tenths of the period as d. With the whole
// period, runs are skipped: the key is taken a moment after a tick, and is
// still there at the next one. d must be longer than the clocks of the replicas
// differ, or the job can run twice. A job that failed or crashed runs again
// after d at the earliest. So for a period of a day, an hour is better.
//
// The error of a refused attempt says until when the lock is kept, and so does
// that of a wait that reached its block timeout. That costs one more request,
// and for a [RedLock] one to each node. The permits of a [Semaphore] end one by
// one, and its errors do not say when.
func WithMinHold(d time.Duration) LockOption {
	return lockOption{lockspec.OptMinHold, func(c *lockspec.Options) { c.MinHold = d }}
}

// WithLabel stores s with the lock, for people who inspect it. s has at most
// 256 bytes when escaped for a URL. By default there is no label.
func WithLabel(s string) LockOption {
	return lockOption{lockspec.OptLabel, func(c *lockspec.Options) { c.Label = s }}
}

// WithFencing gives each hold a fencing token, see [Hold.Fence]. The token is a
// number that is higher than those of all holds before it, whatever becomes of
// them. A holder that was paused beyond its lease may not know it yet, and may
// still write. A store is safe from it if it refuses a write with a token below
// the highest that it has seen. By default there is no token.
//
// A token is the server's time in microseconds, or one more than the last token
// if that is higher. An unfair [RedisLock] sets some tokens aside, because it
// can be handed off within a process. No token is more than 63 µs ahead of the
// server's clock. So if Redis loses its data, a grant 63 µs later gets a higher
// token than all before it. This holds as long as the server's clock is not set
// back.
//
// A level of a reentrant hold has the token of the hold. If the hold has none,
// the level is [ErrInvalid].
func WithFencing() LockOption { return lockOption{name: lockspec.OptFencing} }

// WithQueueLimit makes a call fail immediately with [ErrQueueFull] if n others
// wait for the lock. n is 1 to a million. The limit holds for the waiters in
// Redis. The calls of one client for an unfair lock share one queue entry
// there, so it also holds for the waiters in this client. Waiters of dead
// processes count until the lock is released and their turn comes. By default
// there is no limit.
func WithQueueLimit(n int) LockOption {
	return lockOption{lockspec.OptQueueLimit, func(c *lockspec.Options) { c.QueueLimit = n }}
}

// WithReplicas makes an acquire wait until n replicas of the server have the
// lock, for at most timeout. timeout is whole milliseconds, 10ms to a quarter
// of the lease. By default no replica is waited for.
//
// An acquire that too few replicas confirm in time fails with [ErrReplicas],
// and the lock is released. A renewal that too few confirm does not extend the
// hold. It is retried until the hold ends. A [Hold.Extend] that too few confirm
// fails with [ErrReplicas] and leaves the hold as it was.
//
// n should be the number of all replicas of the master, also with Sentinels and
// in a Cluster. Then each of them has the lock, whichever is promoted. With
// fewer, a failover may promote one that is behind, and lose the lock. A master
// with fewer than n replicas grants nothing. With one replica that is so from
// its promotion until the old master is back.
//
// A release waits for no replica. One that a failover loses leaves the lock
// taken until the lease ends, and nobody holds it.
//
// A lock that is handed off within a process was confirmed before. A level of a
// reentrant hold waits for the replicas of the hold. It is [ErrInvalid] if it
// asks for more.
func WithReplicas(n int, timeout time.Duration) LockOption {
	return lockOption{lockspec.OptReplicas, func(c *lockspec.Options) { c.Replicas, c.ReplicaTimeout = n, timeout }}
}

// WithMaxLease sets the largest lease that any user of a [RedLock] may request,
// by [WithExpiry], [WithWatchdog], [WithMinHold] or [Hold.Extend]. A larger one
// is [ErrInvalid]. It must be whole milliseconds, 10ms to 10 years. The default
// is 30s. It is for RedLock only.
//
// A node does not count until its server has been up for d and a second or two.
// Before that it may have forgotten a lock. All users of a key must agree on d.
func WithMaxLease(d time.Duration) LockOption {
	return lockOption{lockspec.OptMaxLease, func(c *lockspec.Options) { c.MaxLease = d }}
}
