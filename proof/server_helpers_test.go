package proof

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

const serverPrefix = "server:"

// serverLock is either kind of lock.
type serverLock interface {
	Acquire(ctx context.Context) (relock.Hold, error)
	TryAcquire(ctx context.Context) (relock.Hold, error)
}

type serverKind struct {
	name string
	lock func(key string, c *relock.Client, opts ...relock.LockOption) serverLock
}

var serverKinds = []serverKind{
	{"plain", func(key string, c *relock.Client, opts ...relock.LockOption) serverLock {
		return relock.NewRedisLock(key, c, opts...)
	}},
	{"reentrant", func(key string, c *relock.Client, opts ...relock.LockOption) serverLock {
		return relock.NewReentrantLock(key, c, opts...)
	}},
}

// hold acquires the lock that is called like its kind.
func (k serverKind) hold(t testing.TB, c *relock.Client, opts ...relock.LockOption) relock.Hold {
	t.Helper()
	h, err := k.lock(k.name, c, opts...).TryAcquire(t.Context())
	require.NoError(t, err, k.name)
	return h
}

func serverClient(t testing.TB, network, address string) *relock.Client {
	t.Helper()
	c, err := relock.NewClient(network, address, "", relock.WithKeyPrefix(serverPrefix))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func clientOf(t testing.TB, s *redistest.Server) *relock.Client {
	t.Helper()
	return serverClient(t, s.Network, s.Address)
}

func serverKey(key string) string { return fmt.Sprintf("%s{%s}", serverPrefix, key) }

// keyLeft is what the key has left; below 0 when there is none, or no expiry.
func keyLeft(t testing.TB, s *redistest.Server, key string) time.Duration {
	t.Helper()
	left, err := redis.Int64(s.Do(t, "PTTL", serverKey(key)), nil)
	require.NoError(t, err)
	require.NotEqual(t, int64(-1), left, "%q has no expiry", key)
	return time.Duration(left) * time.Millisecond
}

func keyThere(t testing.TB, s *redistest.Server, key string) bool {
	t.Helper()
	return s.Do(t, "EXISTS", serverKey(key)) == int64(1)
}

// content is the key's value, without its expiry.
func content(t testing.TB, s *redistest.Server, key string) string {
	t.Helper()
	return s.Content(t, serverKey(key))
}

// serverUntil waits for what another process or a timer does.
func serverUntil(t testing.TB, limit time.Duration, ok func() bool, what string) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(2 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "not within %v: %s", limit, what)
	}
}

// requireLost waits until the hold is found lost, which is at the end of its belief at the latest.
func requireLost(t testing.TB, h relock.Hold) {
	t.Helper()
	const slack = 10 * time.Second // a busy machine; that it comes in time is not what is looked at here
	select {
	case <-h.Context().Done():
	case <-time.After(max(0, time.Until(h.ValidUntil())) + slack):
		require.FailNow(t, "the loss was not found", h.Key())
	}
	require.ErrorIs(t, context.Cause(h.Context()), relock.ErrLockLost)
	require.ErrorIs(t, h.Err(), relock.ErrLockLost)
	require.True(t, h.ValidUntil().IsZero())
}

// requireRenewed waits until each hold has been renewed once more.
func requireRenewed(t testing.TB, limit time.Duration, holds ...relock.Hold) {
	t.Helper()
	var before []time.Time
	for _, h := range holds {
		before = append(before, h.ValidUntil())
	}
	for i, h := range holds {
		serverUntil(t, limit, func() bool { return h.ValidUntil().After(before[i]) }, h.Key()+" renewed")
	}
}

var (
	joinedFiles = regexp.MustCompile(`(\w+)Script += luaScript\(("[^)]*")\)`)
	fileName    = regexp.MustCompile(`"(\w+)"`)
	capital     = regexp.MustCompile(`[A-Z]`)
)

// scriptSources returns relock's scripts as it sends them, each joined from files, by what script.go calls them: releaseScript is "release",
// reentrantReleaseScript "reentrant_release".
func scriptSources(tb testing.TB) map[string]string {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("..", "script.go"))
	require.NoError(tb, err)
	sources := map[string]string{}
	for _, call := range joinedFiles.FindAllStringSubmatch(string(text), -1) {
		name, source := capital.ReplaceAllStringFunc(call[1], func(c string) string { return "_" + strings.ToLower(c) }), ""
		for _, file := range fileName.FindAllStringSubmatch(call[2], -1) {
			part, err := os.ReadFile(filepath.Join("..", "lua", file[1]+".lua"))
			require.NoError(tb, err)
			source += string(part) + "\n"
		}
		sources[name] = source
	}
	require.GreaterOrEqual(tb, len(sources), 30, "script.go joins its scripts in another way now")
	return sources
}
