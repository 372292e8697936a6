package locktest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// KeyOf returns the Redis key of a lock of c.
func KeyOf(c *relock.Client, key string) string { return Prefix(c) + "{" + key + "}" }

// PTTL returns what is left of the lock's expiry: -2 if there is no key, -1 if
// it would stay forever.
func PTTL(t testing.TB, s *redistest.Server, c *relock.Client, key string) time.Duration {
	t.Helper()
	ms, err := redis.Int64(s.Do(t, "PTTL", KeyOf(c, key)), nil)
	require.NoError(t, err)
	if ms < 0 {
		return time.Duration(ms)
	}
	return time.Duration(ms) * time.Millisecond
}

// Inspect returns the state of a lock, and requires that it can be read.
func Inspect(t testing.TB, c *relock.Client, key string) relock.Info {
	t.Helper()
	info, err := c.Inspect(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, key, info.Key)
	return info
}

// Calls returns how often a command was called since CONFIG RESETSTAT.
func Calls(t testing.TB, s *redistest.Server, command string) int {
	t.Helper()
	text, err := redis.String(s.Do(t, "INFO", "commandstats"), nil)
	require.NoError(t, err)
	return redistest.CallsIn(t, text, command)
}

// IsSubscribed reports whether messages about a lock reach the client. The
// client subscribes if it has not done so yet.
func IsSubscribed(c *relock.Client, key string) bool { return Engine(c).Queue.Reached(KeyOf(c, key)) }

// IsIdle reports whether the client has neither holds nor calls, and no entry
// in a queue. No call of it may use the named locks.
func IsIdle(c *relock.Client, keys ...string) bool {
	q, s := Engine(c).Queue, c.Stats()
	uses := func(key string) bool { return q.Uses(KeyOf(c, key)) }
	return s.Held == 0 && s.Waiting == 0 && len(q.Cancels()) == 0 && !slices.ContainsFunc(keys, uses)
}

// RequireFree checks that the lock has no key.
func RequireFree(t testing.TB, s *redistest.Server, c *relock.Client, key string) {
	t.Helper()
	require.Equal(t, int64(0), s.Do(t, "EXISTS", KeyOf(c, key)), "key %q is still there", key)
}

// RequireHeld checks that the lock has a key with an expiry.
func RequireHeld(t testing.TB, s *redistest.Server, c *relock.Client, key string) {
	t.Helper()
	require.Greater(t, PTTL(t, s, c, key), time.Duration(0), "key %q is not held", key)
}

// RequireCount checks how many levels the server has of a reentrant lock.
func RequireCount(t testing.TB, s *redistest.Server, c *relock.Client, key string, want int) {
	t.Helper()
	fields, err := redis.StringMap(s.Do(t, "HGETALL", KeyOf(c, key)), nil)
	require.NoError(t, err)
	require.Equal(t, want, levelsIn(t, fields), "levels at the server")
}

// levelsIn returns the count of a reentrant lock: the one field whose value is
// a number.
func levelsIn(t testing.TB, hash map[string]string) (n int) {
	t.Helper()
	for field, value := range hash {
		if strings.Contains(field, ":") {
			var err error
			n, err = strconv.Atoi(value)
			require.NoError(t, err)
		}
	}
	return n
}

// RequireAtOnce runs a blocking Lock that must fail without waiting, and
// returns its error.
func RequireAtOnce(t testing.TB, lock func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	watch := testkit.NewStopwatch(t)
	err := lock(ctx)
	require.Error(t, err)
	require.NoError(t, ctx.Err(), "it waited")
	watch.Within(time.Second, "a poll later")
	require.False(t, relock.IsRetryableErr(err), err)
	return err
}

// RequireNoQueues checks that nothing is left of locks and queues, at the
// server and in the client.
func RequireNoQueues(t testing.TB, s *redistest.Server, c *relock.Client, keys ...string) {
	t.Helper()
	for _, key := range keys {
		testkit.Eventually(t, testkit.Patience,
			func() bool { return s.Do(t, "EXISTS", KeyOf(c, key), KeyOf(c, key)+":q") == int64(0) }, "nothing left of "+key)
	}
	testkit.Eventually(t, testkit.Patience, func() bool { return IsIdle(c, keys...) }, "nothing is remembered")
}

// RequireRWGone checks that nothing is left of a read/write lock, including the
// notes of its holders.
func RequireRWGone(t testing.TB, s *redistest.Server, c *relock.Client, key string) {
	t.Helper()
	k := KeyOf(c, key)
	testkit.Eventually(t, testkit.Patience,
		func() bool { return s.Do(t, "EXISTS", k, k+":q", k+":h") == int64(0) }, "nothing left")
}

// RequireIs checks that an error matches all of these.
func RequireIs(t testing.TB, err error, reasons ...error) {
	t.Helper()
	for _, reason := range reasons {
		require.ErrorIs(t, err, reason)
	}
}

// RequireInvalid checks that each call of a lock returns what is wrong with it.
func RequireInvalid(t testing.TB, l AnyLock, texts []string) {
	t.Helper()
	for _, err := range []error{
		l.Validate(), l.Lock(t.Context()), l.Unlock(t.Context()), l.Do(t.Context(), Nothing),
	} {
		require.ErrorIs(t, err, relock.ErrInvalid)
		for _, text := range texts {
			require.ErrorContains(t, err, text)
		}
	}
}
