// Package redlock acquires RedLocks: locks on several independent servers,
// their nodes. A RedLock is held once more than half of them have granted it.
//
// A member of the hold is a plain lock of its node, so this package stands on
// package plain. Package lease makes one hold of the members, and
// docs/internals/protocol.md has the requests.
//
// # Rounds
//
// A round asks all nodes (round.go). Each vote is a goroutine of its node's
// manager, and no caller's context ends it. A call has at most one request
// under way to a node, so that a hanging node does not collect them. A grant
// makes a lease and joins the group: before the round is decided, or after it.
// If the round has failed by then, it is released.
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
// wakeups.go has the waiters in the lists of the nodes. A RedLock call is never
// in a queue, and always has a timer.
//
// # Goroutines and locks
//
// The requests to the nodes have separate goroutines, in the groups of their
// managers. They may outlive the call; Close of the manager ends them. A
// goroutine that holds the mutex of the waiters takes no other, and sends
// nothing.
package redlock
