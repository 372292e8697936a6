package relock

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

const (
	queueKey = cellKey // so that a cell can observe it
	// pushLimit is for a median of what a message brings about: far below the second after which a poll would.
	pushLimit = 250 * time.Millisecond
	// leisure is a poll interval so long that no poll can be taken for a push.
	leisure = 900 * time.Millisecond
)

// queueMode is a kind of lock in one of its two modes.
type queueMode struct {
	kind string
	fair bool
}

func queueModes() []queueMode {
	return []queueMode{{"RedisLock", false}, {"RedisLock", true}, {"ReentrantLock", false}, {"ReentrantLock", true}}
}

func (m queueMode) name() string {
	if m.fair {
		return m.kind + ", fair"
	}
	return m.kind + ", unfair"
}

// lock is one that waits, unless it is tried.
func (m queueMode) lock(c *Client, opts ...LockOption) anyLock {
	opts = append([]LockOption{WithBlock()}, opts...)
	if m.fair {
		opts = append(opts, WithFair())
	}
	if newLock := rwKinds[m.kind]; newLock != nil {
		return newLock(queueKey, c, opts...)
	}
	return kinds[m.kind](queueKey, c, opts...)
}

// queueBench is a lock with a server of its own, and clients that wait for it.
type queueBench struct {
	testing.TB
	queueMode
	server  *redistest.Server
	clients []*Client
	key     string // in Redis
}

func newQueueBench(t testing.TB, m queueMode, clients int, opts ...ClientOption) *queueBench {
	return newQueueBenchOn(t, redistest.Start(t), m, clients, opts...)
}

func newQueueBenchOn(t testing.TB, s *redistest.Server, m queueMode, clients int, opts ...ClientOption) *queueBench {
	q := &queueBench{TB: t, queueMode: m, server: s, clients: []*Client{newTestClient(t, s, opts...)}}
	for len(q.clients) < clients {
		q.clients = append(q.clients, sibling(t, s, q.clients[0], opts...))
	}
	q.key = keyOf(q.clients[0], queueKey)
	return q
}

// eachMode runs a test with each kind of lock, fair and unfair, all at once.
func eachMode(t *testing.T, run func(t testing.TB, m queueMode)) {
	t.Helper()
	t.Parallel()
	eachModeAlone(t, run)
}

// eachModeAlone is eachMode with no other test beside it.
func eachModeAlone(t *testing.T, run func(t testing.TB, m queueMode)) {
	t.Helper()
	var cells []cellRun
	for _, m := range queueModes() {
		cells = append(cells, cellRun{m.name(), func(t testing.TB) { run(t, m) }})
	}
	together(t, cells)
}

// eachKind is eachMode for one of the two modes.
func eachKind(t *testing.T, fair bool, run func(t testing.TB, m queueMode)) {
	t.Helper()
	t.Parallel()
	var cells []cellRun
	for _, kind := range []string{"RedisLock", "ReentrantLock"} {
		cells = append(cells, cellRun{kind, func(t testing.TB) { run(t, queueMode{kind, fair}) }})
	}
	together(t, cells)
}

// inQueue is how many waits the server has queued.
func (q *queueBench) inQueue() int {
	q.Helper()
	n, err := redis.Int(q.server.Do(q, "ZCARD", q.key+":q"), nil)
	require.NoError(q, err)
	return n
}

// inRedis is how many of so many waits stand in Redis: of an unfair lock, one for each client.
func (q *queueBench) inRedis(waits, clients int) int {
	if !q.fair {
		return min(waits, clients)
	}
	return waits
}

func (q *queueBench) awaitQueued(n int) {
	q.Helper()
	testkit.Eventually(q, testkit.Patience, func() bool { return q.inQueue() == n }, "as many waits in the queue")
}

// awaitHeard waits until the server has noted, at a poll, that it sees the client's subscription.
func (q *queueBench) awaitHeard(c *Client) {
	q.Helper()
	awaitHeard(q, q.server, q.key, c)
}

func awaitHeard(t testing.TB, s *redistest.Server, key string, c *Client) {
	t.Helper()
	testkit.Eventually(t, testkit.Patience, func() bool {
		beat, _ := redis.String(s.Do(t, "HGET", key+":b", c.engine.Identity.ID), nil)
		return strings.HasSuffix(beat, ":1")
	}, "a subscription that the server has noted")
}

// take makes the test the holder.
func (q *queueBench) take(c *Client, opts ...LockOption) Hold {
	q.Helper()
	h, err := q.lock(c, opts...).TryAcquire(q.Context())
	require.NoError(q, err)
	return h
}

// waiting is a call that waits for the lock.
type waiting struct {
	bench *queueBench
	ended chan struct{}
	hold  Hold
	err   error
	at    time.Time // of the end
}

// wait begins to wait.
func (q *queueBench) wait(ctx context.Context, c *Client, opts ...LockOption) *waiting {
	w := &waiting{bench: q, ended: make(chan struct{})}
	lock := q.lock(c, opts...)
	q.async(ctx, func(ctx context.Context) error {
		w.hold, w.err = lock.Acquire(ctx)
		w.at = time.Now()
		close(w.ended)
		return nil
	})
	return w
}

// async is async with a context that ends with the test, so that a failure leaves nobody who waits.
func (q *queueBench) async(ctx context.Context, f func(context.Context) error) <-chan error {
	ctx, cancel := context.WithCancel(ctx)
	result := testkit.Async(q, func() error { return f(ctx) })
	q.Cleanup(cancel) // runs ahead of the wait for f
	return result
}

// waitNext begins to wait, behind n others that are queued already.
func (q *queueBench) waitNext(ctx context.Context, n int, c *Client, opts ...LockOption) *waiting {
	q.Helper()
	before := q.known(c)
	w := q.wait(ctx, c, opts...)
	// By their number alone, a wait from before could be taken for it: a late poll may put one back, for a moment.
	testkit.Eventually(q, testkit.Patience, func() bool { return q.known(c) > before }, "the client knows that it is queued")
	q.awaitQueued(n + 1)
	return w
}

// known is how many waits a client knows to be in the queue.
func (q *queueBench) known(c *Client) int {
	return c.engine.Queue.State().Lines[q.key].Entries
}

// end waits for the end of the call, and returns its error.
func (w *waiting) end() error {
	w.bench.Helper()
	select {
	case <-w.ended:
		return w.err
	case <-time.After(testkit.Patience):
		require.FailNow(w.bench, "the waiter sleeps for ever", "%s", w.bench.snapshot())
		return nil
	}
}

// granted waits for the grant.
func (w *waiting) granted() Hold {
	w.bench.Helper()
	require.NoError(w.bench, w.end())
	return w.hold
}

func (q *queueBench) unlock(h Hold) {
	q.Helper()
	require.NoError(q, h.Unlock(context.Background()))
}

// handOver unlocks, and returns how long after the call began the waiter had the lock.
func (q *queueBench) handOver(h Hold, w *waiting) (Hold, time.Duration) {
	q.Helper()
	start := time.Now()
	q.unlock(h)
	next := w.granted()
	return next, w.at.Sub(start)
}

// snapshot is what the server has of the lock, for messages.
func (q *queueBench) snapshot() string {
	var all []string
	for _, args := range [][]any{{"GET", q.key}, {"HGETALL", q.key}, {"ZRANGE", q.key + ":q", 0, -1, "WITHSCORES"}, {"HGETALL", q.key + ":b"}} {
		reply, err := q.server.Try(q, args[0].(string), args[1:]...)
		text, err2 := redis.Strings(reply, err)
		if err2 != nil {
			one, _ := redis.String(reply, err)
			text = []string{one}
		}
		all = append(all, strings.Join(text, " "))
	}
	return strings.Join(all, "; ")
}

// requireNothingLeft sees that lock and queue go, and that the beats do too, or end by themselves: a last poll may have crossed the end. They
// stay for 12 periods; intervals above a second are named.
func (q *queueBench) requireNothingLeft(intervals ...time.Duration) {
	q.Helper()
	period := slices.Max(append(intervals, time.Second))
	testkit.Eventually(q, testkit.Patience, func() bool { return q.server.Do(q, "EXISTS", q.key, q.key+":q") == int64(0) }, "nothing left of lock and queue")
	ms, err := redis.Int64(q.server.Do(q, "PTTL", q.key+":b"), nil)
	require.NoError(q, err)
	require.NotEqual(q, int64(-1), ms, "beats without an expiry")
	require.LessOrEqual(q, ms, (12 * period).Milliseconds())
}

// middle is the median, the upper one of the two where the number is even.
func middle(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// snapshotQueue are the waits in the queue, in their order.
func (q *queueBench) snapshotQueue() []string {
	q.Helper()
	waits, err := redis.Strings(q.server.Do(q, "ZRANGE", q.key+":q", 0, -1), nil)
	require.NoError(q, err)
	return waits
}
