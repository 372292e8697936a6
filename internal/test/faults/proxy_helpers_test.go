package faults

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/test/redistest"
)

const (
	patience = 50 * time.Millisecond // how long a test waits for an answer that must not come
	limit    = 30 * time.Second      // and for what must
)

// bench is a server, a proxy in front of it and a client.
type bench struct {
	*testing.T
	server *redistest.Server
	proxy  *Proxy
	client redis.Conn
}

func newBench(t *testing.T) *bench { return newBenchOn(t, redistest.Start(t)) }

func newBenchOn(t *testing.T, server *redistest.Server) *bench {
	b := &bench{T: t, server: server}
	b.proxy = Start(t, b.server.Network, b.server.Address)
	b.client = b.dial()
	return b
}

func (b *bench) dial() redis.Conn {
	b.Helper()
	conn, err := redis.Dial(b.proxy.Network, b.proxy.Address)
	require.NoError(b, err)
	b.Cleanup(func() { _ = conn.Close() })
	return conn
}

// incr adds one to n through the proxy.
func (b *bench) incr() (int, error) {
	return redis.Int(redis.DoWithTimeout(b.client, limit, "INCR", "n"))
}

// incrInVain is incr that gets no answer.
func (b *bench) incrInVain() {
	b.Helper()
	_, err := redis.DoWithTimeout(b.client, patience, "INCR", "n")
	b.requireSilence(err)
}

// requireIncr is incr with this reply.
func (b *bench) requireIncr(want int) {
	b.Helper()
	n, err := b.incr()
	require.NoError(b, err)
	require.Equal(b, want, n)
}

// n returns what the server has counted.
func (b *bench) n() int {
	b.Helper()
	n, err := redis.Int(b.server.Try(b, "GET", "n"))
	if !errors.Is(err, redis.ErrNil) {
		require.NoError(b, err)
	}
	return n
}

func (b *bench) requireN(want int) {
	b.Helper()
	require.Equal(b, want, b.n())
}

// awaitN waits until the server has counted so far.
func (b *bench) awaitN(want int) {
	b.Helper()
	require.Eventually(b, func() bool { return b.n() == want }, limit, time.Millisecond)
}

func (b *bench) requireSilence(err error) {
	b.Helper()
	require.ErrorIs(b, err, os.ErrDeadlineExceeded)
}

func wait(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(limit):
		require.FailNow(t, "the action was not carried out")
	}
}
