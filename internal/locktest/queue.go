package locktest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

const (
	QueueKey = CellKey // so that a cell can observe it
	// PushLimit is for a median of what a message brings about: far below the second after which a poll would.
	PushLimit = 250 * time.Millisecond
	// Leisure is a poll interval so long that no poll can be taken for a push.
	Leisure = 900 * time.Millisecond
)

// QueueMode is a kind of lock in one of its two modes.
type QueueMode struct {
	Kind string
	Fair bool
}

func QueueModes() []QueueMode {
	return []QueueMode{{"RedisLock", false}, {"RedisLock", true}, {"ReentrantLock", false}, {"ReentrantLock", true}}
}

func (m QueueMode) Title() string {
	if m.Fair {
		return m.Kind + ", fair"
	}
	return m.Kind + ", unfair"
}

// Lock is one that waits, unless it is tried.
func (m QueueMode) Lock(c *relock.Client, opts ...relock.LockOption) AnyLock {
	opts = append([]relock.LockOption{relock.WithBlock()}, opts...)
	if m.Fair {
		opts = append(opts, relock.WithFair())
	}
	if newLock := RwKinds[m.Kind]; newLock != nil {
		return newLock(QueueKey, c, opts...)
	}
	return Kinds[m.Kind](QueueKey, c, opts...)
}

// QueueBench is a lock with a server of its own, and clients that wait for it.
type QueueBench struct {
	testing.TB
	QueueMode
	Server  *redistest.Server
	Clients []*relock.Client
	Key     string // in Redis
}

func NewQueueBench(t testing.TB, m QueueMode, clients int, opts ...relock.ClientOption) *QueueBench {
	return NewQueueBenchOn(t, redistest.Start(t), m, clients, opts...)
}

func NewQueueBenchOn(t testing.TB, s *redistest.Server, m QueueMode, clients int, opts ...relock.ClientOption) *QueueBench {
	q := &QueueBench{TB: t, QueueMode: m, Server: s, Clients: []*relock.Client{NewTestClient(t, s, opts...)}}
	for len(q.Clients) < clients {
		q.Clients = append(q.Clients, Sibling(t, s, q.Clients[0], opts...))
	}
	q.Key = KeyOf(q.Clients[0], QueueKey)
	return q
}

// EachMode runs a test with each kind of lock, fair and unfair, all at once.
func EachMode(t *testing.T, run func(t testing.TB, m QueueMode)) {
	t.Helper()
	t.Parallel()
	EachModeAlone(t, run)
}

// EachModeAlone is eachMode with no other test beside it.
func EachModeAlone(t *testing.T, run func(t testing.TB, m QueueMode)) {
	t.Helper()
	var cells []CellRun
	for _, m := range QueueModes() {
		cells = append(cells, CellRun{m.Title(), func(t testing.TB) { run(t, m) }})
	}
	Together(t, cells)
}

// EachKind is eachMode for one of the two modes.
func EachKind(t *testing.T, fair bool, run func(t testing.TB, m QueueMode)) {
	t.Helper()
	t.Parallel()
	var cells []CellRun
	for _, kind := range []string{"RedisLock", "ReentrantLock"} {
		cells = append(cells, CellRun{kind, func(t testing.TB) { run(t, QueueMode{kind, fair}) }})
	}
	Together(t, cells)
}

// InQueue is how many waits the server has queued.
func (q *QueueBench) InQueue() int {
	q.Helper()
	n, err := redis.Int(q.Server.Do(q, "ZCARD", q.Key+":q"), nil)
	require.NoError(q, err)
	return n
}

// InRedis is how many of so many waits stand in Redis: of an unfair lock, one for each client.
func (q *QueueBench) InRedis(waits, clients int) int {
	if !q.Fair {
		return min(waits, clients)
	}
	return waits
}

func (q *QueueBench) AwaitQueued(n int) {
	q.Helper()
	testkit.Eventually(q, testkit.Patience, func() bool { return q.InQueue() == n }, "as many waits in the queue")
}

// AwaitHeard waits until the server has noted, at a poll, that it sees the client's subscription.
func (q *QueueBench) AwaitHeard(c *relock.Client) {
	q.Helper()
	AwaitHeard(q, q.Server, q.Key, c)
}

func AwaitHeard(t testing.TB, s *redistest.Server, key string, c *relock.Client) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience, func() bool {
		beat, _ := redis.String(s.Do(t, "HGET", key+":b", Engine(c).Identity.ID), nil)
		return strings.HasSuffix(beat, ":1")
	}, "a subscription that the server has noted")
}

// Take makes the test the holder.
func (q *QueueBench) Take(c *relock.Client, opts ...relock.LockOption) relock.Hold {
	q.Helper()
	h, err := q.Lock(c, opts...).TryAcquire(q.Context())
	require.NoError(q, err)
	return h
}

// Waiting is a call that waits for the lock.
type Waiting struct {
	Bench *QueueBench
	Ended chan struct{}
	Hold  relock.Hold
	Err   error
	At    time.Time // of the end
}

// Wait begins to wait.
func (q *QueueBench) Wait(ctx context.Context, c *relock.Client, opts ...relock.LockOption) *Waiting {
	w := &Waiting{Bench: q, Ended: make(chan struct{})}
	lock := q.Lock(c, opts...)
	q.Async(ctx, func(ctx context.Context) error {
		w.Hold, w.Err = lock.Acquire(ctx)
		w.At = time.Now()
		close(w.Ended)
		return nil
	})
	return w
}

// Async is async with a context that ends with the test, so that a failure leaves nobody who waits.
func (q *QueueBench) Async(ctx context.Context, f func(context.Context) error) <-chan error {
	ctx, cancel := context.WithCancel(ctx)
	result := testkit.Async(q, func() error { return f(ctx) })
	q.Cleanup(cancel) // runs ahead of the wait for f
	return result
}

// WaitNext begins to wait, behind n others that are queued already.
func (q *QueueBench) WaitNext(ctx context.Context, n int, c *relock.Client, opts ...relock.LockOption) *Waiting {
	q.Helper()
	before := q.known(c)
	w := q.Wait(ctx, c, opts...)
	// By their number alone, a wait from before could be taken for it: a late poll may put one back, for a moment.
	testkit.Eventually(q, testkit.Patience, func() bool { return q.known(c) > before }, "the client knows that it is queued")
	q.AwaitQueued(n + 1)
	return w
}

// known is how many waits a client knows to be in the queue.
func (q *QueueBench) known(c *relock.Client) int {
	return Engine(c).Queue.State().Lines[q.Key].Entries
}

// End waits for the end of the call, and returns its error.
func (w *Waiting) End() error {
	w.Bench.Helper()
	select {
	case <-w.Ended:
		return w.Err
	case <-time.After(testkit.Patience):
		require.FailNow(w.Bench, "the waiter sleeps for ever", "%s", w.Bench.Snapshot())
		return nil
	}
}

// Granted waits for the grant.
func (w *Waiting) Granted() relock.Hold {
	w.Bench.Helper()
	require.NoError(w.Bench, w.End())
	return w.Hold
}

func (q *QueueBench) Unlock(h relock.Hold) {
	q.Helper()
	require.NoError(q, h.Unlock(context.Background()))
}

// HandOver unlocks, and returns how long after the call began the waiter had the lock.
func (q *QueueBench) HandOver(h relock.Hold, w *Waiting) (relock.Hold, time.Duration) {
	q.Helper()
	start := time.Now()
	q.Unlock(h)
	next := w.Granted()
	return next, w.At.Sub(start)
}

// Snapshot is what the server has of the lock, for messages.
func (q *QueueBench) Snapshot() string {
	var all []string
	for _, args := range [][]any{{"GET", q.Key}, {"HGETALL", q.Key}, {"ZRANGE", q.Key + ":q", 0, -1, "WITHSCORES"}, {"HGETALL", q.Key + ":b"}} {
		reply, err := q.Server.Try(q, args[0].(string), args[1:]...)
		text, err2 := redis.Strings(reply, err)
		if err2 != nil {
			one, _ := redis.String(reply, err)
			text = []string{one}
		}
		all = append(all, strings.Join(text, " "))
	}
	return strings.Join(all, "; ")
}

// RequireNothingLeft sees that lock and queue go, and that the beats do too, or end by themselves: a last poll may have crossed the end. They
// stay for 12 periods; intervals above a second are named.
func (q *QueueBench) RequireNothingLeft(intervals ...time.Duration) {
	q.Helper()
	period := slices.Max(append(intervals, time.Second))
	testkit.Eventually(q, testkit.Patience, func() bool { return q.Server.Do(q, "EXISTS", q.Key, q.Key+":q") == int64(0) }, "nothing left of lock and queue")
	ms, err := redis.Int64(q.Server.Do(q, "PTTL", q.Key+":b"), nil)
	require.NoError(q, err)
	require.NotEqual(q, int64(-1), ms, "beats without an expiry")
	require.LessOrEqual(q, ms, (12 * period).Milliseconds())
}

// Middle is the median, the upper one of the two where the number is even.
func Middle(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// SnapshotQueue are the waits in the queue, in their order.
func (q *QueueBench) SnapshotQueue() []string {
	q.Helper()
	waits, err := redis.Strings(q.Server.Do(q, "ZRANGE", q.Key+":q", 0, -1), nil)
	require.NoError(q, err)
	return waits
}
