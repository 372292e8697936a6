package relock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
)

// A key that something else uses is told apart from a lock that is held, and left as it is.
func TestKeyConflict(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.NewTestClient(t, s)
	plainHeld, reentrantHeld := relock.NewRedisLock("plain lock", c), relock.NewReentrantLock("reentrant lock", c)
	require.NoError(t, plainHeld.Lock(t.Context()))
	require.NoError(t, reentrantHeld.Lock(t.Context()))
	other := locktest.Sibling(t, s, c, relock.WithBlock())
	for name, create := range map[string][]any{
		"string":         {"SET", "hello"},
		"empty string":   {"SET", ""},
		"number":         {"SET", 7},
		"hash":           {"HSET", "field", "value"},
		"hash of counts": {"HSET", "client:1", "1"},
		"list":           {"RPUSH", "x"},
		"set":            {"SADD", "x"},
		"sorted set":     {"ZADD", 1, "x"},
		"stream":         {"XADD", "*", "f", "v"},
		"plain lock":     nil,
		"reentrant lock": nil,
	} {
		t.Run(name, func(t *testing.T) {
			if create != nil {
				s.Do(t, create[0].(string), append([]any{locktest.KeyOf(c, name)}, create[1:]...)...)
			}
			before := s.Content(t, locktest.KeyOf(c, name))
			plain, reentrant := relock.NewRedisLock(name, other), relock.NewReentrantLock(name, other)
			for kind, calls := range map[string]map[string]func(context.Context) error{"plain": firstCalls(plain), "reentrant": firstCalls(reentrant)} {
				if kind+" lock" == name {
					continue // its own kind: held
				}
				for call, f := range calls {
					if call != "Unlock" {
						require.ErrorIs(t, locktest.RequireAtOnce(t, f), relock.ErrKeyConflict, "%s %s", kind, call)
					}
				}
			}
			require.Equal(t, before, s.Content(t, locktest.KeyOf(c, name)))
			if create != nil {
				require.Equal(t, time.Duration(-1), locktest.Pttl(t, s, c, name), "it got an expiry")
			}
		})
	}
	require.NoError(t, plainHeld.Unlock(t.Context()))
	require.NoError(t, reentrantHeld.Unlock(t.Context()))
}

// A key that was replaced under a hold is lost, and left as it is.
func TestKeyReplacedUnderAHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	for name, l := range map[string]relock.Mutex{"plain": relock.NewRedisLock("plain", c), "reentrant": relock.NewReentrantLock("reentrant", c)} {
		for _, value := range [][]any{{"SET", "mine"}, {"RPUSH", "mine"}, {"HSET", "f", "v"}} {
			require.NoError(t, l.Lock(t.Context()))
			s.Do(t, "DEL", locktest.KeyOf(c, name))
			s.Do(t, value[0].(string), append([]any{locktest.KeyOf(c, name)}, value[1:]...)...)
			require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLockLost, "%s, %v", name, value)
			require.Equal(t, time.Duration(-1), locktest.Pttl(t, s, c, name))
			s.Do(t, "DEL", locktest.KeyOf(c, name))
		}
	}
}
