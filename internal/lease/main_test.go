package lease_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/acquire"
	"github.com/relock-go/relock/internal/carried"
	"github.com/relock-go/relock/internal/kinds/multilock"
	"github.com/relock-go/relock/internal/kinds/plain"
	"github.com/relock-go/relock/internal/kinds/reentrant"
	"github.com/relock-go/relock/internal/kinds/rwlock"
	"github.com/relock-go/relock/internal/lease"
	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/suspend"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/testkit"
)

func TestMain(m *testing.M) { os.Exit(locktest.Run(m)) }

// leaseOf returns the lease of a hold.
func leaseOf(h relock.Hold) *lease.Lease { return locktest.Level(h).Lease() }

// holdOf returns the id of a hold at the server.
func holdOf(h relock.Hold) string { return leaseOf(h).Protocol().HoldID() }

// passes returns how often the lease of a hold was handed off.
func passes(h relock.Hold) int { return leaseOf(h).State().Passes }

// neverStale makes a hold look as if it could be handed off for an hour.
func neverStale(h relock.Hold) { grantedAt(h, time.Now().Add(time.Hour)) }

// grantedAt makes the lease of a hold look as if Redis had granted it then.
func grantedAt(h relock.Hold, at time.Time) {
	leaseOf(h).Set(func(s *lease.State) { s.Granted = at })
}

// requireStored checks that the server has the hold, with so many levels.
func requireStored(q *locktest.QueueBench, h relock.Hold, levels int) {
	q.Helper()
	q.RequireStored(h, levels)
	require.Equal(q, []byte(holdOf(h)), q.Server.Do(q, "HGET", q.Key, "hold"))
}

// awaitNext waits until a local waiter has become the first of its line, and
// sleeps. It had slept so often before the one ahead was granted the lock.
func awaitNext(w *locktest.Waiting, slept int64) {
	w.Helper()
	testkit.Eventually(w, testkit.Patience, func() bool { return w.Sleeps() > slept }, "the next one has the entry")
}

// engine is a manager on a driver without a server, for tests of what depends
// on time only. The machine is suspended when the test asks for it.
type engine struct {
	*lease.Manager
	*instant
	suspended atomic.Int64
}

func newEngine(t testing.TB, log io.Writer, hooks lease.Hooks) *engine {
	t.Helper()
	id, err := lockspec.NewIdentity(false)
	require.NoError(t, err)
	e := &engine{instant: &instant{server: id.ID, closed: make(chan struct{})}}
	e.Manager = lease.New(lease.Config{
		Identity: id, Prefix: "p:", Driver: e.instant, Logger: slog.New(slog.NewTextHandler(log, nil)),
		DialTimeout: time.Second, CommandTimeout: time.Second, Hooks: hooks, Limits: lease.DefaultLimits(),
	})
	e.SetClocks(e.clocks(suspend.Pause))
	t.Cleanup(func() { require.NoError(t, e.Manager.Close()) })
	return e
}

// timed runs a test with an engine, whose time passes while all goroutines
// wait.
func timed(t *testing.T, run func(*testing.T, *engine)) {
	t.Helper()
	testkit.Bubble(t, func(t *testing.T) { run(t, newEngine(t, io.Discard, lease.Hooks{})) })
}

// eachTimed runs a test with a new engine for each case.
func eachTimed[C any](t *testing.T, cases map[string]C, run func(t *testing.T, e *engine, c C)) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { timed(t, func(t *testing.T, e *engine) { run(t, e, c) }) })
	}
}

// clocks are those of the machine. A check without a call comes each pause.
func (e *engine) clocks(pause time.Duration) suspend.Clocks {
	asleep := func() time.Duration { return time.Duration(e.suspended.Load()) }
	split := func(time.Time) (wall, awake time.Duration) { return asleep(), 0 }
	return suspend.Clocks{All: asleep, Split: split, Pause: pause}
}

// stopTicks keeps the suspend monitor from checking periodically. Only calls
// check then. It must be called before the first hold.
func (e *engine) stopTicks() { e.SetClocks(e.clocks(1000 * time.Hour)) }

func (e *engine) suspend(d time.Duration) { e.suspended.Add(int64(d)) }

// setting changes a setting of a lock.
type setting func(*lockspec.Spec)

func fixed(d time.Duration) setting { return func(s *lockspec.Spec) { s.Lease, s.Watched = d, false } }

func watched(d time.Duration) setting { return func(s *lockspec.Spec) { s.Lease, s.Watched = d, true } }

// try acquires a lock, for the owner "me" if its kind has owners.
func (e *engine) try(ctx context.Context, kind *lockspec.Kind, key string, set ...setting) (h *lease.Hold, err error) {
	var p lockspec.Problems
	t := &acquire.Target{Settings: lockspec.Resolve(lockspec.Options{}, lockspec.Options{}, kind, &p)}
	t.Use(e.Manager, key)
	ctx = carried.WithOwner(ctx, "me")
	for _, change := range set {
		change(&t.Settings)
	}
	switch kind {
	case lockspec.Reentrant:
		h, _, err = reentrant.New(t).Take(ctx, false, false)
	case lockspec.Write:
		h, _, err = rwlock.New(t).Take(ctx, false, false)
	case lockspec.Multi:
		h, _, err = multilock.New(t, []string{key + "1", key + "2"}).Take(ctx, false, false)
	default:
		l := plain.New(t)
		h, _, err = l.Take(ctx, false, false)
	}
	return h, err
}

func (e *engine) take(t testing.TB, kind *lockspec.Kind, key string, set ...setting) *lease.Hold {
	t.Helper()
	h, err := e.try(t.Context(), kind, key, set...)
	require.NoError(t, err)
	return h
}

// ownKinds are the kinds of one key on one server, by their names in tests.
var ownKinds = map[string]*lockspec.Kind{"RedisLock": lockspec.Plain, "ReentrantLock": lockspec.Reentrant}

// instant is a driver without a server. It grants whatever is requested,
// immediately unless the test says otherwise.
type instant struct {
	server string
	// answer is nil, or returns when the answer comes, and the error that comes
	// instead of a grant.
	answer func(driver.Request) (time.Duration, error)

	once   sync.Once
	closed chan struct{} // ends the waits for answers

	mu      sync.Mutex
	sent    []driver.Request
	renewed time.Duration // the shortest limit that the watchdog had at its last renewal
}

// Connections returns 0, because there are none.
func (d *instant) Connections() int { return 0 }

func (d *instant) Send(_ context.Context, limit driver.Limits, r driver.Request) driver.Result {
	return d.send(limit.Answer, r)
}

func (d *instant) Call(ctx context.Context, limit driver.Limits, r driver.Request) driver.Result {
	return d.Send(ctx, limit, r)
}

func (d *instant) Address() string { return d.server }

func (d *instant) LooksForMasters() bool { return false }

func (d *instant) Home(context.Context, string) (driver.Node, error) { return d, nil }

func (d *instant) Known(string) driver.Node { return d }

func (d *instant) Nodes(context.Context) ([]driver.Node, error) { return []driver.Node{d}, nil }

func (d *instant) Link() driver.Link { return instantLink{d} }

func (d *instant) Close() error {
	d.once.Do(func() { close(d.closed) })
	return nil
}

func (d *instant) send(limit time.Duration, r driver.Request) driver.Result {
	o := driver.Result{Sent: time.Now(), Reply: d.grant(r)}
	d.mu.Lock()
	d.sent = append(d.sent, r)
	d.mu.Unlock()
	if d.answer != nil {
		var wait time.Duration
		if wait, o.Err = d.answer(r); wait > limit {
			wait, o.Err = limit, driver.ErrTimeout
		}
		select {
		case <-time.After(wait):
		case <-d.closed:
			o.Err = io.EOF
		}
	}
	var line redis.Error
	o.Answered = o.Err == nil || errors.As(o.Err, &line)
	return o
}

func (d *instant) grant(r driver.Request) any {
	switch {
	case r.Cmd == "SET":
		return "OK"
	case isCall(r, script.MultiAcquire):
		return []any{int64(script.OK)}
	case isCall(r, script.RedLockAcquire):
		return []any{int64(script.OK), []byte(d.server)}
	}
	return int64(script.OK)
}

func isCall(r driver.Request, s *script.Script) bool {
	return r.Cmd == "EVALSHA" && r.List()[0] == s.SHA
}

// limit returns the shortest limit of all renewals, as it was at the last one.
func (d *instant) limit() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.renewed
}

// calls returns how often a script was called, or any request if it is nil.
func (d *instant) calls(s *script.Script) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.sent {
		if s == nil || isCall(r, s) {
			n++
		}
	}
	return n
}

// last returns the last call of a script.
func (d *instant) last(s *script.Script) (last driver.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.sent {
		if isCall(r, s) {
			last = r
		}
	}
	return last
}

// instantLink is a worker's connection, on which answers come in order.
type instantLink struct{ *instant }

func (l instantLink) Pipeline(limit driver.BatchLimit, requests []driver.Request) (all []driver.Result) {
	if isCall(requests[0], script.Renew) || isCall(requests[0], script.ReentrantRenew) {
		l.mu.Lock()
		l.renewed = limit.Borrowed
		l.mu.Unlock()
	}
	end := time.Now().Add(limit.Own)
	for _, r := range requests {
		all = append(all, l.send(time.Until(end), r))
	}
	return all
}

func (l instantLink) Subscribe(driver.Listener) error {
	<-l.closed
	return io.EOF
}

func (l instantLink) Listen(driver.Channel) {}
func (l instantLink) Ignore(driver.Channel) {}
func (l instantLink) Shorten(time.Time)     {}
func (l instantLink) Cut()                  {}
func (l instantLink) Close()                { _ = l.instant.Close() }
