package acquire_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// wildClient returns a client of something that speaks Redis's protocol, but
// gives each command the reply that the test chooses. Its keys are short.
func wildClient(t testing.TB, reply func(args []string) string) *relock.Client {
	return locktest.NewTestClient(t, redistest.ServeReplies(t, reply), relock.WithKeyPrefix("k:"))
}

// Only the reply that means so grants a lock. What may have been locked
// although the reply has no such meaning is released.
func TestWildAnswerIsNoGrant(t *testing.T) {
	toScripts := []string{"+PONG\r\n", "*0\r\n", "$-1\r\n"}
	for name, tt := range map[string]struct {
		kind    string
		opt     relock.LockOption
		replies []string
	}{
		"SET": {
			"RedisLock", relock.WithLabel(""), []string{"+QUEUED\r\n", ":0\r\n", ":1\r\n", "$0\r\n\r\n", "*0\r\n", "+PONG\r\n"},
		},
		"RedisLock":           {"RedisLock", relock.WithFencing(), toScripts},
		"RedisLock, fair":     {"RedisLock", relock.WithFair(), toScripts},
		"ReentrantLock":       {"ReentrantLock", relock.WithLabel(""), toScripts},
		"ReentrantLock, fair": {"ReentrantLock", relock.WithFair(), toScripts},
		"RWLock":              {"RWLock", relock.WithLabel(""), toScripts},
		"MultiLock":           {"MultiLock", relock.WithLabel(""), toScripts},
	} {
		for _, reply := range tt.replies {
			t.Run(name+"/"+strings.TrimSpace(reply), func(t *testing.T) {
				var acquire atomic.Pointer[[]string]
				var released atomic.Bool
				c := wildClient(t, func(args []string) string {
					if acquire.CompareAndSwap(nil, &args) || args[0] == "SET" {
						return reply
					}
					// It names the same hold, value or waiter. Keys and numbers
					// are shorter.
					asked := *acquire.Load()
					names := func(arg string) bool { return len(arg) > 30 && slices.Contains(asked[2:], arg) }
					if args[1] != asked[1] && slices.ContainsFunc(args[3:], names) {
						released.Store(true)
					}
					return ":0\r\n"
				})
				_, err := locktest.AllKinds[tt.kind]("k", c, tt.opt).TryAcquire(t.Context())
				require.ErrorIs(t, err, relock.ErrKeyConflict)
				testkit.Eventually(t, testkit.Patience, released.Load, "a release of what it may have locked")
				if name == "SET" {
					ok, err := c.SetNEX(t.Context(), "key", "value", time.Second)
					require.False(t, ok)
					require.NoError(t, err)
				}
			})
		}
	}
}

// Replies that no script gives neither panic nor hang, and no call that gets
// one returns a hold.
func TestWildAnswersToScripts(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{
		"*-1\r\n", "*2\r\n-ERR a\r\n*1\r\n:1\r\n", ":99999999999999999999999\r\n", ":-1\r\n", "+\r\n", "$-1\r\n", "*0\r\n",
		"-\r\n", "- \r\n", "?\r\n",
		"*3\r\n:1\r\n$1\r\nx\r\n:5\r\n", "*3\r\n:1\r\n:5\r\n$1\r\nx\r\n", "*1\r\n$1\r\nx\r\n", "$2\r\nOK\r\n",
		":18446744073709551617\r\n", "*18446744073709551617\r\n:1\r\n", "$9223372036854775808\r\n",
	} {
		t.Run(strings.TrimSpace(reply), func(t *testing.T) {
			t.Parallel()
			c := wildClient(t, func(args []string) string {
				if args[0] == "SET" {
					return "+OK\r\n"
				}
				return reply
			})
			const lease = 3 * time.Second
			watched := relock.WithWatchdog(lease)
			h := locktest.Take(t, relock.NewRedisLock("lock", c, watched).TryAcquire)
			require.Error(t, h.Extend(t.Context(), time.Second))
			watch := testkit.NewStopwatch(t)
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrLockLost)
			watch.Within(lease*3/2, "renewed by that")
			require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrLockLost)
			_, err := relock.NewReentrantLock("reentrant", c, watched).TryAcquire(t.Context())
			require.Error(t, err)
			require.NotErrorIs(t, err, relock.ErrLockAcquiredByOthers)
		})
	}
}
