package relock_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
)

var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

const secret = "hunter2"

// secretive returns a client whose user has the secret as password.
func secretive(t *testing.T, s *redistest.Server, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	s.Do(t, "ACL", "SETUSER", "app", "on", ">"+secret, "~*", "&*", "+@all")
	return locktest.CloseLater(t)(relock.NewClient(s.Network, s.Address, secret,
		append(opts, relock.WithUsername("app"))...))
}

// Errors and logs show no hold id, client id, password, value or argument, also
// if a server repeats what it was sent.
func TestErrorsHideSecrets(t *testing.T) {
	t.Parallel()
	for _, gone := range []string{"AUTH", "EVALSHA", "EVAL", "SET", "PING", "TYPE", "DEL"} {
		t.Run(gone, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, "--rename-command", gone, "")
			var log locktest.LogBuffer
			c := secretive(t, s, relock.WithCommandTimeout(locktest.AnswerLimit), log.Option())
			var texts []string
			note := func(values ...any) {
				for _, v := range values {
					for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
						texts = append(texts, fmt.Sprintf(verb, v))
					}
				}
			}
			use := func(l locktest.AnyLock) {
				h, err := l.Acquire(t.Context())
				note(err)
				if err == nil {
					note(h, h.Extend(t.Context(), 40*time.Second), h.Unlock(t.Context()), h.Err(), context.Cause(h.Context()))
				}
				note(l.Lock(t.Context()), l.Lock(t.Context()), l.Unlock(t.Context()), l.Do(t.Context(), locktest.Nothing),
					l.Unlock(t.Context()))
			}
			note(c, c.Ping(t.Context()))
			done, err := c.SetNEX(t.Context(), "raw", secret, time.Minute)
			note(done, err)
			reply, err := c.Eval(t.Context(), relock.NewScript("return redis.call('TYPE', KEYS[1])"), []string{"raw"}, secret)
			note(reply, err)
			use(relock.NewRedisLock("p", c))
			use(locktest.Owned("me", relock.NewReentrantLock("r", c)))
			h, err := relock.NewRedisLock("lost", c, relock.WithWatchdog(30*time.Millisecond)).Acquire(t.Context())
			note(err)
			if err == nil {
				s.Do(t, "UNLINK", "relock:{lost}")
				select {
				case <-h.Context().Done():
				case <-time.After(100 * time.Millisecond): // it cannot be renewed
				}
				note(h.Err(), h.Unlock(t.Context()))
			}
			require.NoError(t, c.Close())
			for _, text := range append(texts, strings.Split(log.String(), "\n")...) {
				require.NotContains(t, text, secret)
				require.NotContains(t, text, "with args")
				require.NotRegexp(t, uuidPattern, text)
			}
			require.Contains(t, strings.Join(texts, "\n"), "nknown", "nothing was refused")
		})
	}
}

// Nothing that a program may print by mistake shows a password or an id. A copy
// of a client has no String.
func TestPrintedValuesHideSecrets(t *testing.T) {
	t.Parallel()
	c := secretive(t, redistest.Start(t), relock.WithLabel("x"))
	copied := func(v any) any { return reflect.ValueOf(v).Elem().Interface() } // which vet lets pass
	nested := reflect.New(reflect.StructOf([]reflect.StructField{{Name: "C", Type: reflect.TypeFor[relock.Client]()}})).
		Elem()
	nested.Field(0).Set(reflect.ValueOf(c).Elem())
	locker := locktest.NewLocker(t, c)
	plain, reentrant := relock.NewRedisLock("p", c), relock.NewReentrantLock("r", c)
	held := locktest.Take(t, plain.Acquire)
	levels := locktest.Take(t, reentrant.Acquire)
	var log locktest.LogBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	whole := []any{c, plain, reentrant, held, held.Context(), levels, relock.NewLeader(locker, "l")}
	for i, v := range append(whole, copied(c), nested.Interface(), []any{copied(c)},
		relock.WithUsername("app"), relock.WithLabel("x"),
		copied(plain), copied(reentrant), copied(relock.NewRWLock("k", c)), copied(relock.NewSemaphore("k", 1, c)),
		copied(relock.NewMultiLock([]string{"k"}, c)),
		copied(relock.NewRedLock("k", []*relock.Client{c})), copied(locker)) {
		for n, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%t", "%e"} {
			text := fmt.Sprintf(verb, v)
			require.NotContains(t, text, secret, "%T %s", v, verb)
			require.NotContains(t, text, hex.EncodeToString([]byte(secret)), "%T %s", v, verb)
			if i < len(whole) && n < 5 { // a copy may show ids, and so may a verb of a number
				require.NotRegexp(t, uuidPattern, text, "%T %s", v, verb)
			}
		}
	}
	for _, v := range whole {
		logger.Info("it", "v", v)
	}
	require.NotContains(t, log.String(), secret)
	require.NotRegexp(t, uuidPattern, log.String())
}

// stored returns the parts of the value that a lock stores.
func stored(t testing.TB, s *redistest.Server, c *relock.Client, key string) []string {
	t.Helper()
	value, err := redis.String(s.Do(t, "GET", locktest.KeyOf(c, key)), nil)
	require.NoError(t, err)
	require.LessOrEqual(t, len(value), 512)
	require.NotRegexp(t, `[^!-~]`, value, "it is printable")
	return strings.Split(value, "|")
}

func TestValue(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	for i, label := range []string{
		"", "report", "a|b|c", "|", "||||", "a b", "50% off", "+", "%7C", "a\r\nb", "\x00\xff",
		"日本", strings.Repeat("x", 256), strings.Repeat("|", 85),
	} {
		key := fmt.Sprint("k", i)
		l := relock.NewRedisLock(key, c, relock.WithLabel(label))
		before := time.Now()
		require.NoError(t, l.Lock(t.Context()))
		got := stored(t, s, c, key)
		require.Len(t, got, 8, "bars only between the parts")
		require.Equal(t, []string{"relock/1", "p"}, got[:2])
		require.NoError(t, uuid.Validate(got[2]), "hold id")
		require.Equal(t, locktest.Engine(c).Identity.ID, got[3])
		require.NoError(t, uuid.Validate(got[3]), "client id")
		unescaped, err := url.PathUnescape(got[6])
		require.NoError(t, err)
		require.Equal(t, label, unescaped)
		since, err := redis.Int64([]byte(got[7]), nil)
		require.NoError(t, err)
		require.WithinRange(t, time.UnixMilli(since), before.Add(-time.Second), time.Now().Add(time.Second))
		require.NoError(t, l.Unlock(t.Context()))

		require.NoError(t, l.Lock(t.Context()))
		again := stored(t, s, c, key)
		require.NotEqual(t, got[2], again[2], "each hold has its own id")
		require.Equal(t, got[3:7], again[3:7])
	}
}

// Owners do not collide, with each other or with the fields of the hash.
func TestOwnersDoNotCollide(t *testing.T) {
	t.Parallel()
	s, c := locktest.OnShared(t)
	id := locktest.Engine(c).Identity.ID
	owners := []string{"hold", "seq", "info", ":", "1", "g:1", ":g:1", "n:1", "a|b", "\r\n", "\x00", id, allBytes()}
	fields := map[string]bool{}
	for i, owner := range owners {
		key := fmt.Sprint("owner", i)
		l := locktest.Owned(owner, relock.NewReentrantLock(key, c))
		require.NoError(t, errors.Join(l.Lock(t.Context()), l.Lock(t.Context())))
		locktest.RequireCount(t, s, c, key, 2)
		hash, err := redis.StringMap(s.Do(t, "HGETALL", locktest.KeyOf(c, key)), nil)
		require.NoError(t, err)
		require.Len(t, hash, 4)
		for field := range hash {
			if field != "hold" && field != "seq" && field != "info" {
				require.False(t, fields[field], "%q is twice", field)
				fields[field] = true
				require.True(t, strings.HasPrefix(field, id+":"))
			}
		}
		require.ErrorIs(t, relock.NewReentrantLock(key, c).TryLock(t.Context()), relock.ErrLockAcquiredByOthers,
			"the goroutine is another owner")
		for _, other := range owners {
			if other != owner {
				require.ErrorIs(t, locktest.Owned(other, relock.NewReentrantLock(key, c)).TryLock(t.Context()),
					relock.ErrLockAcquiredByOthers)
			}
		}
		require.NoError(t, errors.Join(l.Unlock(t.Context()), l.Unlock(t.Context())))
	}
}
