package relock

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// olderVersions are the files that scripts were made of before: in 0.1.0, and when the queue was new.
var olderVersions = map[string]map[*Script][]string{
	"0.1.0": {
		acquireScript: {"acquire"}, renewScript: {"renew"}, releaseScript: {"release"}, reentrantAcquireScript: {"reentrant_acquire"},
		reentrantEnterScript: {"reentrant_enter"}, reentrantRenewScript: {"reentrant_renew"}, reentrantReleaseScript: {"reentrant_release"},
	},
	"queue": {
		acquireScript: {"number", "acquire"}, renewScript: {"number", "renew"}, releaseScript: {"number", "queue", "release"},
		reentrantAcquireScript: {"number", "reentrant_acquire"}, reentrantEnterScript: {"number", "reentrant_enter"},
		reentrantRenewScript: {"number", "reentrant_renew"}, reentrantReleaseScript: {"number", "queue", "reentrant_release"},
		tryScript: {"number", "queue", "take", "try"}, enqueueScript: {"number", "queue", "take", "enqueue"},
		claimScript: {"number", "queue", "take", "claim"}, cancelScript: {"queue", "cancel"}, pollScript: {"number", "queue", "poll"},
	},
}

// olderConn sends the scripts of an older version in place of today's.
type olderConn struct {
	redis.Conn
	older map[any]any // what names a script today, by digest or in full, and what did then
	sent  *atomic.Int64
}

func (c *olderConn) Do(command string, args ...any) (any, error) {
	return padded(c.Conn.Do(command, c.translated(command, args)...))
}

func (c *olderConn) DoWithTimeout(limit time.Duration, command string, args ...any) (any, error) {
	return padded(redis.DoWithTimeout(c.Conn, limit, command, c.translated(command, args)...))
}

// ReceiveWithTimeout passes on what embedding hides.
func (c *olderConn) ReceiveWithTimeout(limit time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(c.Conn, limit)
}

func (c *olderConn) Send(command string, args ...any) error {
	return c.Conn.Send(command, c.translated(command, args)...)
}

func (c *olderConn) translated(command string, args []any) []any {
	if !strings.HasPrefix(command, "EVAL") {
		return args
	}
	older, ok := c.older[args[0]]
	if !ok {
		return args
	}
	c.sent.Add(1)
	return append([]any{older}, args[1:]...)
}

// padded is an answer of today: who waits was not told how many others do.
func padded(reply any, err error) (any, error) {
	if values, ok := reply.([]any); ok && len(values) == 3 {
		return append(values, int64(0)), err
	}
	return reply, err
}

// olderClient is a client with the scripts of an older version.
func olderClient(t *testing.T, s *redistest.Server, version string, like *Client) (c *Client, sent *atomic.Int64) {
	older, sent := map[any]any{}, &atomic.Int64{}
	for script, files := range olderVersions[version] {
		var source strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join("testdata", "scripts", version, file+".lua"))
			require.NoError(t, err)
			source.Write(text)
			source.WriteByte('\n')
		}
		then := NewScript(source.String())
		older[script.sha], older[script.source] = then.sha, then.source
	}
	pool := &redis.Pool{Dial: func() (redis.Conn, error) {
		conn, err := redis.Dial(s.Network, s.Address)
		return &olderConn{conn, older, sent}, err
	}}
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	c, err := NewClientPool(pool, WithKeyPrefix(like.config.prefix))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c, sent
}

// While clients with older scripts are replaced by new ones, all exclude each other, get on, and leave nothing.
func TestRollingDeployment(t *testing.T) {
	t.Parallel()
	for version := range olderVersions {
		for _, m := range queueModes() {
			if m.fair && version == "0.1.0" {
				continue // it had none
			}
			t.Run(version+"/"+m.name(), func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				fresh := newTestClient(t, s)
				older, sent := olderClient(t, s, version, fresh)
				second, _ := olderClient(t, s, version, fresh)
				q := &queueBench{TB: t, queueMode: m, server: s, clients: []*Client{fresh, older, second}, key: keyOf(fresh, queueKey)}
				rolling(t, q, version == "0.1.0")
				require.Positive(t, sent.Load())
				q.requireNothingLeft()
			})
		}
	}
}

// rolling has all clients take the lock again and again. An older one does not wait in the queue when it has none, and has
// one goroutine: it passes nothing on in memory.
func rolling(t *testing.T, q *queueBench, polls bool) {
	const times = 25
	var inside atomic.Bool
	var group sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), queuePatience)
	defer cancel()
	for i, c := range q.clients {
		for range max(1, 2-i) {
			group.Go(func() {
				lock := q.lock(c, WithWatchdog(10*time.Second)) // a third of it is for an Unlock
				acquire := lock.Acquire
				if i > 0 && polls {
					acquire = func(ctx context.Context) (Hold, error) { return tryUntil(ctx, lock) }
				}
				for range times {
					h, err := acquire(ctx)
					if err != nil {
						t.Errorf("client %d: %v; %s", i, err, q.snapshot())
						return
					}
					if !inside.CompareAndSwap(false, true) {
						t.Error("two are in")
					}
					time.Sleep(rand.N(time.Millisecond))
					inside.Store(false)
					if err := h.Unlock(ctx); err != nil {
						t.Errorf("client %d: %v", i, err)
					}
				}
			})
		}
	}
	group.Wait()
}

// tryUntil tries again and again, as a waiter of 0.1.0 did. A reentrant lock that is reserved for a wait is something else to
// that version: it refuses.
func tryUntil(ctx context.Context, lock anyLock) (Hold, error) {
	for {
		h, err := lock.TryAcquire(ctx)
		if err == nil || !IsRetryableErr(err) && !errors.Is(err, ErrKeyConflict) {
			return h, err
		}
		time.Sleep(5*time.Millisecond + rand.N(5*time.Millisecond))
	}
}
