package locktest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
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

// The modes of locks with one holder.
var (
	PlainUnfair     = QueueMode{"RedisLock", false}
	PlainFair       = QueueMode{"RedisLock", true}
	ReentrantUnfair = QueueMode{"ReentrantLock", false}
	ReentrantFair   = QueueMode{"ReentrantLock", true}
	Unfair          = []QueueMode{PlainUnfair, ReentrantUnfair}
	Fair            = []QueueMode{PlainFair, ReentrantFair}
	QueueModes      = []QueueMode{PlainUnfair, PlainFair, ReentrantUnfair, ReentrantFair}
)

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
	return AllKinds[m.Kind](QueueKey, c, opts...)
}

// QueueBench is a lock with its own server, and clients that wait for it.
type QueueBench struct {
	testing.TB
	QueueMode
	Server  *redistest.Server
	Clients []*relock.Client
	Key     string // in Redis
}

// Reading returns the bench with calls that read.
func (q *QueueBench) Reading() *QueueBench {
	reading := *q
	reading.Kind += ", reading"
	return &reading
}

// NewQueueBench returns a bench on a new server.
func NewQueueBench(t testing.TB, m QueueMode, clients int, opts ...relock.ClientOption) *QueueBench {
	return NewQueueBenchOn(t, redistest.Start(t), m, clients, opts...)
}

// NewQueueBenchOn returns a bench on a server.
func NewQueueBenchOn(
	t testing.TB, s *redistest.Server, m QueueMode, clients int, opts ...relock.ClientOption,
) *QueueBench {
	q := &QueueBench{TB: t, QueueMode: m, Server: s, Clients: []*relock.Client{NewTestClient(t, s, opts...)}}
	for len(q.Clients) < clients {
		q.Clients = append(q.Clients, Sibling(t, s, q.Clients[0], opts...))
	}
	q.Key = KeyOf(q.Clients[0], QueueKey)
	return q
}

// TransferOnly matches the transfer of a reentrant hold.
var TransferOnly = faults.Script(script.ReentrantTransfer.SHA)

// EachCase runs a test for each case in each mode, all at the same time.
func EachCase[T any](t *testing.T, modes []QueueMode, cases map[string]T, run func(t testing.TB, m QueueMode, c T)) {
	t.Helper()
	t.Parallel()
	var cells []Subtest
	for name, c := range cases {
		for _, m := range modes {
			title := strings.TrimPrefix(name+", "+m.Title(), ", ")
			cells = append(cells, Subtest{Name: title, Run: func(t testing.TB) { run(t, m, c) }})
		}
	}
	RunTogether(t, cells)
}

// EachMode runs a test in each mode, all at the same time.
func EachMode(t *testing.T, modes []QueueMode, run func(t testing.TB, m QueueMode)) {
	t.Helper()
	EachCase(t, modes, map[string]bool{"": true}, func(t testing.TB, m QueueMode, _ bool) { run(t, m) })
}

// Take acquires the lock, which must be free.
func (q *QueueBench) Take(c *relock.Client, opts ...relock.LockOption) relock.Hold {
	q.Helper()
	return Take(q, q.Lock(c, opts...).TryAcquire)
}

// TakeReleased acquires the lock after a hand-off. A late poll may put that
// wait back for a moment: it is given up as soon as the lock is offered to it.
func (q *QueueBench) TakeReleased(c *relock.Client, opts ...relock.LockOption) relock.Hold {
	q.Helper()
	return q.Wait(q.Context(), c, opts...).Granted()
}

// Unlock releases a hold.
func (q *QueueBench) Unlock(h relock.Hold) {
	q.Helper()
	require.NoError(q, h.Unlock(context.Background()))
}

// NewQueueBenchBehind returns a bench with another client, and with a first one
// that is behind a proxy.
func NewQueueBenchBehind(t testing.TB, m QueueMode, opts ...relock.ClientOption) (q *QueueBench, proxy *faults.Proxy) {
	q = NewQueueBench(t, m, 2)
	q.Clients[0], proxy = q.Behind(opts...)
	return q, proxy
}

// Behind returns one more client of the lock, which is behind a proxy. The
// server knows the scripts.
func (q *QueueBench) Behind(opts ...relock.ClientOption) (*relock.Client, *faults.Proxy) {
	q.Helper()
	WithScripts(q, q.Server)
	p := faults.Start(q, q.Server.Network, q.Server.Address)
	return Sibling(q, ServerOf(p), q.Clients[0], opts...), p
}
