// Package acquire implements acquiring, with one type for each kind of lock. A
// [Target] says which lock. All calls share one loop of attempts and pauses. It
// also builds the requests that renew and release each kind (*_protocol.go),
// which package lease sends.
//
// docs/internals/protocol.md has the protocol of each kind with the server.
// What a call was granted belongs to package lease from then on. What it may
// have been granted, by a request without an answer, goes to the release
// retrier when the call ends.
//
// # The loop
//
// wait.acquire makes attempts until one is granted, one fails for good, or the
// wait ends (wait.go). Between two attempts wait.sleep pauses. It ends with the
// first of these signals:
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
// for each of them, behind the interface nodes. The scripts also answer what a
// key of another kind is, and until when a minimum hold keeps it (explain.go).
//
// # Plain locks
//
// The first attempt is SET NX, then the script (plain.go). A fair lock, one
// with fencing and one with replicas start with a script. A call that waits
// tries SET NX once before it joins a line, since the lock is usually
// uncontended. It skips that if another call of the client is using the lock. A
// call for an unfair reentrant lock does the same with its script.
//
// While a Cluster moves the slot of a lock, scripts for several of its keys are
// refused. An unfair call then tries to take the key of the lock alone
// (overtake.go), and enters the queue at its next attempt. A fair call waits
// for the end of the move.
//
// A value or a hold that was ever handed to a release is never acquired again:
// that release would end the new hold. So a call whose grant was over when it
// came goes on with a new value.
//
// For an unfair lock, local_wait.go waits in the client's line. The first
// waiter of the line waits in Redis. The others wait for its place, for a hold
// that is passed on, or for a transfer.
//
// # The shared object
//
// A [Plain], [Multi] or [Quorum] object is its user's from the grant to the
// matching Unlock, lost or not (shared.go). Goroutines that share it compete
// for the key, not for the object. A grant for an object that has a lost hold
// is released, and its call waits for the Unlock.
//
// # Reentrant and read/write locks
//
// All attempts of one owner run under its owner mutex, one at a time
// ([lease.Owner.Try]). The mutex is held during a request, never during a
// pause, so two goroutines of one owner may both wait. If one is granted, the
// others are notified and go one level deeper instead of claiming. Then their
// entries are cancelled. A local waiter keeps its place until the level is
// granted: the owner may have unlocked again. A read/write lock has no local
// waiters: each call waits in Redis. An upgrade never waits.
//
// # Semaphores
//
// A [Semaphore] keeps no hold and has no owner. Each call waits in Redis, for
// one permit.
//
// # MultiLock
//
// A call has at most one queue entry, of the first busy key. After 8 moves to
// another key in one attempt it leaves the queue and pauses. The fourth key
// that it is handed in vain gives it a right of way (multi_way.go): it keeps
// keys while it waits. The protocol has the rules.
//
// Keys that one script cannot take form groups (multi_once.go): those of one
// tag on a Cluster, those of one server otherwise. The first try of a call asks
// for all groups together. It holds what it gets until the last answer only,
// and waits for nothing but answers. So it closes no circle: a waiter that
// meets one of these keys gets it by the release, at the latest. All later
// tries ask for one key after another, in order, and only they keep keys. So no
// two calls refuse each other forever. If a group is refused, or is not
// answered, the other groups are released by value, and the unanswered one is
// cleaned up. The next tries name the value of that try as their own, so they
// do not meet a key that its release has not reached yet.
//
// A call that does not wait and got some of the groups first releases them. It
// then makes one try in order: otherwise two such calls would share the keys
// out and both fail. They still do if one starts while the other goes in order.
// A call that waits for replicas goes in order from the start, since each
// request occupies a connection. If one server refuses keys of several slots,
// the manager remembers that, and all calls of the client go in order.
//
// # RedLock
//
// A round asks all nodes (quorum_round.go). Each vote is a goroutine of its
// node's manager, and no caller's context ends it. A call has at most one
// request under way to a node, so that a hanging node does not collect them. A
// grant makes a lease and joins the group: before the round is decided, or
// after it. If the round has failed by then, it is released.
//
// A round is decided when:
//
//   - a quorum has granted it;
//   - a quorum has answered, and others hold too many nodes;
//   - too few nodes can still answer: there is no quorum.
//
// A node has max(50 ms, lease/5) to answer. Once a quorum has answered, and
// others hold some of it, it has max(50 ms, lease/50) more. During that time
// the call keeps its own grants from them. The request itself goes on, within
// the command timeout. A round compares the run IDs of the nodes that it
// counts, so no quorum has a server twice: that is a validation error. A failed
// round releases its grants before the next one begins, and waits for that for
// 10 ms at most.
//
// quorum_wakeups.go has the waiters in the lists of the nodes. A RedLock call
// is never in a queue, and always has a timer.
//
// # Goroutines and locks
//
// A call runs on its caller's goroutine. Only the requests of a [Quorum] to its
// nodes have separate goroutines, in the groups of their managers. They may
// outlive the call; Close of the manager ends them.
//
// A goroutine that holds the mutex of a shared object, or that of a RedLock's
// waiters, takes no other. Nothing is sent while they are held.
package acquire
