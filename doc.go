// Package relock has distributed locks on Redis: one goroutine on one machine at a time.
//
//	client, err := relock.NewClient("tcp", "localhost:6379", "")
//	...
//	lock := relock.NewRedisLock("nightly-report", client, relock.WithBlock())
//	err = lock.Do(ctx, func(ctx context.Context) error {
//		return report(ctx) // ctx ends when the lock is lost
//	})
//
// # Which lock
//
// [RedisLock] is the plain one: who holds it cannot take it again. [ReentrantLock] can be taken again by its
// owner, by default the goroutine, to any depth; it is for code that locks and calls code that locks the same
// name. [RWLock] lets many read, or one alone write. [MultiLock] takes several names at once, all or none. [RedLock]
// is on three or more servers that know nothing of each other, and needs more than half of them: it outlives the loss of
// any minority. All wait with [WithBlock] or [WithBlockTimeout], else they try once. A [Locker] gives locks by name, here
// and, by package etcdlock, a module of its own, on etcd.
//
// What each kind honours; a lock's own option that it does not is [ErrInvalid], a client's is ignored:
//
//	                 RedisLock  ReentrantLock  RWLock  MultiLock  RedLock  Locker
//	WithBlock        yes        yes            yes     yes        yes      always
//	WithBlockTimeout yes        yes            yes     yes        yes      no
//	WithPollInterval yes        yes            yes     yes        yes      yes
//	WithExpiry       yes        yes            yes     yes        yes      yes
//	WithWatchdog     yes        yes            yes     yes        yes      yes
//	WithMaxHold      yes        yes            yes     yes        yes      yes
//	WithMinHold      yes        yes            no      yes        yes      yes
//	WithLabel        yes        yes            yes     yes        yes      yes
//	WithFair         yes        yes            yes     no         no       yes
//	WithFencing      yes        yes            yes     yes        yes      yes
//	WithQueueLimit   yes        yes            yes     yes        no       yes
//	WithReplicas     yes        yes            yes     yes        no       yes
//	WithOwner        no         yes            yes     no         no       no
//	WithMaxLease     no         no             no      no         yes      no
//
// # Holding
//
// A lock is a key in Redis with an expiry, the lease. By default the lease is 30 seconds and the client's
// watchdog renews it every third of that until Unlock, so that a lock whose process has died is free again
// after at most 30 seconds ([WithWatchdog]). With [WithExpiry] it is fixed and never renewed.
//
// A holder's belief is careful: it counts from the moment before the request was sent, ends a margin of 1 %
// and 2 ms before the lease can end, and is enforced by a local timer, also when Redis, the pool or the
// network hang. From then on [Hold.Err] reports the loss and [Hold.Context], which is also the context of
// Do's function, has ended. What happens at the server alone (data lost in a failover, an operator's DEL) is
// found at the next renewal.
//
// No lock with a lease can stop a process that was paused in the middle of a write. Ask [Hold.Err] right
// before it, and let the store that is written to compare fencing tokens ([WithFencing]).
//
// # Outcomes
//
// All errors but those of a function given to Do are an [*Error], and match these reasons with [errors.Is].
//
//	Lock, TryLock, Acquire, TryAcquire, and Do or TryDo before fn runs
//	  nil                                the lock is held
//	  ErrLockAcquiredByOthers            held by others: at the one attempt, or until WithBlockTimeout was over
//	  ctx.Err(), context.Cause(ctx)      ctx ended first; the error also matches the last reason seen. If it had ended before, nothing was sent
//	  a network or server error          at the one attempt, or the last one until WithBlockTimeout was over
//	  ErrDenied                          wrong password or missing permission; at once, also with WithBlock
//	  ErrKeyConflict                     the key is something else, or of the other mode (WithFair); at once, also with WithBlock
//	  ErrLockLost                        re-entry into a hold that was lost
//	  ErrUpgrade                         an owner that reads asks to write while others read; at once
//	  ErrQuorum and *NodeErrors          too few nodes of a RedLock answered, or their servers were started too short a time ago
//	  ErrQueueFull                       as many wait as may, see WithQueueLimit; at once, also with WithBlock
//	  ErrReplicas                        too few replicas have it, see WithReplicas; it is given back
//	  ErrInvalid                         a mistake in key, options or call; nothing was locked
//	  ErrClosed                          the client was closed before or meanwhile
//
//	Unlock (the hold is over, whatever is returned but ErrInvalid)
//	  nil                                released
//	  ErrNotHeld                         nothing to unlock: never locked, or unlocked before
//	  ErrLockLost and ErrNotHeld         it was lost before; with ErrMaxHold or ErrForced when that was why
//	  ErrUnconfirmed and the reason      no answer, or the server refused; the release goes on in the background until the lease has ended
//	  ErrClosed                          the client was closed; the key stays until its lease has ended, but see WithReleaseOnClose
//	  ErrInvalid                         a nil context, or a mistake in settings or owner: only then the hold goes on
//
//	Do, TryDo after fn has run
//	  fn's own error, as it is           held to the end; also when the release was not confirmed, which is logged
//	  joined with ErrLockLost            the hold was lost before Do ended
//	  joined with ErrClosed              the client was closed before Do ended
//	  a panic of fn                      goes on, after the lock was unlocked
//
// An attempt whose answer does not come is cleaned up in the background, so that no lock stays behind that
// nobody holds. [IsRetryableErr] tells what may pass by itself. A blocking Lock goes on through it, a Redis
// that is down included.
package relock
