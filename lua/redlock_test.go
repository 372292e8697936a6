package lua_test

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// The lock of one node is taken when it is free, and when the server has been
// up for long enough.
func TestRedLockScript(t *testing.T) {
	s := redistest.Shared(t)
	for _, tt := range []struct {
		name, before string
		want         int64
	}{
		{"free", "", 1},
		{"ours", scripttest.Plain1, 1},
		{"held", scripttest.Plain3, 0},
		{"kept", "relock/1|k|h5|c5|host|5|label|5", 0},
		{"reserved", "relock/1|w|c6:1:pu:1250", 0},
		{"fair", "relock/1|f|h4|c4|host|4|label|4", -1},
		{"reserved for a fair one", "relock/1|w|c6:2:pf:1250", -1},
		{"something else", "text", -1},
		{"another type", "hash", -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := scripttest.NewBench(t, s)
			b.Do("DEL", b.Key)
			switch {
			case tt.before == "hash":
				b.Do("HSET", b.Key, "field", 1)
			case tt.before != "":
				b.Do("SET", b.Key, tt.before, "PX", scripttest.Lease.Milliseconds())
			}
			before := b.State()
			young := b.RedAcquire(scripttest.Plain1, scripttest.LongLease, 1<<40)
			require.Len(t, young, 2)
			require.Equal(t, int64(script.Young), young[0])
			require.Less(t, young[1], int64(1<<40))
			scripttest.RequireSame(t, before, b.State())
			require.Equal(t, []int64{tt.want}, b.RedAcquire(scripttest.Plain1, scripttest.LongLease, 0))
			if tt.want != 1 {
				scripttest.RequireSame(t, before, b.State())
				return
			}
			scripttest.RequireSame(t, scripttest.KeyState{Content: scripttest.Plain1, TTL: scripttest.LongLease}, b.State())
			require.Equal(t, []int64{1}, b.RedAcquire(scripttest.Plain1, scripttest.Lease, 0), "a late copy")
			scripttest.RequireSame(t, scripttest.KeyState{Content: scripttest.Plain1, TTL: scripttest.LongLease}, b.State())
		})
	}
}

func TestRedLockScriptRefusesBadArguments(t *testing.T) {
	b := scripttest.NewBench(t, redistest.Shared(t))
	for i, bad := range [][]any{
		{},
		{scripttest.Plain1},
		{scripttest.Plain1, 60_000},
		{"", 60_000, 0, "", 0},
		{scripttest.Plain1, "x", 0, "", 0},
		{scripttest.Plain1, 9, 0, "", 0},
		{scripttest.Plain1, 60_000, "x", "", 0},
		{scripttest.Plain1, 60_000, "1.5", "", 0},
		{scripttest.Plain1, 60_000, 0, "", "x"},
		{scripttest.Plain1, 60_000, 0, "text", 0},
		{scripttest.Plain1, 60_000, 0, ":1:q", 0},
		{scripttest.Plain1, 60_000, 0, "c1:x:q", 0},
	} {
		_, err := b.Try(script.Call{Script: script.RedLockAcquire, Args: bad})
		var line redis.Error
		require.ErrorAs(t, err, &line, "%d", i)
		require.Equal(t, scripttest.Absent, b.State().TTL, "%d", i)
	}
}

// Without a permission, and without memory, nothing is taken: a server that may
// not say since when it is up is not counted.
func TestRedLockScriptWithoutPermissionOrMemory(t *testing.T) {
	s := redistest.Start(t)
	for _, denied := range []string{"-get", "-set", "-info"} {
		b := scripttest.NewBench(t, s)
		b.Do("ACL", "SETUSER", "less", "reset", "on", "nopass", "~*", "&*", "+@all", denied)
		b.Do("AUTH", "less", "any")
		_, err := b.Try(script.Call{Script: script.RedLockAcquire, Args: []any{scripttest.Plain1, 60_000, 0, "", 0}})
		var line redis.Error
		require.ErrorAs(t, err, &line)
		require.True(t, driver.IsDenied(line), "%v", err)
		require.Equal(t, int64(0), s.Do(t, "EXISTS", b.Key))
	}
	b := scripttest.NewBench(t, s)
	s.Do(t, "CONFIG", "SET", "maxmemory", 1)
	for _, request := range []script.Call{
		{Script: script.RedLockAcquire, Args: []any{scripttest.Plain1, 60_000, 0, "", 0}},
		{Script: script.RedLockWait, Args: []any{scripttest.Plain1, 60_000, 0, "c1:1:q", 400}},
		{Script: script.RedLockWait.Fenced, Args: []any{scripttest.Plain1, 60_000, 0, "c1:1:q", 400}},
	} {
		_, err := b.Try(request)
		require.ErrorContains(t, err, "OOM")
		require.Equal(t, int64(0), s.Do(t, "EXISTS", b.Key))
	}
}
