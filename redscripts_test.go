package relock

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// redAcquire returns what the script of a RedLock answers, without the name of the server, which it checks.
func (b *scriptBench) redAcquire(value string, lease time.Duration, least int64) []int64 {
	b.Helper()
	values, err := redis.Values(b.try(script.Call{Script: script.RedLockAcquire, Args: []any{value, lease.Milliseconds(), least, "", 0}}))
	require.NoError(b, err)
	server, err := redis.String(values[1], nil)
	require.NoError(b, err)
	require.Regexp(b, "^[0-9a-f]{40}$", server)
	answer, err := redis.Int64s(append(values[:1:1], values[2:]...), nil)
	require.NoError(b, err)
	return answer
}

// The lock of one node is taken when it is free, and when the server has been up for long enough.
func TestRedLockScript(t *testing.T) {
	s := redistest.Shared(t)
	for _, tt := range []struct {
		name, before string
		want         int64
	}{
		{"free", "", 1},
		{"ours", plain1, 1},
		{"held", plain3, 0},
		{"kept", "relock/1|k|h5|c5|host|5|label|5", 0},
		{"reserved", "relock/1|w|c6:1:pu:1250", 0},
		{"fair", "relock/1|f|h4|c4|host|4|label|4", -1},
		{"reserved for a fair one", "relock/1|w|c6:2:pf:1250", -1},
		{"something else", "text", -1},
		{"another type", "hash", -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newScriptBench(t, s)
			b.do("DEL", b.key)
			switch {
			case tt.before == "hash":
				b.do("HSET", b.key, "field", 1)
			case tt.before != "":
				b.do("SET", b.key, tt.before, "PX", scriptLease.Milliseconds())
			}
			before := b.state()
			young := b.redAcquire(plain1, longLease, 1<<40)
			require.Len(t, young, 2)
			require.Equal(t, int64(script.Young), young[0])
			require.Less(t, young[1], int64(1<<40))
			requireSame(t, before, b.state())
			require.Equal(t, []int64{tt.want}, b.redAcquire(plain1, longLease, 0))
			if tt.want != 1 {
				requireSame(t, before, b.state())
				return
			}
			requireSame(t, keyState{plain1, longLease}, b.state())
			require.Equal(t, []int64{1}, b.redAcquire(plain1, scriptLease, 0), "a late copy")
			requireSame(t, keyState{plain1, longLease}, b.state())
		})
	}
}

func TestRedLockScriptRefusesBadArguments(t *testing.T) {
	b := newScriptBench(t, redistest.Shared(t))
	for i, bad := range [][]any{
		{},
		{plain1},
		{plain1, 60_000},
		{"", 60_000, 0, "", 0},
		{plain1, "x", 0, "", 0},
		{plain1, 9, 0, "", 0},
		{plain1, 60_000, "x", "", 0},
		{plain1, 60_000, "1.5", "", 0},
		{plain1, 60_000, 0, "", "x"},
		{plain1, 60_000, 0, "text", 0},
		{plain1, 60_000, 0, ":1:q", 0},
		{plain1, 60_000, 0, "c1:x:q", 0},
	} {
		_, err := b.try(script.Call{Script: script.RedLockAcquire, Args: bad})
		var line redis.Error
		require.ErrorAs(t, err, &line, "%d", i)
		require.Equal(t, absent, b.state().ttl, "%d", i)
	}
}

// Without a permission, and without memory, nothing is taken: a server that may not say since when it is up is not counted.
func TestRedLockScriptWithoutPermissionOrMemory(t *testing.T) {
	s := redistest.Start(t)
	for _, denied := range []string{"-get", "-set", "-info"} {
		b := newScriptBench(t, s)
		b.do("ACL", "SETUSER", "less", "reset", "on", "nopass", "~*", "&*", "+@all", denied)
		b.do("AUTH", "less", "any")
		_, err := b.try(script.Call{Script: script.RedLockAcquire, Args: []any{plain1, 60_000, 0, "", 0}})
		var line redis.Error
		require.ErrorAs(t, err, &line)
		require.True(t, driver.IsDenied(line), "%v", err)
		require.Equal(t, int64(0), s.Do(t, "EXISTS", b.key))
	}
	b := newScriptBench(t, s)
	s.Do(t, "CONFIG", "SET", "maxmemory", 1)
	for _, request := range []script.Call{
		{Script: script.RedLockAcquire, Args: []any{plain1, 60_000, 0, "", 0}},
		{Script: script.RedLockWait, Args: []any{plain1, 60_000, 0, "c1:1:q", 400}},
		{Script: script.RedLockWait.Fenced, Args: []any{plain1, 60_000, 0, "c1:1:q", 400}},
	} {
		_, err := b.try(request)
		require.ErrorContains(t, err, "OOM")
		require.Equal(t, int64(0), s.Do(t, "EXISTS", b.key))
	}
}
