package driver

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

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

func newSharedBench(t testing.TB, change ...func(*Config)) *sharedBench {
	s := redistest.Start(t)
	b := &sharedBench{TB: t, server: s, proxy: faults.Start(t, s.Network, s.Address), inspector: s.Dial(t)}
	t.Cleanup(func() { _ = b.inspector.Close() })
	b.before = b.taken()
	b.pool = newTestPool(t, &redistest.Server{Network: b.proxy.Network, Address: b.proxy.Address}, change...)
	b.pool.Apart = 0 // all commands share one connection
	return b
}

// send runs a command, and requires the answer that belongs to it when there is
// one.
func (b *sharedBench) send(ctx context.Context, limit Limits, text string) Result {
	b.Helper()
	o := b.pool.Send(ctx, limit, echo(text))
	if o.Err == nil && string(o.Reply.([]byte)) != text {
		b.Errorf("%q was answered to %q", o.Reply, text)
	}
	return o
}

func (b *sharedBench) requireAnswer(text string) {
	b.Helper()
	require.NoError(b, b.send(context.Background(), Limits{}, text).Err)
}

// aboutToWrite is the stream, as if somebody were about to write after so long
// a rest: s.more lets it go on.
func (b *sharedBench) aboutToWrite(rest time.Duration) *stream {
	s := b.pool.shared.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = true
	s.quiet = s.quiet.Add(-rest)
	return s
}

// awaitUnwritten waits until so many requests wait to be written.
func (b *sharedBench) awaitUnwritten(n int) {
	b.Helper()
	s := b.pool.shared.stream
	testkit.Eventually(b, testkit.Patience, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.waiting) == n
	}, "wait to be written")
}

// open is how many connections the client has.
func (b *sharedBench) open() int {
	b.Helper()
	n := 0
	for range testkit.Connections(b, b.inspector) {
		n++
	}
	return n
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
// their callers can tell: where nothing runs for a moment, they seem to be.
func silences(answers []time.Time) (n int) {
	slices.SortFunc(answers, time.Time.Compare)
	for i := range answers[1:] {
		n += int(answers[i+1].Sub(answers[i]) / (MinLimit / 2))
	}
	return n
}
