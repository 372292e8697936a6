// Package lease implements what was granted: its levels, release, and hand-off
// to the next waiter of this process. It also has groups of leases, the owners
// of reentrant locks, and Close. Package validity has how long a grant lasts.
// This package knows a kind of lock by its [Protocol] only, and no user: errors
// are reasons, and an observer is a hook.
//
// A [Manager] is the engine of one client: client.go has what its leases share,
// manager.go and close.go how it begins and ends. A [Lease] is one grant of one
// key, a [Group] several leases that make one hold. A [Hold] is one level of a
// lease, or that of a group. It knows which only by the interface grant, and a
// lease knows its group only by the interface whole.
//
// A lease is made of parts, each with its state: the Renewal of package
// validity, the levels (stack.go), and what the server has of it (remote.go).
// A view of it, such as releaser or byMessage, has the methods for one thing.
// In this list, later files use earlier ones: lease.go with its parts, hold.go
// and owner.go; the views, and levels.go; renewable.go, which the worker calls;
// handoff.go, unlock.go and reenter.go, which callers do; and then the Manager
// and the groups.
//
// A group is built on a [validity.Validity], a lease on a [validity.Renewal],
// which adds the job in a worker. A delivery of a task, in package queue, is
// built on one too. It is no lease: it has no levels, waiters or hand-off.
//
// Unlock begins in unlock.go, and what it sends is in release.go; package
// background retries what was not answered. Before that, handoff.go looks for a
// waiter of this process: a plain lock goes to it in pass.go, a reentrant one
// in transfer.go. The retained queue entry of a lock that was passed on ends in
// retained.go. A renewal begins in levels.go; renewable.go chooses what the
// worker sends. The user's Extend is in extend.go. The package of a kind builds
// the requests, as a [Protocol].
//
// A lock is also released after a loss (renewable.go), for a level whose
// maximum hold has ended (levels.go), to undo a re-entry, a Detach or a
// transfer without an answer (reenter.go, detach.go, transfer.go), and by Close
// (close.go). All of these go through releaser.
//
// A waiter of this process is woken by pass or transfer, one in Redis by
// package waitqueue. The waiting calls of an owner are woken in owner.go once
// it has the lock, and those that wait for the answer to a claim in claim.go.
//
// # Loss
//
// A lease ends once, by Unlock or by loss. Package validity finds the loss by
// the clock, by a refusal, or after a suspend. The others are the maximum hold
// and Close. A loss ends the contexts of all levels and the renewal, and hands
// the release to the retrier, except on Close. After a refusal the reason is
// read first (notice.go).
//
// Each level has its own length, watched or not, maximum hold and context. The
// renewal asks for the longest watched one that is left. A hold without a
// maximum that is 100 leases old is logged (forgotten.go).
//
// # Grants by message
//
// A lease may be granted by a message, while the lock is only reserved
// (byMessage in claim.go, and docs/internals/grants.md). It is valid while the
// reservation cannot end. Its first renewal is the claim, due immediately, for
// a fixed lease too. Until that is answered the lease is not passed on, Unlock,
// Extend and Detach wait, and the release names the reservation as well.
//
// # Release
//
// Unlock ends the level here first, regardless of what follows. A level that
// leaves others sends their new count. The last one ends the renewal and sends
// the release. It takes the command timeout, at most a third of the lease:
// three quarters through the pool, the rest over the retrier's connection. Then
// it is ErrUnconfirmed, and the retrier goes on.
//
// A last release that finds nothing has lost the hold. The exception is an
// earlier copy without an answer, while the lease is still valid: that copy did
// the work. An inner release deletes nothing, so for it nothing always means
// loss. A lease with an unanswered acquire repeats its release, since a late
// copy may take the key again. If it came from the queue, it repeats the cancel
// instead. A minimum hold counts only once the caller got the hold.
//
// # Deliveries
//
// Nothing but the settle of a delivery sends something at its end. A loss, and
// Close, send nothing: the task may still be in work. No figure and no log line
// about locks counts a delivery.
//
// # Hand-off in this process
//
// The last Unlock asks package localwait for a waiter, within its budget. A
// plain lock is passed on: key, value and lease stay, and nothing is sent. A
// reentrant lock is transferred by one request, as its hash names the owner.
// Neither happens for a fair lock, with a minimum hold, or with an
// indeterminate acquire, whose release would end the next hold. A plain lock
// must also be watched, with more than half of its lease and a token left. No
// Extend may have made the key stay longer.
//
// A transfer begins a new lease from its sending. The unlocking caller sends
// it; the waiter makes the lease under its own owner mutex. No goroutine takes
// one owner mutex while it holds another. A transfer has half of Unlock's time.
// A refused or unanswered transfer puts the waiter back, behind the first. The
// release then names both holds, and ends the one that is there. If the key has
// neither hold, the lock was lost. If the waiter left, or cannot use the grant,
// the new hold is released. So each granted transfer has one holder, or one
// release.
//
// # Owners
//
// [Owners] maps (key, owner) to a lease, from the first level's grant to the
// last level's Unlock, lost or not. A live lease is entered again, a lost one
// is ErrLockLost. A re-entry sends the count and the number of the change. If
// it is indeterminate, a release with the old count and the next number undoes
// it. Later changes have higher numbers, so it may come at any time. A level
// that asks for more than the hold has is refused before anything is sent.
//
// The leases of one key are linked, so that a waiter of the client can name one
// of them (holders.go).
//
// # Groups
//
// A [Group] is a hold made of several: all keys of a MultiLock, or a quorum of
// nodes. Its validity has no key, renewal or timer, and lasts while that of
// need of its members does. It is recomputed when the validity of a member
// changes, so it may become earlier. A lease reports to its group by the
// methods in members.go. Too few members end the group, for the reason of the
// member that ended last, and release the others. Loss, Extend and the Unlock
// of a RedLock go to at most 32 members together. Unlock of a RedLock returns
// up to 10 ms after its result is certain. That of a MultiLock waits for all
// keys: the last member that comes sends the releases of all together
// (gather.go). A member is never passed on. A lost member never rejoins: the
// group may have lacked a quorum in between.
//
// # Close
//
// [Manager.Close] ends the life context and every lease, closes the
// connections, and waits for goroutines: 40 ms at most for the driver's, and 40
// ms for its own. Without ReleaseOnClose it logs the keys that it leaves. With
// it, it sends three things before that, over a dedicated connection
// (close.go). First the cancels of its waiters, or locks would go to them. Then
// what the retrier has left, and last the releases.
//
// # Goroutines and locks
//
// All belong to the manager's group and end with Close. The manager has the
// retrier. Requests of group members have one each, and so have the requests
// for the reason of a loss. Packages validity and waitqueue have their own. The
// timers for maximum holds have no goroutine until they fire.
//
// Order of locks: the owner mutex (owner.go), the mutex of the suspend monitor,
// that of a [Group], that of a member's lease. After a lease's mutex comes that
// of the [Owners], of the local waiters, of the queue, or one of package
// validity. Only the owner mutex is held while a request is under way. A member
// reports to its group when it holds none.
package lease
