// Package script has the Lua scripts of the locks: their assembly from the
// files of package lua, their calls and their answers. The contract of each
// script is in docs/internals/protocol.md and at the top of its file.
//
// # Scripts
//
// A [Script] is joined from several files (scripts.go). What several scripts
// share is in separate files: absent, number, fence, grant, queue, take, line,
// polled, rw, rw_hold, rw_beside, rw_leave, rw_leave_early, rw_queue, rw_take
// and redlock_wake. A script knows the suffixes of the keys beside its lock.
// Its fenced variant has the counter of fencing tokens among its keys.
//
// A semaphore has the scripts of a read/write lock. Three files say what
// differs: rw_kind or semaphore_kind how waiters and the mode are named, and
// rw_fits and rw_fits_beside, or those of the semaphore, which waiters fit
// beside the present holders. Either side sees the other's key as something
// else. Only rw_inspect reads both, by rw_any.
//
// Redis creates every function of a script anew at each call. So what needs no
// queue comes before any function of the queue: release_alone,
// reentrant_release_alone, claim_reserved, rw_beside, rw_leave_early, and the
// first half of rw_try, rw_enqueue, rw_release and semaphore_release, whose
// second half is in ..._queue.
//
// The scripts of the task queue (tasks.go) name their keys by suffixes of the
// queue's name.
//
// # Calls
//
// A [Call] is one script with its lock and arguments. [Run] sends it for a
// caller: by its digest, and in full if the server does not know that. If the
// connection broke, it sends the script once more. So every script can be
// executed twice. The exception is force, which uses [RunOnce]: a copy could
// end the hold of the next holder.
//
// A release or a renewal whose keys are refused together is sent with the
// lock's key only: see [Call.Next]. A Cluster refuses while it moves the slot,
// and a user may lack the permission. Waiters then learn of the release by
// polling.
//
// [RunBatch] does the same for the batch of a worker. Requests of one batch
// that are refused go together in a second one.
//
// # Answers
//
// codes.go has the numbers that scripts answer. [ReadGrant] reads the answer of
// a script that takes a lock, with its [Tokens].
//
// # Indeterminate requests
//
// An [Indeterminate] is what is known of the requests of one call that may have
// been executed without an answer:
//
//   - Last is the sending of the newest unanswered request. Until a lease after
//     it, a late copy may still take the lock.
//   - Error is true after an error line, or an answer that no script returns:
//     something was executed, and it is unknown what.
//   - It is resolved once the only unanswered request was answered late.
//
// READONLY makes nothing indeterminate: a replica executes no write. The
// refusals of a Cluster, such as MOVED, make nothing indeterminate either: they
// come before a script runs. [Run] merges the state of both sendings. The
// package does not release anything; its callers hand the state to a release of
// package background.
//
// The package has no goroutines and no mutexes. A [Script] never changes.
package script
