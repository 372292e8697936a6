package acquire_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// All keys get one token, which is above what was drawn for any of them; who gets none draws none.
func TestMultiScriptDrawsOneToken(t *testing.T) {
	b := scripttest.NewMulti(t, redistest.Shared(t), 6)
	locks, counters := b.Keys[:3], b.Keys[3:]
	b.Do("DEL", redis.Args{}.AddFlat(b.Keys)...)
	ahead := time.Now().Add(time.Hour).UnixMicro()
	b.Do("SET", counters[1], ahead)
	b.Do("SET", counters[2], 7)
	draw := func() int64 {
		t.Helper()
		answer, err := redis.Int64s(b.Try(b.Keys, scripttest.Plain1, 60_000, 0, "", 3, "", 0))
		require.NoError(t, err)
		require.Len(t, answer, 2)
		require.Equal(t, int64(1), answer[0])
		for _, counter := range counters {
			stored, err := redis.Int64(b.Do("GET", counter), nil)
			require.NoError(t, err)
			require.Equal(t, answer[1], stored)
			left, err := redis.Int64(b.Do("PTTL", counter), nil)
			require.NoError(t, err)
			require.InDelta(t, (30 * 24 * time.Hour).Milliseconds(), left, 60_000)
		}
		return answer[1]
	}
	require.Equal(t, ahead+1, draw())
	require.Equal(t, ahead+2, draw(), "sent twice")
	b.Do("DEL", counters[0], counters[1], counters[2])
	require.InDelta(t, time.Now().UnixMicro(), draw(), float64(time.Minute.Microseconds()))

	b.Do("SET", locks[2], scripttest.Plain3, "PX", 20_000)
	before := b.Do("GET", counters[0])
	answer, err := redis.Int64s(b.Try(b.Keys, scripttest.Plain2, 60_000, 0, "", 3, "", 0))
	require.NoError(t, err)
	require.Equal(t, int64(0), answer[0])
	require.Equal(t, before, b.Do("GET", counters[0]))
}

// A counter that is something else makes no hold, and is left as it is.
func TestMultiScriptNoHoldWithoutItsToken(t *testing.T) {
	b := scripttest.NewMulti(t, redistest.Shared(t), 6)
	b.Do("LPUSH", b.Keys[4], "something else")
	_, err := b.Try(b.Keys, scripttest.Plain1, 60_000, 0, "", 3, "", 0)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.Equal(t, int64(1), b.Do("EXISTS", redis.Args{}.AddFlat(b.Keys)...))
	require.Equal(t, int64(1), b.Do("LLEN", b.Keys[4]))
}

// Inspect tells the token of a hold of several keys as that of any other.
func TestInspectTellsTheTokenOfAMultiLock(t *testing.T) {
	t.Parallel()
	c := locktest.NewTestClient(t, redistest.Shared(t))
	h, err := relock.NewMultiLock([]string{"a", "b"}, c, relock.WithFencing()).Acquire(t.Context())
	require.NoError(t, err)
	require.Equal(t, h.Fence(), locktest.Inspect(t, c, "a").Fence)
	require.Equal(t, h.Fence(), locktest.Inspect(t, c, "b").Fence)
	require.NoError(t, h.Unlock(t.Context()))
}

// A counter is raised, never lowered.
func TestScriptRaisesACounter(t *testing.T) {
	b := scripttest.NewBench(t, redistest.Shared(t))
	raise := func(token any) error {
		_, err := b.Try(script.Call{Script: script.FenceRaise, Args: []any{token}})
		return err
	}
	const token = 1_763_760_000_000_000
	b.Do("DEL", b.Key)
	for _, tt := range []struct{ token, want int64 }{{token, token}, {token - 1, token}, {token, token}, {token + 1, token + 1}} {
		require.NoError(t, raise(tt.token))
		stored, err := redis.Int64(b.Do("GET", b.Key), nil)
		require.NoError(t, err)
		require.Equal(t, tt.want, stored)
	}
	require.InDelta(t, 30*24*time.Hour, b.State().TTL, float64(time.Minute))
	for _, bad := range []any{"", "x", "0", "-1", "1.5", "12345678901234567"} {
		require.Error(t, raise(bad), "%v", bad)
	}
	_, err := b.Try(script.Call{Script: script.FenceRaise})
	require.Error(t, err)
}

// The script of a node draws a token, also when an earlier copy of it has taken the lock.
func TestRedLockScriptDrawsTokens(t *testing.T) {
	b := scripttest.NewBench(t, redistest.Shared(t))
	counter := b.Key + script.CounterSuffix
	b.Do("DEL", b.Key, counter)
	draw := func() int64 {
		t.Helper()
		s := script.Call{Script: script.RedLockAcquire.Fenced, Key: b.Key, Args: []any{scripttest.Plain1, 60_000, 0, "", 0}}
		r := s.BySource()
		values, err := redis.Values(b.Conn.Do(r.Cmd, r.Args...))
		require.NoError(t, err)
		require.Len(t, values, 3)
		token, err := redis.Int64(values[2], nil)
		require.NoError(t, err)
		return token
	}
	first := draw()
	require.InDelta(t, time.Now().UnixMicro(), first, float64(time.Minute.Microseconds()))
	require.Greater(t, draw(), first)
}

// Tokens rise over all holds that have a key in common, of one key or of many, at once or one by one.
func TestMultiLockFencing(t *testing.T) {
	t.Parallel()
	s := redistest.Shared(t)
	c := locktest.NewTestClient(t, s)
	apart := locktest.Sibling(t, s, c)
	locktest.Engine(apart).OneByOne.Store(true)
	s.Do(t, "SET", locktest.KeyOf(c, "b")+script.CounterSuffix, time.Now().Add(time.Hour).UnixMicro()) // drawn by a clock that was ahead
	var last int64
	for n, lock := range []locktest.AnyLock{
		relock.NewRedisLock("a", c, relock.WithFencing()),
		relock.NewMultiLock([]string{"a", "b"}, c, relock.WithFencing()),
		relock.NewRedisLock("a", c, relock.WithFencing()),
		relock.NewMultiLock([]string{"c", "a"}, apart, relock.WithFencing()),
		relock.NewMultiLock([]string{"b", "c"}, apart, relock.WithFencing()),
		relock.NewRedisLock("c", apart, relock.WithFencing()),
		relock.NewMultiLock([]string{"a", "b", "c"}, c, relock.WithFencing()),
		relock.NewRedisLock("b", c, relock.WithFencing()),
	} {
		h, err := lock.TryAcquire(t.Context())
		require.NoError(t, err)
		require.Greater(t, h.Fence(), last, "%d", n)
		last = h.Fence()
		require.NoError(t, h.Unlock(t.Context()))
		require.Equal(t, last, h.Fence())
	}
	h, err := relock.NewMultiLock([]string{"a", "b"}, c).TryAcquire(t.Context())
	require.NoError(t, err)
	require.Zero(t, h.Fence())
	require.NoError(t, h.Unlock(t.Context()))
}

// Tokens rise from quorum to quorum, also when one node's clock is ahead and not in the next one.
func TestRedLockFencing(t *testing.T) {
	t.Parallel()
	servers := locktest.NewRedServers(t, 5)
	b := locktest.NewRedBench(t, servers)
	l := b.Patient(relock.WithFencing())
	b.Meet(l)
	servers[0].Do(t, "SET", b.Prefix+"{k}"+script.CounterSuffix, time.Now().Add(time.Hour).UnixMicro())
	var last int64
	for n, away := range [][2]int{{3, 4}, {0, 1}, {1, 2}, {0, 4}, {0, 2}} {
		for _, i := range away {
			b.Proxies[i].Refuse()
		}
		h, err := l.TryAcquire(t.Context())
		require.NoError(t, err)
		require.Greater(t, h.Fence(), last, "%d", n)
		last = h.Fence()
		require.NoError(t, h.Unlock(t.Context()))
		for _, i := range away {
			b.Proxies[i].Accept()
		}
		b.RequireFree(2 * locktest.RedLease)
	}
	require.Greater(t, last, time.Now().Add(30*time.Minute).UnixMicro(), "the test does not show what it is for")
	for _, p := range b.Proxies[:3] {
		p.Refuse()
	}
	require.ErrorIs(t, l.TryLock(t.Context()), relock.ErrQuorum)
}
