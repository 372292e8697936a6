// Package lease owns what was granted: how long it is valid, its renewal, its
// release, the hand-off to the next waiter of this process, groups of leases
// that are one hold, the owners of reentrant locks, and what is left to do on
// Close. It knows no kind of lock but by its [Protocol], and no user: errors are
// reasons, and an observer is a hook.
//
// A [Manager] is the engine of one client. A [Lease] is one grant of one key, a
// [Hold] one level of it. A lease is valid until the sending of the request that
// set its expiry, plus its length, less the [Drift]; a timer enforces that
// without asking anybody. Once lost it stays lost.
//
// Where to look: Unlock begins in unlock.go, and what is sent to the server is in
// release.go; what was not answered is retried by package background. A plain
// lock goes to a waiter of this process in pass.go, a reentrant one in
// transfer.go. push.go starts the renewal, watchdog.go renews, and extend.go is
// the user's Extend. Package acquire builds the requests, as a [Protocol].
//
// Order of locks: the mutex of the suspend monitor, that of a [Group]'s lease,
// that of a member's lease; and after a lease's mutex one of: the manager's, the
// queue's, the one of the expiry timers, the one of a worker. The turn of an
// [Owner] comes before all of them, and is held while a request is under way.
//
// Goroutines, all of the manager's group and ended by Close: the watchdog, one
// more worker for each setting of replicas, the retrier of releases, the suspend
// monitor, the look for the reason of a loss, and those of the queue. The expiry
// timers have one timer for all leases.
package lease
