package locktest

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// NewTestClient returns a client of the server, with a prefix of the test's own, that is closed when the test ends.
func NewTestClient(t testing.TB, s *redistest.Server, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	opts = append([]relock.ClientOption{relock.WithKeyPrefix("test:" + uuid.NewString() + ":")}, opts...)
	c, err := relock.NewClient(s.Network, s.Address, "", opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// Sibling returns a second client with the same prefix, as another process would have.
func Sibling(t testing.TB, s *redistest.Server, c *relock.Client, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	return NewTestClient(t, s, append([]relock.ClientOption{relock.WithKeyPrefix(Prefix(c))}, opts...)...)
}

// KeyOf is where a lock of c is in Redis.
func KeyOf(c *relock.Client, key string) string { return Prefix(c) + "{" + key + "}" }

// Pttl is what is left of the lock's expiry: -2 when there is no key, -1 when it would stay for ever.
func Pttl(t testing.TB, s *redistest.Server, c *relock.Client, key string) time.Duration {
	t.Helper()
	ms, err := redis.Int64(s.Do(t, "PTTL", KeyOf(c, key)), nil)
	require.NoError(t, err)
	if ms < 0 {
		return time.Duration(ms)
	}
	return time.Duration(ms) * time.Millisecond
}

func RequireFree(t testing.TB, s *redistest.Server, c *relock.Client, key string) {
	t.Helper()
	require.Equal(t, int64(0), s.Do(t, "EXISTS", KeyOf(c, key)), "key %q is still there", key)
}

func RequireHeld(t testing.TB, s *redistest.Server, c *relock.Client, key string) {
	t.Helper()
	require.Greater(t, Pttl(t, s, c, key), time.Duration(0), "key %q is not held", key)
}

// RequireCount checks how many levels the server has of a reentrant lock: the one field whose value is a number.
func RequireCount(t testing.TB, s *redistest.Server, c *relock.Client, key string, want int) {
	t.Helper()
	fields, err := redis.StringMap(s.Do(t, "HGETALL", KeyOf(c, key)), nil)
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

// AwaitRenewal waits until a hold has been renewed once more.
func AwaitRenewal(t testing.TB, h relock.Hold, limit time.Duration) {
	t.Helper()
	until := h.ValidUntil()
	testkit.Eventually(t, limit, func() bool { return h.ValidUntil().After(until) }, "renewed")
}

// LogBuffer collects what a client logs.
type LogBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *LogBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *LogBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *LogBuffer) Option() relock.ClientOption {
	return relock.WithLogger(slog.New(slog.NewTextHandler(b, nil)))
}

// stuckLog is a logger that does not return before the test says so.
type stuckLog struct {
	called, freed chan struct{}
	first, last   sync.Once
}

func NewStuckLog(t testing.TB) *stuckLog {
	b := &stuckLog{called: make(chan struct{}), freed: make(chan struct{})}
	t.Cleanup(b.Free)
	return b
}

func (b *stuckLog) Write(p []byte) (int, error) {
	b.first.Do(func() { close(b.called) })
	<-b.freed
	return len(p), nil
}

func (b *stuckLog) Option() relock.ClientOption {
	return relock.WithLogger(slog.New(slog.NewTextHandler(b, nil)))
}

// Await waits for the first call.
func (b *stuckLog) Await(t testing.TB) {
	t.Helper()
	select {
	case <-b.called:
	case <-time.After(10 * time.Second):
		require.FailNow(t, "nothing was logged")
	}
}

func (b *stuckLog) Free() { b.last.Do(func() { close(b.freed) }) }

// Calls is how often a command was called since CONFIG RESETSTAT.
func Calls(t testing.TB, s *redistest.Server, command string) int {
	t.Helper()
	text, err := redis.String(s.Do(t, "INFO", "commandstats"), nil)
	require.NoError(t, err)
	return testkit.CallsIn(t, text, command)
}
