// Package acquire has what the kinds of locks share when they are acquired: the
// loop of attempts and pauses, the wait for other calls of the same client, and
// the texts of refusals. It knows no kind. Each has a package below
// internal/kinds, with what it sends, and imports this one.
//
// A [Target] says which lock. A kind begins a [Wait] for each call, and gives
// it a function that makes one attempt. A kind whose object goroutines share
// stands on [Shared], one whose holds belong to owners on [Owned].
//
// What a call was granted belongs to package lease from then on. What it may
// have been granted, by a request without an answer, goes to the release
// retrier when the call ends ([Cleanup]). A value or a hold that was ever
// handed to a release is never acquired again: that release would end the new
// hold. So a call whose grant was over when it came goes on with a new value.
//
// # The loop
//
// [Wait.Acquire] makes attempts until one is granted, one fails for good, or
// the wait ends (wait.go). Between two attempts Wait.sleep pauses. It ends with
// the first of these signals:
//
//   - an offer by a call of this process, for a parked local waiter;
//   - a notification for the entry in the queue;
//   - another call of the owner got the lock;
//   - a timer, if the call is not in the queue, or the last attempt asked for
//     one;
//   - the end of the context, of the block timeout or of the client.
//
// The timer is the poll interval and up to a fifth more. It grows to 1 s while
// the server answers with errors or not at all.
//
// A call counts as waiting from its first pause on (pause.go), which starts a
// timer. It logs, after one lease, that the call's own client has the lock. An
// attempt that failed because of the server is passed to package outage, which
// logs it if none is answered for a second. A lock on several servers does so
// for each of them, behind the interface [Nodes]. The scripts also answer what
// a key of another kind is, and until when a minimum hold keeps it
// (explain.go).
//
// While a Cluster moves the slot of a lock, scripts for several of its keys are
// refused. An unfair call then tries to take the key of the lock alone
// (overtake.go), and enters the queue at its next attempt. A fair call waits
// for the end of the move.
//
// # Local waiters
//
// A call for an unfair lock waits in the client's line (local_wait.go). The
// first waiter of the line waits in Redis. The others wait for its place, for a
// hold that is passed on, or for a transfer.
//
// # The shared object
//
// The object is its user's from the grant to the matching Unlock, lost or not
// (shared.go). Goroutines that share it compete for the key, not for the
// object. A grant for an object that has a lost hold is released, and its call
// waits for the Unlock.
//
// # Goroutines and locks
//
// A call runs on its caller's goroutine. A goroutine that holds the mutex of a
// shared object takes no other, and sends nothing.
package acquire
