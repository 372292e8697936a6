package conns

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redis/driver"
	"github.com/relock-go/relock/internal/test/faults"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

const (
	testIdleTimeout    = time.Minute
	testDialTimeout    = 5 * time.Second
	testCommandTimeout = 3 * time.Second
)

// newTestPool returns a pool of the server with the defaults of a client. It is
// closed when the test ends.
func newTestPool(t testing.TB, s *redistest.Server, change ...func(*driver.Config)) *Pool {
	t.Helper()
	c := &driver.Config{
		Network: s.Network, Address: s.Address, Password: new(string),
		MaxIdle: 10, IdleTimeout: testIdleTimeout, DialTimeout: testDialTimeout, CommandTimeout: testCommandTimeout,
	}
	for _, f := range change {
		f(c)
	}
	d := NewPool(c)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// newPoolBehind is newTestPool with a proxy before the server.
func newPoolBehind(t testing.TB, s *redistest.Server, change ...func(*driver.Config)) (*Pool, *faults.Proxy) {
	t.Helper()
	p := faults.Start(t, s.Network, s.Address)
	return newTestPool(t, &redistest.Server{Network: p.Network, Address: p.Address}, change...), p
}

func withDatabase(n int) func(*driver.Config) { return func(c *driver.Config) { c.Database = n } }

func withPassword(text string) func(*driver.Config) {
	return func(c *driver.Config) { c.Password = &text }
}

func withCommandTimeout(d time.Duration) func(*driver.Config) {
	return func(c *driver.Config) { c.CommandTimeout = d }
}

// waitingForOne makes callers wait for the one connection.
func waitingForOne(c *driver.Config) { c.MaxActive, c.Wait = 1, true }

// takeConns takes n connections out of the pool, as calls do.
func takeConns(t testing.TB, d *Pool, n int) []redis.Conn {
	t.Helper()
	conns := make([]redis.Conn, n)
	for i := range conns {
		conn, err := d.connect(t.Context(), 0)
		require.NoError(t, err)
		conns[i] = conn
	}
	return conns
}

func putConns(d *Pool, conns []redis.Conn) {
	for _, conn := range conns {
		d.putBack(conn)
	}
}

// warmPool leaves n idle connections, used once, in the pool.
func warmPool(t testing.TB, d *Pool, n int) {
	t.Helper()
	conns := takeConns(t, d, n)
	for _, conn := range conns {
		_, err := conn.Do("PING")
		require.NoError(t, err)
	}
	putConns(d, conns)
}

func linkOf(t testing.TB, d *Pool) *poolLink {
	t.Helper()
	l := d.Link().(*poolLink)
	t.Cleanup(l.Close)
	return l
}

var patient = driver.BatchLimit{Own: testkit.Patience, Borrowed: testkit.Patience}

func echo(text string) driver.Request { return driver.Request{Cmd: "ECHO", Args: []any{text}} }

// sharedBench is the shared connection of a pool, behind a proxy. The inspector
// is the only other client of the server.
type sharedBench struct {
	testing.TB
	server    *redistest.Server
	proxy     *faults.Proxy
	pool      *Pool
	inspector redis.Conn
	before    int // connections that the server had taken when the bench began
}

func newSharedBench(t testing.TB, change ...func(*driver.Config)) *sharedBench {
	s := redistest.Start(t)
	b := &sharedBench{TB: t, server: s, inspector: s.Dial(t)}
	t.Cleanup(func() { _ = b.inspector.Close() })
	b.before = b.taken()
	b.pool, b.proxy = newPoolBehind(t, s, change...)
	b.pool.apart = 0 // all commands share one connection
	return b
}

// newOpenBench is newSharedBench after a first command, which has opened the
// connection.
func newOpenBench(t testing.TB, change ...func(*driver.Config)) *sharedBench {
	t.Helper()
	b := newSharedBench(t, change...)
	b.requireAnswer("first")
	return b
}

// send runs a command, and requires the answer that belongs to it when there is
// one.
func (b *sharedBench) send(ctx context.Context, limit driver.Limits, text string) driver.Result {
	b.Helper()
	o := b.pool.Send(ctx, limit, echo(text))
	if o.Err == nil && string(o.Reply.([]byte)) != text {
		b.Errorf("%q was answered to %q", o.Reply, text)
	}
	return o
}

// async is send on a goroutine that the test waits for.
func (b *sharedBench) async(ctx context.Context, text string) <-chan error {
	return testkit.Async(b, func() error { return b.send(ctx, driver.Limits{}, text).Err })
}

// burst is async with n commands.
func (b *sharedBench) burst(n int) (results []<-chan error) {
	for i := range n {
		results = append(results, b.async(context.Background(), fmt.Sprint("burst ", i)))
	}
	return results
}

// leave is send for a caller that leaves after the given wait.
func (b *sharedBench) leave(wait func()) driver.Result {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	result := make(chan driver.Result, 1)
	testkit.Async(b, func() error {
		result <- b.send(ctx, driver.Limits{}, "left")
		return nil
	})
	wait()
	cancel()
	o := <-result
	require.ErrorIs(b, o.Err, driver.ErrAbandoned)
	return o
}

func (b *sharedBench) requireAnswer(text string) {
	b.Helper()
	require.NoError(b, b.send(context.Background(), driver.Limits{}, text).Err)
}

// aboutToWrite is the stream, as if a call were about to write after so long
// a rest: s.more lets it go on.
func (b *sharedBench) aboutToWrite(rest time.Duration) *stream {
	s := b.pool.shared.stream.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = true
	s.quiet = s.quiet.Add(-rest)
	return s
}

// awaitUnwritten waits until so many requests wait to be written.
func (b *sharedBench) awaitUnwritten(n int) {
	b.Helper()
	s := b.pool.shared.stream.Load()
	testkit.Eventually(b, testkit.Patience, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.waiting) == n
	}, "wait to be written")
}

// open is how many connections the client has.
func (b *sharedBench) open() int {
	b.Helper()
	return len(redistest.Connections(b, b.inspector))
}

// dials is how many connections the client has opened so far.
func (b *sharedBench) dials() int { return b.taken() - b.before }

func (b *sharedBench) taken() int {
	b.Helper()
	text, err := redis.String(b.inspector.Do("INFO", "stats"))
	require.NoError(b, err)
	var n int
	_, err = fmt.Sscanf(text, "# Stats\r\ntotal_connections_received:%d", &n)
	require.NoError(b, err)
	return n
}

// silences is how many connections may have been silent for minLimit, as far as
// their callers know: if nothing runs for a moment, they seem to be.
func silences(answers []time.Time) (n int) {
	slices.SortFunc(answers, time.Time.Compare)
	for i := range answers[1:] {
		n += int(answers[i+1].Sub(answers[i]) / (driver.MinLimit / 2))
	}
	return n
}
