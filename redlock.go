package relock

import (
	"slices"

	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
)

// RedLock is a lock on several servers that know nothing of each other, its nodes: who has it on more than half of them
// has it. It goes on while fewer than half are down. A server that loses its data by a restart cannot lose it; servers that
// forget without one, by FLUSHALL or eviction, can, when so many do that the others are no quorum. The algorithm is Redlock
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/), with these additions:
//
//   - Each node's lease is believed in from the sending of its own request on, less the drift, and renewed by itself. The
//     hold is valid while a quorum of them is. A node that was lost does not come back to a hold.
//   - A node whose server was started less than [WithMaxLease] ago is not counted, since it may have forgotten a lock. For
//     that the servers' users need the permission for INFO.
//   - Each node is released, also one that did not answer, in the background.
//
// A fencing token is the highest that a node has drawn, and known to a quorum before Lock returns. Tokens may go back where
// nodes forget their counters, by a restart too, while the clocks of the nodes differ by more than the time between two holds.
//
// Lock returns as soon as a quorum has granted it; what comes from the others later becomes part of the hold, or is given
// back. A node is waited for until a fifth of the lease has gone, 50ms at least, and never for longer than its command
// timeout and a second to connect; once a quorum has answered of which others hold some, for a fiftieth of the lease more, 50ms at least,
// as two calls that share the nodes out among them keep each other from the lock.
//
// A call that waits is told by the nodes when the lock is given back; the message of one of them is enough. Where none can
// tell it asks again after the poll interval, and up to a fifth of that more; while others have nodes, but no hold has a
// quorum, after the poll interval, give or take a half.
//
// Lock returns [ErrLockAcquiredByOthers] if a quorum of the nodes has answered
// and others hold so many that none is left. It returns [ErrQuorum] if too few
// nodes have answered. That error also matches what was wrong with each of the
// others, in a [*NodeError].
//
// Unlock releases all nodes. It returns when a quorum has confirmed that, 10ms
// later at most; slower nodes go on in the background. It returns [ErrLockLost]
// if fewer nodes than a quorum had the lock, and [ErrUnconfirmed] if too few
// have answered.
//
// It is neither reentrant nor fair. It may be shared by goroutines, as a RedisLock may.
type RedLock struct {
	base
	quorum *acquire.Quorum
}

// minNodes is how few nodes there may be: with two, both are needed.
const minNodes = 3

// NewRedLock returns the lock of this name on the servers of the clients, 3 or more, each another server. Of an even
// number more than half are needed too: 3 of 4. Options that are not given are those of the first client. It is cheap, does
// no I/O and needs no closing. Names are 1 to 1024 bytes and do not start with a closing brace.
//
// Two clients of the same server are [ErrInvalid] once a call counts the answers
// of both; what they granted is released.
//
// By default Lock makes one attempt, and a hold is renewed until Unlock. [WithFair],
// [WithQueueLimit] and [WithOwner] are for other kinds.
func NewRedLock(key string, clients []*Client, opts ...LockOption) *RedLock {
	var m lockspec.Problems
	lockspec.CheckKey(&m, key)
	checkNodes(&m, clients)
	var first *Client
	if len(clients) > 0 {
		first = clients[0]
	}
	l := &RedLock{base: newBaseWith(m, key, first, opts, lockspec.Quorum)}
	l.quorum = acquire.NewQuorum(&l.target, managersOf(clients), nodeError)
	l.use(l.quorum)
	return l
}

// managersOf returns the engines of the nodes.
func managersOf(clients []*Client) []*lease.Manager {
	all := make([]*lease.Manager, len(clients))
	for i, c := range clients {
		if c != nil {
			all[i] = c.engine
		}
	}
	return all
}

// nodeError says of which node err is.
func nodeError(n int, err error) error { return &NodeError{Node: n, Err: err} }

func checkNodes(m *lockspec.Problems, clients []*Client) {
	m.Check(len(clients) >= minNodes, "clients: %d, fewer than %d", len(clients), minNodes)
	for i, c := range clients {
		m.Check(i == 0 || c != nil && c.engine != nil, "client %d: was not made by NewClient", i)
		first := slices.Index(clients, c)
		m.Check(first == i || c == nil, "clients %d and %d: are the same", first, i)
	}
}
