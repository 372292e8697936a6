package relock

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/lockspec"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/testkit"
)

// allBytes is a name with every byte in it; the first is not a closing brace.
func allBytes() string {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return string(b)
}

// names are names of locks, and whether they can be.
var names = []struct {
	name string
	ok   bool
}{
	{"", false},
	{"}", false},
	{"}}", false},
	{"}x", false},
	{"}x{y}", false},
	{strings.Repeat("x", 1025), false},
	{strings.Repeat("x", 1<<20), false},
	{strings.Repeat("é", 513), false},
	{strings.Repeat("x", 1024), true},
	{strings.Repeat("é", 512), true},
	{"x", true},
	{" ", true},
	{"a:b", true},
	{"a:queue", true},
	{"a}:queue", true},
	{"{", true},
	{"{}", true},
	{"{}x", true},
	{"{a}", true},
	{"{a}b", true},
	{"a{b}c", true},
	{"a}b", true},
	{"a}", true},
	{"a{", true},
	{"{{a}}", true},
	{"\x00", true},
	{"\r\n", true},
	{"name\r\nSET x y\r\n", true},
	{"\xff\xfe", true},
	{"日本", true},
	{"*", true},
	{"'\"]]--\\", true},
	{allBytes(), true},
}

// A name is refused before anything is sent, or works.
func TestNames(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newTestClient(t, s)
	refusing := unconnected(t)
	for i, tt := range names {
		t.Run(fmt.Sprintf("%d %.20q", i, tt.name), func(t *testing.T) {
			if !tt.ok {
				for _, calls := range []map[string]func(context.Context) error{
					firstCalls(NewRedisLock(tt.name, refusing)), firstCalls(NewReentrantLock(tt.name, refusing)),
				} {
					for call, f := range calls {
						if call == "Unlock" {
							continue
						}
						require.ErrorIs(t, f(t.Context()), ErrInvalid, call)
						require.ErrorContains(t, f(t.Context()), "key", call)
					}
				}
				requireMistakes(t, NewRedisLock(tt.name, refusing).Validate(), "validate", "key")
				requireMistakes(t, NewReentrantLock(tt.name, refusing).Validate(), "validate", "key")
				require.Less(t, len(NewRedisLock(tt.name, refusing).Validate().Error()), 16<<10, "it repeats a name of any length")
				return
			}
			for kind, l := range map[string]interface {
				Mutex
				Acquire(context.Context) (Hold, error)
			}{"string": NewRedisLock(tt.name, c), "hash": NewReentrantLock(tt.name, c)} {
				h, err := l.Acquire(t.Context())
				require.NoError(t, err)
				require.Equal(t, tt.name, h.Key())
				got, err := redis.String(s.Do(t, "TYPE", c.config.prefix+"{"+tt.name+"}"), nil)
				require.NoError(t, err)
				require.Equal(t, kind, got)
				require.ErrorIs(t, NewRedisLock(tt.name, sibling(t, s, c)).TryLock(t.Context()), map[string]error{
					"string": ErrLockAcquiredByOthers, "hash": ErrKeyConflict,
				}[kind])
				require.NoError(t, h.Extend(t.Context(), time.Minute))
				require.NoError(t, h.Unlock(t.Context()))
				requireFree(t, s, c, tt.name)
			}
		})
	}
	require.Equal(t, int64(0), s.Do(t, "DBSIZE"), "names are not keys of something else")
}

// crc16 is the CRC-16/XMODEM that a Redis Cluster uses.
func crc16(s string) uint16 {
	crc := uint16(0)
	for i := range len(s) {
		crc ^= uint16(s[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

// slotOf is the slot of a key in a Redis Cluster: of what stands between the first opening brace and the next closing one, if that is something.
func slotOf(key string) int {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(after, "}"); ok && tag != "" {
			key = tag
		}
	}
	return int(crc16(key) % 16384)
}

// redisKeyOf is the key of a lock in Redis, "" for a name that is refused.
func redisKeyOf(t testing.TB, c *Client, name string) string {
	t.Helper()
	l := NewRedisLock(name, c)
	if l.Validate() != nil {
		return ""
	}
	require.Equal(t, l.target.RedisKey(), NewReentrantLock(name, c).target.RedisKey())
	return l.target.RedisKey()
}

// FuzzKey: two names have two keys, no key is one that is derived of another name, and what is derived of a name is in its slot.
func FuzzKey(f *testing.F) {
	for i, a := range names {
		f.Add(a.name, names[(i+1)%len(names)].name)
	}
	f.Add("a", "a}:queue")
	f.Add("a}:queue", "a")
	f.Add("a}", "a")
	f.Add("{a", "a")
	c, err := NewClient("tcp", closedPort(f), "")
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, c.Close()) })
	f.Fuzz(func(t *testing.T, a, b string) {
		keyA, keyB := redisKeyOf(t, c, a), redisKeyOf(t, c, b)
		for name, key := range map[string]string{a: keyA, b: keyB} {
			refused := name == "" || len(name) > 1024 || name[0] == '}'
			require.Equal(t, refused, key == "", "%q", name)
		}
		if keyA == "" || keyB == "" {
			return
		}
		require.Equal(t, a == b, keyA == keyB, "%q and %q", a, b)
		for _, suffix := range []string{":", ":queue", ":fence", ":" + b, "x"} {
			require.NotEqual(t, keyA+suffix, keyB, "%q and %q", a, b)
			require.Equal(t, slotOf(keyA), slotOf(keyA+suffix), "%q%s", a, suffix)
		}
	})
}

// The slots that the fuzz target computes are those of a server.
func TestSlots(t *testing.T) {
	t.Parallel()
	s := redistest.StartTCP(t, "--cluster-enabled", "yes", "--cluster-port", redistest.FreePort(t))
	conn := s.Dial(t)
	defer conn.Close() //nolint:errcheck // nothing is pending
	c := unconnected(t)
	for _, tt := range names {
		keys := []string{tt.name}
		if key := redisKeyOf(t, c, tt.name); key != "" {
			keys = append(keys, key, key+":queue", key+":fence")
		}
		for i, key := range keys {
			slot, err := redis.Int(conn.Do("CLUSTER", "KEYSLOT", key))
			require.NoError(t, err)
			require.Equal(t, slot, slotOf(key), "%q", key)
			if i > 0 {
				require.Equal(t, slotOf(keys[1]), slot, "%q is not beside its lock", key)
			}
		}
	}
}

// Whatever a name has in it, an error and a log entry are one line.
func TestNamesStayOnOneLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for i, name := range []string{"a\r\nlevel=ERROR msg=forged", "\n", "\r", "a\u2028b\u0085c", "\x1b[31m", allBytes()} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			var log logBuffer
			var handler slog.Handler = slog.NewTextHandler(&log, nil)
			if i%2 == 0 {
				handler = slog.NewJSONHandler(&log, nil)
			}
			c := newTestClient(t, s, WithLogger(slog.New(handler)))
			other := sibling(t, s, c)
			h, err := NewRedisLock(name, c, WithExpiry(600*time.Millisecond)).Acquire(t.Context())
			require.NoError(t, err)
			require.ErrorIs(t, testkit.EndedWithin(t, h.Context(), 1400*time.Millisecond), ErrLockLost)
			testkit.Eventually(t, time.Second, func() bool { return strings.Contains(log.String(), "lock lost") }, "the loss is not logged")
			testkit.Eventually(t, time.Second, func() bool { return pttl(t, s, c, name) == -2 }, "the lost lock is still there")

			require.NoError(t, NewReentrantLock(name, c, WithExpiry(time.Minute)).Lock(t.Context()))
			texts := []string{
				h.Err().Error(), h.Unlock(t.Context()).Error(), fmt.Sprint(h), fmt.Sprintf("%#v", h),
				NewReentrantLock(name, other).TryLock(t.Context()).Error(),
				NewRedisLock(name, other).TryLock(t.Context()).Error(),
				NewRedisLock("}"+name, c).Validate().Error(),
				second(NewClient(name, name, "", WithKeyPrefix("{"+name))).Error(),
				second(NewClient("tcp", name, "")).Error(),
				second(NewClientURL("redis://h?" + url.QueryEscape(name))).Error(),
				second(NewClientURL("redis://h/" + url.PathEscape(name))).Error(),
				second(NewClientURL(name)).Error(),
			}
			for _, text := range texts {
				require.NotRegexp(t, "[\r\n\u2028\u0085\x1b\x00]", text)
			}
			require.Equal(t, strings.Count(log.String(), "relock: "), strings.Count(log.String(), "\n"), "one line an entry")
			require.NotContains(t, log.String(), "\r")
		})
	}
}

// parts splits what a lock stores.
func parts(t testing.TB, s *redistest.Server, c *Client, key string) []string {
	t.Helper()
	value, err := redis.String(s.Do(t, "GET", keyOf(c, key)), nil)
	require.NoError(t, err)
	require.LessOrEqual(t, len(value), 512)
	require.NotRegexp(t, `[^!-~]`, value, "it is printable")
	return strings.Split(value, "|")
}

func TestValue(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	for i, label := range []string{
		"", "report", "a|b|c", "|", "||||", "a b", "50% off", "+", "%7C", "a\r\nb", "\x00\xff", "日本", strings.Repeat("x", 256), strings.Repeat("|", 85),
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			key := fmt.Sprint("k", i)
			l := NewRedisLock(key, c, WithLabel(label))
			before := time.Now()
			require.NoError(t, l.Lock(t.Context()))
			got := parts(t, s, c, key)
			require.Len(t, got, 8, "bars only between the parts")
			require.Equal(t, []string{"relock/1", "p"}, got[:2])
			require.NoError(t, uuid.Validate(got[2]), "hold id")
			require.Equal(t, c.engine.Identity.ID, got[3])
			require.NoError(t, uuid.Validate(got[3]), "client id")
			unescaped, err := url.PathUnescape(got[6])
			require.NoError(t, err)
			require.Equal(t, label, unescaped)
			since, err := redis.Int64([]byte(got[7]), nil)
			require.NoError(t, err)
			require.WithinRange(t, time.UnixMilli(since), before.Add(-time.Second), time.Now().Add(time.Second))
			require.NoError(t, l.Unlock(t.Context()))

			require.NoError(t, l.Lock(t.Context()))
			again := parts(t, s, c, key)
			require.NotEqual(t, got[2], again[2], "each hold has an id of its own")
			require.Equal(t, got[3:7], again[3:7])
			require.NoError(t, l.Unlock(t.Context()))
		})
	}
}

// The value has at most 512 bytes, whatever the host, the process and the label.
func TestLongestValue(t *testing.T) {
	t.Parallel()
	made, err := lockspec.NewIdentity()
	require.NoError(t, err)
	fields := strings.Split(made.Process, "|")
	require.Len(t, fields, 5, `"|client|host|pid|"`)
	require.LessOrEqual(t, len(fields[2]), lockspec.MaxHost)
	longest := lockspec.Identity{ID: made.ID, Process: "|" + made.ID + "|" + strings.Repeat("h", lockspec.MaxHost) + "|4194304000|"}
	label := lockspec.Escape(strings.Repeat("|", 85)) + "x"
	require.Len(t, label, lockspec.MaxLabel)
	value := longest.Value(uuid.NewString(), &lockspec.Spec{Label: label})
	require.LessOrEqual(t, len(value), 512)
	require.LessOrEqual(t, len(longest.Info(label)), 512)

	kept := lockspec.KeptValue(value)
	require.NotEqual(t, value, kept)
	require.Len(t, kept, len(value))
	require.True(t, strings.HasPrefix(kept, "relock/1|k|"))
	require.Equal(t, value[len("relock/1|p"):], kept[len("relock/1|k"):])
}

func TestEscape(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "a", "a|b", "a+b c", "%", "\r\n", allBytes(), "日本", "\xff"} {
		escaped := lockspec.Escape(s)
		require.NotRegexp(t, `[^!-~]|\||\+`, escaped)
		back, err := url.PathUnescape(escaped)
		require.NoError(t, err)
		require.Equal(t, s, back)
		back, err = url.QueryUnescape(escaped)
		require.NoError(t, err)
		require.Equal(t, s, back)
	}
}

// Owners do not collide, with each other or with the fields of the hash.
func TestOwnersDoNotCollide(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	owners := []string{"hold", "seq", "info", ":", "1", "g:1", ":g:1", "n:1", "a|b", "\r\n", "\x00", c.engine.Identity.ID, allBytes()}
	fields := map[string]bool{"hold": true, "seq": true, "info": true}
	for i, owner := range owners {
		key := fmt.Sprint("owner", i)
		l := owned(owner, NewReentrantLock(key, c))
		require.NoError(t, l.Lock(t.Context()))
		require.NoError(t, l.Lock(t.Context()))
		requireCount(t, s, c, key, 2)
		hash, err := redis.StringMap(s.Do(t, "HGETALL", keyOf(c, key)), nil)
		require.NoError(t, err)
		require.Len(t, hash, 4)
		for field := range hash {
			if field != "hold" && field != "seq" && field != "info" {
				require.False(t, fields[field], "%q is twice", field)
				fields[field] = true
				require.True(t, strings.HasPrefix(field, c.engine.Identity.ID+":"))
			}
		}
		require.ErrorIs(t, NewReentrantLock(key, c).TryLock(t.Context()), ErrLockAcquiredByOthers, "the goroutine is another owner")
		for _, other := range owners {
			if other != owner {
				require.ErrorIs(t, owned(other, NewReentrantLock(key, c)).TryLock(t.Context()), ErrLockAcquiredByOthers)
			}
		}
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, l.Unlock(t.Context()))
	}
}

// Ids and secrets are in nothing that a program may print by mistake.
func TestPrinting(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := newTestClient(t, s)
	plain, err := NewRedisLock("p", c).Acquire(t.Context())
	require.NoError(t, err)
	reentrant, err := NewReentrantLock("r", c).Acquire(t.Context())
	require.NoError(t, err)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	for _, v := range []any{c, plain, reentrant, plain.Context(), NewRedisLock("p", c), NewReentrantLock("r", c)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			require.NotRegexp(t, uuidPattern, fmt.Sprintf(verb, v))
		}
		logger.Info("it", "v", v)
	}
	require.NotRegexp(t, uuidPattern, log.String())
	require.NoError(t, plain.Unlock(t.Context()))
	require.NoError(t, reentrant.Unlock(t.Context()))
}
