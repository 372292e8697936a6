package relock_test

import (
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// allBytes is a name with every byte in it; the first is not a closing brace.
func allBytes() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

// refused and usable are names that a lock cannot have, and those it can.
var (
	refused = []string{
		"", "}", "}}", "}x", "}x{y}", strings.Repeat("x", 1025), strings.Repeat("x", 1<<20), strings.Repeat("é", 513),
	}
	usable = []string{
		strings.Repeat("x", 1024), strings.Repeat("é", 512), "x", " ", "a:b", "a:queue", "a}:queue",
		"{", "{}", "{}x", "{a}", "{a}b", "a{b}c", "a}b", "a}", "a{", "{{a}}",
		"\x00", "\r\n", "name\r\nSET x y\r\n", "\xff\xfe", "日本", "*", "'\"]]--\\", allBytes(),
	}
)

// A name is refused before anything is sent, or works.
func TestNames(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, unconnected := locktest.NewTestClient(t, s), locktest.Unconnected(t)
	other := locktest.Sibling(t, s, c)
	for i, name := range refused {
		t.Run(fmt.Sprintf("%d %.20q", i, name), func(t *testing.T) {
			for _, l := range []locktest.AnyLock{
				relock.NewRedisLock(name, unconnected), relock.NewReentrantLock(name, unconnected),
			} {
				for _, f := range acquiringCalls(l) {
					requireMistakes(t, f(t.Context()), "lock", "key")
				}
				requireMistakes(t, l.Validate(), "validate", "key")
				require.Less(t, len(l.Validate().Error()), 16<<10, "it repeats a name of any length")
			}
		})
	}
	for i, name := range usable {
		t.Run(fmt.Sprintf("%d %.20q", i, name), func(t *testing.T) {
			for kind, l := range map[string]locktest.AnyLock{
				"string": relock.NewRedisLock(name, c), "hash": relock.NewReentrantLock(name, c),
			} {
				h := locktest.Take(t, l.Acquire)
				require.Equal(t, name, h.Key())
				require.Equal(t, kind, s.Do(t, "TYPE", locktest.Prefix(c)+"{"+name+"}"))
				require.ErrorIs(t, relock.NewRedisLock(name, other).TryLock(t.Context()), map[string]error{
					"string": relock.ErrLockAcquiredByOthers, "hash": relock.ErrKeyConflict,
				}[kind])
				require.NoError(t, h.Extend(t.Context(), time.Minute))
				require.NoError(t, h.Unlock(t.Context()))
				locktest.RequireFree(t, s, c, name)
			}
		})
	}
	require.Equal(t, int64(0), s.Do(t, "DBSIZE"), "names are not keys of something else")
}

// tagOf is what a Redis Cluster computes the slot of a key from: the text
// between the first opening brace and the next closing one, if there is any.
func tagOf(key string) string {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// redisKeyOf is the key of a lock in Redis. It is empty for a name that is
// refused.
func redisKeyOf(t testing.TB, c *relock.Client, name string) string {
	t.Helper()
	l := relock.NewRedisLock(name, c)
	if l.Validate() != nil {
		return ""
	}
	require.Equal(t, relock.TargetOf(l).RedisKey(), relock.TargetOf(relock.NewReentrantLock(name, c)).RedisKey())
	return relock.TargetOf(l).RedisKey()
}

// Two names have two keys. No key is derived from another name, and what is
// derived from a name is in its slot.
func FuzzKey(f *testing.F) {
	names := slices.Concat(refused, usable)
	for i, a := range names {
		f.Add(a, names[(i+1)%len(names)])
	}
	f.Add("a", "a}:queue")
	f.Add("a}:queue", "a")
	f.Add("a}", "a")
	f.Add("{a", "a")
	c := locktest.Unconnected(f)
	f.Fuzz(func(t *testing.T, a, b string) {
		keyA, keyB := redisKeyOf(t, c, a), redisKeyOf(t, c, b)
		for name, key := range map[string]string{a: keyA, b: keyB} {
			bad := name == "" || len(name) > 1024 || name[0] == '}'
			require.Equal(t, bad, key == "", "%q", name)
		}
		if keyA == "" || keyB == "" {
			return
		}
		require.Equal(t, a == b, keyA == keyB, "%q and %q", a, b)
		for _, suffix := range []string{":", ":queue", ":fence", ":" + b, "x"} {
			require.NotEqual(t, keyA+suffix, keyB, "%q and %q", a, b)
			require.Equal(t, tagOf(keyA), tagOf(keyA+suffix), "%q%s", a, suffix)
		}
	})
}

// A server computes slots from what the fuzz target takes for it.
func TestSlots(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t, "--cluster-enabled", "yes", "--cluster-port", redistest.FreePort(t))
	conn := s.Dial(t)
	defer conn.Close() //nolint:errcheck // nothing is pending
	slotOf := func(key string) int {
		slot, err := redis.Int(conn.Do("CLUSTER", "KEYSLOT", key))
		require.NoError(t, err)
		return slot
	}
	c := locktest.Unconnected(t)
	for _, name := range slices.Concat(refused, usable) {
		require.Equal(t, slotOf(tagOf(name)), slotOf(name), "%q", name)
		if key := redisKeyOf(t, c, name); key != "" {
			for _, beside := range []string{key + ":queue", key + ":fence", tagOf(key)} {
				require.Equal(t, slotOf(key), slotOf(beside), "%q is not beside %q", beside, key)
			}
		}
	}
}

// Whatever is in a name, an error and a log entry are one line.
func TestNamesStayOnOneLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for i, name := range []string{"a\r\nlevel=ERROR msg=forged", "\n", "\r", "a\u2028b\u0085c", "\x1b[31m", allBytes()} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			var log locktest.LogBuffer
			var handler slog.Handler = slog.NewTextHandler(&log, nil)
			if i%2 == 0 {
				handler = slog.NewJSONHandler(&log, nil)
			}
			c := locktest.NewTestClient(t, s, relock.WithLogger(slog.New(handler)))
			other := locktest.Sibling(t, s, c)
			h := takeInTime(t, relock.NewRedisLock(name, c, relock.WithExpiry(400*time.Millisecond)).Acquire)
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), testkit.Patience), relock.ErrLockLost)
			testkit.Eventually(t, testkit.Patience, func() bool { return strings.Contains(log.String(), "lock lost") },
				"the loss is not logged")
			testkit.Eventually(t, testkit.Patience, func() bool { return locktest.PTTL(t, s, c, name) == -2 },
				"the lost lock is still there")

			require.NoError(t, relock.NewReentrantLock(name, c, relock.WithExpiry(time.Minute)).Lock(t.Context()))
			texts := []string{
				h.Err().Error(), h.Unlock(t.Context()).Error(), fmt.Sprint(h), fmt.Sprintf("%#v", h),
				relock.NewReentrantLock(name, other).TryLock(t.Context()).Error(),
				relock.NewRedisLock(name, other).TryLock(t.Context()).Error(),
				relock.NewRedisLock("}"+name, c).Validate().Error(),
				second(relock.NewClient(name, name, "", relock.WithKeyPrefix("{"+name))).Error(),
				second(relock.NewClient("tcp", name, "")).Error(),
				second(relock.NewClientURL("redis://h?" + url.QueryEscape(name))).Error(),
				second(relock.NewClientURL("redis://h/" + url.PathEscape(name))).Error(),
				second(relock.NewClientURL(name)).Error(),
			}
			for _, text := range texts {
				require.NotRegexp(t, "[\r\n\u2028\u0085\x1b\x00]", text)
			}
			require.Equal(t, strings.Count(log.String(), "relock: "), strings.Count(log.String(), "\n"), "one line an entry")
			require.NotContains(t, log.String(), "\r")
		})
	}
}
