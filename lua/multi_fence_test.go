package lua_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// requireFenceCounter checks the token in a counter, and that the counter stays
// for 30 days.
func requireFenceCounter(t testing.TB, conn redis.Conn, key string, want int64) {
	t.Helper()
	stored, err := redis.Int64(conn.Do("GET", key))
	require.NoError(t, err)
	require.Equal(t, want, stored)
	left, err := redis.Int64(conn.Do("PTTL", key))
	require.NoError(t, err)
	require.InDelta(t, (30 * 24 * time.Hour).Milliseconds(), left, 60_000)
}

// All keys get one token, which is above the last of each counter. A call that
// is refused draws none.
func TestMultiScriptDrawsOneToken(t *testing.T) {
	b := scripttest.NewMulti(t, redistest.Shared(t), 6)
	locks, counters := b.Keys[:3], b.Keys[3:]
	ahead := time.Now().Add(time.Hour).UnixMicro()
	b.Do("MSET", counters[1], ahead, counters[2], 7)
	acquire := func(value string) []int64 {
		answer, err := redis.Int64s(b.Try(b.Keys, value, 60_000, 0, "", 3, "", 0))
		require.NoError(t, err)
		return answer
	}
	draw := func() int64 {
		t.Helper()
		answer := acquire(scripttest.Plain1)
		require.Len(t, answer, 2)
		require.Equal(t, int64(1), answer[0])
		for _, counter := range counters {
			requireFenceCounter(t, b.Conn, counter, answer[1])
		}
		return answer[1]
	}
	require.Equal(t, ahead+1, draw())
	require.Equal(t, ahead+2, draw(), "sent twice")
	b.Do("DEL", counters[0], counters[1], counters[2])
	last := draw()
	require.InDelta(t, time.Now().UnixMicro(), last, float64(time.Minute.Microseconds()))

	b.Do("SET", locks[2], scripttest.Plain3, "PX", 20_000)
	require.Equal(t, int64(0), acquire(scripttest.Plain2)[0])
	requireFenceCounter(t, b.Conn, counters[0], last)
}

// A counter that holds something else makes no hold, and is left as it is.
func TestMultiScriptNoHoldWithoutItsToken(t *testing.T) {
	b := scripttest.NewMulti(t, redistest.Shared(t), 6)
	b.Do("LPUSH", b.Keys[4], "something else")
	_, err := b.Try(b.Keys, scripttest.Plain1, 60_000, 0, "", 3, "", 0)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.Equal(t, int64(1), b.Do("EXISTS", redis.Args{}.AddFlat(b.Keys)...))
	require.Equal(t, int64(1), b.Do("LLEN", b.Keys[4]))
}

// A counter is raised, never lowered.
func TestScriptRaisesACounter(t *testing.T) {
	b := scripttest.NewBench(t, redistest.Shared(t))
	raise := func(token ...any) error {
		_, err := b.Try(script.Call{Script: script.FenceRaise, Args: token})
		return err
	}
	const token = 1_763_760_000_000_000
	b.Do("DEL", b.Key)
	for _, tt := range []struct{ token, want int64 }{{token, token}, {token - 1, token}, {token, token}, {token + 1, token + 1}} {
		require.NoError(t, raise(tt.token))
		requireFenceCounter(t, b.Conn, b.Key, tt.want)
	}
	for _, bad := range []any{"", "x", "0", "-1", "1.5", "12345678901234567"} {
		require.Error(t, raise(bad), "%v", bad)
	}
	require.Error(t, raise(), "no token")
}

// The script of a node draws a token, also if an earlier copy of it has taken
// the lock.
func TestRedLockScriptDrawsTokens(t *testing.T) {
	b := scripttest.NewBench(t, redistest.Shared(t))
	b.Do("DEL", b.Key, b.Key+script.CounterSuffix)
	draw := func() int64 {
		t.Helper()
		s := script.Call{Script: script.RedLockAcquire.Fenced, Args: []any{scripttest.Plain1, 60_000, 0, "", 0}}
		values, err := redis.Values(b.Try(s))
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
