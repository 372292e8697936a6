// Package relock provides distributed locks backed by Redis. At most one
// goroutine, on one machine, holds a lock at a time. The exceptions are the
// readers of an [RWLock], and the holders of a [Semaphore].
//
//	client, err := relock.NewClientURL("redis://localhost:6379", relock.WithLogger(slog.Default()))
//	...
//	err = client.Ping(ctx)
//	...
//	lock := relock.NewRedisLock("reports", client, relock.WithBlock())
//	err = lock.Do(ctx, func(ctx context.Context) error {
//		return report(ctx) // ctx is cancelled when the lock is lost
//	})
//
// Begin with [RedisLock.Do]: it acquires the lock, runs a function, and
// unlocks. Without [WithBlock] it makes one attempt and does not wait. All
// kinds of lock have Do. [Do] does the same with a [Locker], but always waits.
//
// # Which lock
//
// [RedisLock] is the plain lock. Its holder cannot acquire it again.
//
// [ReentrantLock] can be acquired again by its owner, to any depth. By default
// the owner is the goroutine. It is for locked code that calls other code that
// takes the same lock.
//
// [RWLock] has many readers or one writer.
//
// [Semaphore] has a number of holders at the same time. With [WithMinHold] no
// more of them begin in any time of that length.
//
// [MultiLock] locks several keys together: all or none.
//
// [RedLock] is a lock on three or more independent servers. It needs more than
// half of them, and survives the loss of any minority.
//
// All of them wait with [WithBlock] or [WithBlockTimeout]. Otherwise they make
// one attempt. The Lock of a [Locker] always waits.
//
// A [Locker] acquires locks by name, independent of the backend. This package
// has one for Redis. Package etcdlock, a separate module, has one for etcd.
// Package relocktest has one in memory, for unit tests. Calls of a Locker can
// be nested. [FromLocker] makes a [Mutex] of one of its locks, and [NewLeader]
// the election of a leader.
//
// The table shows the options that each kind supports. An unsupported option is
// [ErrInvalid] on a lock. As a default of a client it is ignored.
//
//	                 RedisLock  ReentrantLock  RWLock  Semaphore  MultiLock  RedLock  Locker
//	WithBlock        yes        yes            yes     yes        yes        yes      always
//	WithBlockTimeout yes        yes            yes     yes        yes        yes      no
//	WithPollInterval yes        yes            yes     yes        yes        yes      yes
//	WithExpiry       yes        yes            yes     yes        yes        yes      yes
//	WithWatchdog     yes        yes            yes     yes        yes        yes      yes
//	WithMaxHold      yes        yes            yes     yes        yes        yes      yes
//	WithMinHold      yes        yes            no      yes        yes        yes      yes
//	WithLabel        yes        yes            yes     yes        yes        yes      yes
//	WithFair         yes        yes            yes     yes        no         no       yes
//	WithFencing      yes        yes            yes     no         yes        yes      yes
//	WithQueueLimit   yes        yes            yes     yes        yes        no       yes
//	WithReplicas     yes        yes            yes     yes        yes        no       yes
//	WithMaxLease     no         no             no      no         no         yes      no
//
// # Holding
//
// A lock is a key in Redis with an expiry, the lease. By default the lease is
// 30 seconds, and the client's watchdog renews it every third of that until
// Unlock. So the lock of a dead process is free after at most 30 seconds
// ([WithWatchdog]), or when a longer [WithMinHold] is over. With [WithExpiry]
// the lease is fixed and never renewed.
//
// The holder assumes the worst about its lease. A hold is valid until a moment
// that counts from before the request was sent. That moment comes 1 % of the
// lease and 2 ms before the lease can end. A local timer enforces it, even if
// Redis, the pool or the network hangs. From then on [Hold.Err] reports the
// loss, and [Hold.Context] is cancelled. It is also the context of Do's
// function. A loss that only the server knows, by a failover or an operator's
// DEL, is found at the next renewal.
//
// No lock with a lease can stop a process that was paused in the middle of a
// write. Check [Hold.Err] right before the write. Have the store that is
// written to compare fencing tokens ([WithFencing]).
//
// # Outcomes
//
// All errors are an [*Error], except those of a function given to Do. They
// match these reasons with [errors.Is].
//
//	Lock, TryLock, Acquire, TryAcquire, and Do or TryDo if fn was not run
//	(NotRun is true)
//	  nil                            the lock is held
//	  ErrLockAcquiredByOthers        others hold it, or a minimum hold keeps it: at
//	                                 the one attempt, or until WithBlockTimeout
//	                                 was over
//	  ctx.Err(), context.Cause(ctx)  ctx was cancelled first; the error also
//	                                 matches the last reason seen. If it was
//	                                 cancelled before the call, nothing was sent
//	  a network or server error      at the one attempt, or the last one until
//	                                 WithBlockTimeout was over
//	  ErrDenied                      wrong password or missing permission;
//	                                 immediately, also with WithBlock
//	  ErrKeyConflict                 the key is something else, such as another
//	                                 kind of lock; immediately, also with
//	                                 WithBlock
//	  ErrLockLost                    re-entry into a hold that was lost
//	  ErrUpgrade                     a reader asked for the write lock while
//	                                 others were reading; immediately
//	  ErrQuorum and *NodeErrors      too few nodes of a RedLock answered, or their
//	                                 servers were started too recently to count
//	  ErrQueueFull                   the queue is full, see WithQueueLimit;
//	                                 immediately, also with WithBlock
//	  ErrReplicas                    too few replicas have it, see WithReplicas;
//	                                 it is released
//	  ErrInvalid                     a mistake in key, options or call; nothing
//	                                 was locked
//	  ErrClosed                      the client was closed before or during the
//	                                 call
//
//	Unlock (the hold has ended, whatever is returned, except for ErrInvalid)
//	  nil                            released
//	  ErrNotHeld                     nothing to unlock: never locked, or already
//	                                 unlocked
//	  ErrLockLost and ErrNotHeld     it was lost before; with ErrMaxHold or
//	                                 ErrForced if that was the reason
//	  ErrUnconfirmed and the reason  no answer, or the server refused; the release
//	                                 is retried in the background until the lease
//	                                 has ended
//	  ErrClosed                      the client was closed; the key stays until
//	                                 its lease has ended, but see
//	                                 WithReleaseOnClose
//	  ErrInvalid                     a nil context, or a mistake in settings or
//	                                 owner; only then the hold goes on
//
//	Do, TryDo after fn has run (NotRun is false)
//	  fn's own error, unchanged      held to the end; also if the release was not
//	                                 confirmed, which only WithLogger and
//	                                 WithObserver show
//	  joined with ErrLockLost        the hold was lost before Do ended, and fn's
//	                                 error does not say so
//	  joined with ErrClosed          the client was closed before Do ended
//	  a panic of fn                  goes on, after the lock was unlocked
//
// An attempt without an answer is cleaned up in the background. So no lock
// stays behind that nobody holds. [OutcomeOf] returns the result of a call in
// one word. [IsRetryableErr] reports whether a failure is temporary. A blocking
// Lock waits through such failures, also while Redis is down.
package relock
