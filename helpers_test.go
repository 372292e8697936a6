package relock

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// TestMain runs a server for the examples, which cannot start one themselves, and looks for leaked goroutines at the end.
func TestMain(m *testing.M) {
	redistest.Overlap()
	stop, err := serveExamples()
	if err != nil {
		if os.Getenv("CI") != "" {
			fmt.Fprintln(os.Stderr, "no server for the examples:", err)
			os.Exit(1)
		}
		fmt.Fprintln(os.Stderr, "examples are skipped:", err)
		_ = flag.Set("test.skip", "^Example")
	}
	code := m.Run()
	redCellar.close()
	stop()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines are left:", err)
		code = 1
	}
	os.Exit(code)
}

// serveExamples tells the examples where their server is.
func serveExamples() (stop func(), err error) {
	network, address := "tcp", os.Getenv("RELOCK_TEST_REDIS")
	stop = func() {}
	if address == "" {
		s, stopServer, err := redistest.Launch()
		if err != nil {
			return stop, err
		}
		network, address, stop = s.Network, s.Address, stopServer
	}
	_ = os.Setenv("EXAMPLE_NETWORK", network)
	_ = os.Setenv("EXAMPLE_ADDRESS", address)
	return stop, nil
}

// newTestClient returns a client of the server, with a prefix of the test's own, that is closed when the test ends.
func newTestClient(t testing.TB, s *redistest.Server, opts ...ClientOption) *Client {
	t.Helper()
	opts = append([]ClientOption{WithKeyPrefix("test:" + uuid.NewString() + ":")}, opts...)
	c, err := NewClient(s.Network, s.Address, "", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// sibling returns a second client with the same prefix, as another process would have.
func sibling(t testing.TB, s *redistest.Server, c *Client, opts ...ClientOption) *Client {
	t.Helper()
	return newTestClient(t, s, append([]ClientOption{WithKeyPrefix(c.config.prefix)}, opts...)...)
}

// keyOf is where a lock of c is in Redis.
func keyOf(c *Client, key string) string { return c.config.prefix + "{" + key + "}" }

// pttl is what is left of the lock's expiry: -2 when there is no key, -1 when it would stay for ever.
func pttl(t testing.TB, s *redistest.Server, c *Client, key string) time.Duration {
	t.Helper()
	ms, err := redis.Int64(s.Do(t, "PTTL", keyOf(c, key)), nil)
	require.NoError(t, err)
	if ms < 0 {
		return time.Duration(ms)
	}
	return time.Duration(ms) * time.Millisecond
}

func requireFree(t testing.TB, s *redistest.Server, c *Client, key string) {
	t.Helper()
	require.Equal(t, int64(0), s.Do(t, "EXISTS", keyOf(c, key)), "key %q is still there", key)
}

func requireHeld(t testing.TB, s *redistest.Server, c *Client, key string) {
	t.Helper()
	require.Greater(t, pttl(t, s, c, key), time.Duration(0), "key %q is not held", key)
}

// requireCount checks how many levels the server has of a reentrant lock: the one field whose value is a number.
func requireCount(t testing.TB, s *redistest.Server, c *Client, key string, want int) {
	t.Helper()
	fields, err := redis.StringMap(s.Do(t, "HGETALL", keyOf(c, key)), nil)
	require.NoError(t, err)
	got := 0
	for field, value := range fields {
		if strings.Contains(field, ":") {
			got, err = redis.Int([]byte(value), nil)
			require.NoError(t, err)
		}
	}
	require.Equal(t, want, got, "levels at the server")
}

// awaitRenewal waits until a hold has been renewed once more.
func awaitRenewal(t testing.TB, h Hold, limit time.Duration) {
	t.Helper()
	until := h.ValidUntil()
	testkit.Eventually(t, limit, func() bool { return h.ValidUntil().After(until) }, "renewed")
}

// logBuffer collects what a client logs.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *logBuffer) option() ClientOption { return WithLogger(slog.New(slog.NewTextHandler(b, nil))) }

// stuckLog is a logger that does not return before the test says so.
type stuckLog struct {
	called, freed chan struct{}
	first, last   sync.Once
}

func newStuckLog(t testing.TB) *stuckLog {
	b := &stuckLog{called: make(chan struct{}), freed: make(chan struct{})}
	t.Cleanup(b.free)
	return b
}

func (b *stuckLog) Write(p []byte) (int, error) {
	b.first.Do(func() { close(b.called) })
	<-b.freed
	return len(p), nil
}

func (b *stuckLog) option() ClientOption { return WithLogger(slog.New(slog.NewTextHandler(b, nil))) }

// await waits for the first call.
func (b *stuckLog) await(t testing.TB) {
	t.Helper()
	select {
	case <-b.called:
	case <-time.After(10 * time.Second):
		require.FailNow(t, "nothing was logged")
	}
}

func (b *stuckLog) free() { b.last.Do(func() { close(b.freed) }) }

// calls is how often a command was called since CONFIG RESETSTAT.
func calls(t testing.TB, s *redistest.Server, command string) int {
	t.Helper()
	text, err := redis.String(s.Do(t, "INFO", "commandstats"), nil)
	require.NoError(t, err)
	return testkit.CallsIn(t, text, command)
}
