package acquire_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/testkit"
)

// startWildServer runs something that speaks Redis's protocol but is none: it answers each command as it is told.
func startWildServer(t testing.TB, answer func(args []string) string) (address string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var group sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			group.Go(func() { serveWild(conn, answer) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close() // mostly closed already
		}
		mu.Unlock()
		group.Wait()
	})
	return listener.Addr().String()
}

func serveWild(conn net.Conn, answer func(args []string) string) {
	r := bufio.NewReader(conn)
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, answer(args)); err != nil {
			return
		}
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	var count int
	if _, err := fmt.Fscanf(r, "*%d\r\n", &count); err != nil {
		return nil, err
	}
	args := make([]string, count)
	for i := range args {
		var size int
		if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		text := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:size])
	}
	return args, nil
}

// Only the answer that means it grants a lock.
func TestWildAnswerToSetIsNoGrant(t *testing.T) {
	for _, reply := range []string{"+QUEUED\r\n", ":0\r\n", ":1\r\n", "$0\r\n\r\n", "*0\r\n", "+PONG\r\n"} {
		t.Run(strings.TrimSpace(reply), func(t *testing.T) {
			var value atomic.Pointer[string]
			var cleaned atomic.Bool
			c, err := relock.NewClient("tcp", startWildServer(t, func(args []string) string {
				if args[0] == "SET" {
					value.Store(&args[2])
					return reply
				}
				if v := value.Load(); v != nil && slices.Contains(args, *v) {
					cleaned.Store(true)
				}
				return ":0\r\n"
			}), "")
			require.NoError(t, err)
			defer c.Close() //nolint:errcheck // a second Close does nothing
			_, err = relock.NewRedisLock("lock", c).TryAcquire(t.Context())
			require.ErrorIs(t, err, relock.ErrKeyConflict)
			testkit.Eventually(t, testkit.Patience, cleaned.Load, "a release of what it may have taken")
			ok, err := c.SetNEX(t.Context(), "key", "value", time.Second)
			require.False(t, ok)
			require.NoError(t, err)
		})
	}
}

// An answer that no script gives is none, and what was executed in its place is cleaned up after.
func TestWildAnswerToAScriptIsNoGrant(t *testing.T) {
	for name, lock := range map[string]func(c *relock.Client) locktest.AnyLock{
		"RedisLock":           func(c *relock.Client) locktest.AnyLock { return relock.NewRedisLock("k", c, relock.WithFencing()) },
		"RedisLock, fair":     func(c *relock.Client) locktest.AnyLock { return relock.NewRedisLock("k", c, relock.WithFair()) },
		"ReentrantLock":       func(c *relock.Client) locktest.AnyLock { return relock.NewReentrantLock("k", c) },
		"ReentrantLock, fair": func(c *relock.Client) locktest.AnyLock { return relock.NewReentrantLock("k", c, relock.WithFair()) },
		"RWLock":              func(c *relock.Client) locktest.AnyLock { return relock.NewRWLock("k", c) },
		"MultiLock":           func(c *relock.Client) locktest.AnyLock { return relock.NewMultiLock([]string{"k", "l"}, c) },
	} {
		for _, reply := range []string{"+PONG\r\n", "*0\r\n", "$-1\r\n"} {
			t.Run(name+"/"+strings.TrimSpace(reply), func(t *testing.T) {
				var acquire atomic.Pointer[[]string]
				var cleaned atomic.Bool
				c, err := relock.NewClient("tcp", startWildServer(t, func(args []string) string {
					if acquire.CompareAndSwap(nil, &args) {
						return reply
					}
					// It names the same hold, value or wait; keys and numbers are shorter.
					asked := *acquire.Load()
					names := func(arg string) bool { return len(arg) > 30 && slices.Contains(asked[3:], arg) }
					if args[1] != asked[1] && slices.ContainsFunc(args[3:], names) {
						cleaned.Store(true)
					}
					return ":0\r\n"
				}), "")
				require.NoError(t, err)
				defer c.Close() //nolint:errcheck // a second Close does nothing
				_, err = lock(c).TryAcquire(t.Context())
				require.ErrorIs(t, err, relock.ErrKeyConflict)
				testkit.Eventually(t, testkit.Patience, cleaned.Load, "a release of what it may have taken")
			})
		}
	}
}

// Answers that no script gives neither panic nor hang, and end no call with a hold.
func TestWildAnswersToScripts(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{
		"*-1\r\n", "*2\r\n-ERR a\r\n*1\r\n:1\r\n", ":99999999999999999999999\r\n", ":-1\r\n", "+\r\n", "$-1\r\n", "*0\r\n", "-\r\n", "- \r\n", "?\r\n",
	} {
		t.Run(strings.TrimSpace(reply), func(t *testing.T) {
			t.Parallel()
			c, err := relock.NewClient("tcp", startWildServer(t, func(args []string) string {
				if args[0] == "SET" {
					return "+OK\r\n"
				}
				return reply
			}), "")
			require.NoError(t, err)
			defer c.Close() //nolint:errcheck // a second Close does nothing
			h, err := relock.NewRedisLock("lock", c, relock.WithWatchdog(2400*time.Millisecond)).TryAcquire(t.Context())
			require.NoError(t, err)
			require.Error(t, h.Extend(t.Context(), time.Second))
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 3*2400*time.Millisecond), relock.ErrLockLost, "renewed by that")
			require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
			_, err = relock.NewReentrantLock("reentrant", c, relock.WithWatchdog(2400*time.Millisecond)).TryAcquire(t.Context())
			require.Error(t, err)
		})
	}
}
