package acquire_test

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// Goroutines that wait on one object wait in memory: only the first of them
// asks the server, and TryLock sends no request. HMGET is of the script that
// enqueues alone: a poll that comes after the end puts an entry back by ZADD.
func TestSharedObjectWaitsInMemory(t *testing.T) {
	t.Parallel()
	b := benchOn(t, redistest.Start(t))
	l := relock.NewRedisLock("k", b.client, relock.WithBlock())
	require.NoError(t, l.Lock(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waits []<-chan error
	for range 50 {
		waits = append(waits, testkit.Async(t, func() error { return l.Lock(ctx) }))
	}
	testkit.Eventually(t, testkit.Patience, func() bool {
		return locktest.Calls(t, b.server, "hmget") == 1 && b.client.Stats().Waiting == 50
	}, "all wait")
	sets := locktest.Calls(t, b.server, "set")
	require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrLockAcquiredByOthers)
	require.Equal(t, sets, locktest.Calls(t, b.server, "set"))
	cancel()
	for _, result := range waits {
		locktest.RequireIs(t, testkit.ResultWithin(t, result, testkit.Patience), context.Canceled,
			relock.ErrLockAcquiredByOthers)
	}
	require.Equal(t, 1, locktest.Calls(t, b.server, "hmget"), "one queue entry, for whichever is the first")
	require.NoError(t, l.Unlock(t.Context()))
	require.NoError(t, l.Do(t.Context(), locktest.Nothing))
	b.requireFree("k")
}

func TestSharedObjectExcludes(t *testing.T) {
	b, red := newBench(t), redOn(t, 3)
	for name, l := range map[string]locktest.AnyLock{
		"RedisLock": relock.NewRedisLock("k", b.client, relock.WithBlock()),
		"MultiLock": relock.NewMultiLock([]string{"a", "b"}, b.client, relock.WithBlock()),
		"RedLock":   red.Patient(relock.WithBlock(), relock.WithPollInterval(2*time.Millisecond)),
	} {
		t.Run(name, func(t *testing.T) {
			counter := 0
			var group sync.WaitGroup
			for range 8 {
				group.Go(func() {
					for range 20 {
						assert.NoError(t, l.Do(t.Context(), func(context.Context) error {
							seen := counter // unprotected: the race detector and the sum would show it
							runtime.Gosched()
							counter = seen + 1
							return nil
						}))
					}
				})
			}
			group.Wait()
			require.Equal(t, 160, counter)
		})
	}
	b.requireNothingLeft("k", "a", "b")
	red.RequireFree(time.Second)
}

func TestAcquireLeavesNothingInTheObject(t *testing.T) {
	b := newBench(t)
	l := relock.NewRedisLock("k", b.client)
	h := locktest.Take(t, l.Acquire)
	require.Equal(t, "k", h.Key())
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)
	b.requireHeld("k")
	require.NoError(t, h.Unlock(t.Context()))
	b.requireFree("k")
}

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
