package lease_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/test/locktest"
	"github.com/relock-go/relock/internal/test/redistest"
	"github.com/relock-go/relock/internal/test/testkit"
)

// markSource marks all holds of a lock to end by force, see
// docs/internals/force-design.md.
const markSource = `
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'string' then
  return redis.call('SET', KEYS[1], (string.gsub(redis.call('GET', KEYS[1]), '^(relock/1|%l|)', '%1!')), 'KEEPTTL')
end
if kind == 'hash' then
  return redis.call('HSET', KEYS[1], 'hold', '!' .. redis.call('HGET', KEYS[1], 'hold'))
end
local entries = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #entries, 2 do
  local to, n = string.gsub(entries[i], '^([rw]:)', '%1!')
  if n == 0 then
    to, n = string.gsub(entries[i], '^#', '#!')
  end
  if n == 1 then
    redis.call('ZREM', KEYS[1], entries[i])
    redis.call('ZADD', KEYS[1], entries[i + 1], to)
  end
end`

func mark(t testing.TB, s *redistest.Server, key string) {
	t.Helper()
	s.Do(t, "EVAL", markSource, 1, key)
}

// requireForced checks that the error is that of a forced end, and that the
// keys are free long before their leases end.
func requireForced(t testing.TB, err error, s *redistest.Server, keys ...string) {
	t.Helper()
	require.ErrorIs(t, err, relock.ErrForced)
	require.ErrorIs(t, err, relock.ErrLockLost)
	for _, key := range keys {
		free := func() bool { return s.Do(t, "EXISTS", key) == int64(0) }
		testkit.Eventually(t, testkit.Patience, free, "free")
	}
}

// The Unlock of a marked hold releases it, and its error is ErrForced.
func TestUnlockOfAMarkedHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Patient(locktest.NewTestClient(t, s))
	testkit.Each(t, map[string]locktest.Acquirer{
		"plain":     relock.NewRedisLock("plain", c, relock.WithMinHold(time.Minute)),
		"reentrant": relock.NewReentrantLock("reentrant", c),
		"reader":    relock.NewRWLock("reader", c).RLocker().(locktest.AnyLock),
		"writer":    relock.NewRWLock("writer", c),
		"permit":    relock.NewSemaphore("permit", 2, c),
		"multi":     relock.NewMultiLock([]string{"multi", "another"}, c),
	}, func(t *testing.T, name string, l locktest.Acquirer) {
		h := locktest.Take(t, l.Acquire)
		mark(t, s, locktest.KeyOf(c, name))
		requireForced(t, h.Unlock(t.Context()), s, locktest.KeyOf(c, name))
	})
}

// A RedLock is lost with a quorum only.
func TestUnlockOfAMarkedRedLock(t *testing.T) {
	b := newRed(t, 3)
	for n := range 3 {
		h := locktest.Take(t, b.Patient().Acquire)
		awaitMembers(t, h, 3)
		for i := range n {
			mark(t, b.Servers[i], locktest.KeyOf(b.Clients[i], "k"))
		}
		if err := h.Unlock(t.Context()); n < 2 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, relock.ErrForced)
		}
		b.RequireFree(time.Second)
	}
}

// The release of an inner level finds the mark: the whole hold has ended.
func TestInnerUnlockOfAMarkedHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Patient(locktest.NewTestClient(t, s))
	outer := locktest.Take(t, locktest.Owned("me", relock.NewReentrantLock("k", c)).Acquire)
	inner := locktest.Take(t, locktest.Owned("me", relock.NewReentrantLock("k", c)).Acquire)
	mark(t, s, locktest.KeyOf(c, "k"))
	requireForced(t, inner.Unlock(t.Context()), s, locktest.KeyOf(c, "k"))
	require.ErrorIs(t, outer.Err(), relock.ErrForced)
	require.ErrorIs(t, outer.Unlock(t.Context()), relock.ErrForced)
}

// A marked hold is not detached, but released.
func TestDetachOfAMarkedHold(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.Patient(locktest.NewTestClient(t, s))
	testkit.Each(t, map[string]locktest.Acquirer{
		"plain":     relock.NewRedisLock("plain", c),
		"reentrant": relock.NewReentrantLock("reentrant", c),
	}, func(t *testing.T, name string, l locktest.Acquirer) {
		h := locktest.Take(t, l.Acquire)
		mark(t, s, locktest.KeyOf(c, name))
		_, err := c.Detach(t.Context(), h, time.Hour)
		requireForced(t, err, s, locktest.KeyOf(c, name))
	})
}

// A marked lock is not transferred to the next call of the client. That call
// gets it by the release.
func TestTransferOfAMarkedHold(t *testing.T) {
	q, h := takeToTransfer(t)
	w := q.WaitLocally(t.Context(), 0)
	mark(t, q.Server, q.Key)
	neverStale(h)
	require.ErrorIs(t, h.Unlock(t.Context()), relock.ErrForced)
	q.Unlock(w.Granted())
	q.RequireIdle()
}
