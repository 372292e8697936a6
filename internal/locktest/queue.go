package locktest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// The lock of a QueueBench, and its times.
const (
	QueueKey = FaultKey // so that a cell can observe it
	// NotifyLimit is for the median time until a message has its effect: far
	// below the second after which a poll would have it.
	NotifyLimit = 250 * time.Millisecond
	// SlowPoll is a poll interval so long that a poll is never taken for a
	// push.
	SlowPoll = 900 * time.Millisecond
)

// QueueMode is a kind of lock in one of its two modes.
type QueueMode struct {
	Kind string
	Fair bool
}

// QueueModes returns each kind of lock, unfair and fair.
func QueueModes() []QueueMode {
	return []QueueMode{{"RedisLock", false}, {"RedisLock", true}, {"ReentrantLock", false}, {"ReentrantLock", true}}
}

// Title returns the name of a subtest.
func (m QueueMode) Title() string {
	if m.Fair {
		return m.Kind + ", fair"
	}
	return m.Kind + ", unfair"
}

// Lock returns a lock that waits, unless it is tried.
func (m QueueMode) Lock(c *relock.Client, opts ...relock.LockOption) AnyLock {
	opts = append([]relock.LockOption{relock.WithBlock()}, opts...)
	if m.Fair {
		opts = append(opts, relock.WithFair())
	}
	if m.Kind == "RWLock" {
		return relock.NewRWLock(QueueKey, c, opts...)
	}
	return Kinds[m.Kind](QueueKey, c, opts...)
}

// QueueBench is a lock with its own server, and clients that wait for it.
type QueueBench struct {
	testing.TB
	QueueMode
	Server  *redistest.Server
	Clients []*relock.Client
	Key     string // in Redis
}

// NewQueueBench returns a bench on a new server.
func NewQueueBench(t testing.TB, m QueueMode, clients int, opts ...relock.ClientOption) *QueueBench {
	return NewQueueBenchOn(t, redistest.Start(t), m, clients, opts...)
}

// NewQueueBenchOn returns a bench on a server.
func NewQueueBenchOn(t testing.TB, s *redistest.Server, m QueueMode, clients int, opts ...relock.ClientOption) *QueueBench {
	q := &QueueBench{TB: t, QueueMode: m, Server: s, Clients: []*relock.Client{NewTestClient(t, s, opts...)}}
	for len(q.Clients) < clients {
		q.Clients = append(q.Clients, Sibling(t, s, q.Clients[0], opts...))
	}
	q.Key = KeyOf(q.Clients[0], QueueKey)
	return q
}

// NewLocalWaitBench returns a bench with an unfair plain lock, a client with
// several waiters, and another client.
func NewLocalWaitBench(t testing.TB, opts ...relock.ClientOption) *QueueBench {
	return NewQueueBench(t, QueueMode{"RedisLock", false}, 2, opts...)
}

// NewTransferBench returns a bench with an unfair reentrant lock, a client with
// several waiters, and another client.
func NewTransferBench(t testing.TB, opts ...relock.ClientOption) *QueueBench {
	return NewQueueBench(t, ReentrantUnfair, 2, opts...)
}

// TransferOnly matches the transfer of a reentrant hold.
var TransferOnly = faults.Script(script.ReentrantTransfer.SHA)

// EachMode runs a test with each kind of lock, fair and unfair, all together.
func EachMode(t *testing.T, run func(t testing.TB, m QueueMode)) {
	t.Helper()
	t.Parallel()
	var cells []Subtest
	for _, m := range QueueModes() {
		cells = append(cells, Subtest{m.Title(), func(t testing.TB) { run(t, m) }})
	}
	RunTogether(t, cells)
}

// Take acquires the lock, which must be free.
func (q *QueueBench) Take(c *relock.Client, opts ...relock.LockOption) relock.Hold {
	q.Helper()
	h, err := q.Lock(c, opts...).TryAcquire(q.Context())
	require.NoError(q, err)
	return h
}

// TakeOther acquires another lock. A client that waits for it has a
// subscription.
func (q *QueueBench) TakeOther(t testing.TB) relock.Hold {
	h, err := relock.NewRedisLock("other", q.Clients[1]).Acquire(t.Context())
	require.NoError(t, err)
	return h
}

// Unlock releases a hold.
func (q *QueueBench) Unlock(h relock.Hold) {
	q.Helper()
	require.NoError(q, h.Unlock(context.Background()))
}
