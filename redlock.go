package relock

import (
	"fmt"
	"slices"

	"github.com/relock-go/relock/internal/kinds/redlock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
)

// RedLock is a lock on several independent servers, its nodes. It is held once
// a majority of the nodes, the quorum, has granted it. It works while fewer
// than half of the nodes are down.
//
// A server that loses its data by a restart cannot lose the lock. Servers that
// forget without a restart, by FLUSHALL or eviction, can. They lose it if so
// many forget that the others are no quorum.
//
// The algorithm is Redlock
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/),
// with these additions:
//
//   - The lease on each node is valid from the sending of the request to that
//     node, less the drift. It is renewed separately. The hold is valid while
//     the leases of a quorum are. A node that was lost does not return to a
//     hold.
//   - A node does not count if its server was started less than [WithMaxLease]
//     ago, because it may have forgotten a lock. For that the servers' users
//     need the permission for INFO.
//   - Each node is released in the background, also one that did not answer.
//
// The fencing token of a hold is the highest that one of its nodes has drawn. A
// quorum knows it before Lock returns. Tokens may go back if nodes forget their
// counters, which a restart may cause too. That needs clocks of the nodes that
// differ by more than the time between two holds.
//
// Lock returns as soon as a quorum has granted the lock. A grant that comes
// later becomes part of the hold, or is released. Lock waits for a slow node
// until a fifth of the lease is over, 50ms at least. It never waits for longer
// than the node's command timeout and a second to connect. If a quorum has
// answered but others hold some of it, Lock waits only a fiftieth of the lease
// more, 50ms at least. Otherwise two calls that each hold some of the nodes
// would block each other.
//
// The nodes notify a waiter when the lock is released, and the notification of
// one node is enough. If no node can notify it, the waiter retries after the
// poll interval, and up to a fifth of that more. If others have nodes but no
// hold has a quorum, it retries after the poll interval, plus or minus half of
// it.
//
// Lock returns [ErrLockAcquiredByOthers] if a quorum of the nodes has answered
// and others hold so many that none is left. It returns [ErrQuorum] if too few
// nodes have answered. That error also matches the failure of each of the
// others, a [*NodeError].
//
// Unlock releases all nodes. It returns at most 10ms after a quorum has
// confirmed that. Slower nodes are released in the background. Unlock returns
// [ErrLockLost] if fewer nodes than a quorum had the lock, and [ErrUnconfirmed]
// if too few have answered.
//
// It is neither reentrant nor fair. Goroutines may share it, like a RedisLock.
type RedLock struct {
	base
	quorum *redlock.Lock
}

var _ Mutex = (*RedLock)(nil)

// minNodes is the smallest number of nodes that survives the loss of one.
const minNodes = 3

// NewRedLock returns the lock with this name on the servers of the clients, 3
// or more, each a different server. An even number also needs more than half: 3
// of 4. Options that are not given are those of the first client. NewRedLock is
// cheap, does no I/O and needs no closing. Names are 1 to 1024 bytes, and do
// not start with a closing brace.
//
// Two clients of the same server are [ErrInvalid] once a call counts the
// answers of both. The lock that they granted is released.
//
// By default Lock makes one attempt, and a hold is renewed until Unlock.
// [WithFair] and [WithQueueLimit] are for other kinds.
func NewRedLock(key string, clients []*Client, opts ...LockOption) *RedLock {
	var m lockspec.Problems
	lockspec.CheckKey(&m, key)
	checkNodes(&m, clients)
	var first *Client
	if len(clients) > 0 {
		first = clients[0]
	}
	l := &RedLock{base: newBaseWith(m, key, first, opts, lockspec.Quorum)}
	l.quorum = redlock.New(&l.target, managersOf(clients), nodeError)
	l.use(l.quorum)
	return l
}

func managersOf(clients []*Client) []*lease.Manager {
	all := make([]*lease.Manager, len(clients))
	for i, c := range clients {
		if c != nil {
			all[i] = c.engine
		}
	}
	return all
}

// nodeError adds the index of its node to err.
func nodeError(n int, err error) error { return &NodeError{Node: n, Err: err} }

func checkNodes(m *lockspec.Problems, clients []*Client) {
	m.Check(len(clients) >= minNodes, "clients: %d are below %d", len(clients), minNodes)
	for i, c := range clients {
		if i > 0 { // the first is checked as that of any lock
			m.CheckClient(fmt.Sprintf("client %d", i), c == nil, c.isMade())
		}
		first := slices.Index(clients, c)
		m.Check(first == i || c == nil, "clients %d and %d: are the same", first, i)
	}
}
