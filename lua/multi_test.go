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

// All keys are taken or none, whatever they hold.
func TestMultiScript(t *testing.T) {
	s := redistest.Shared(t)
	const (
		fair     = "relock/1|f|h4|c4|host|4|label|4"
		kept     = "relock/1|k|h5|c5|host|5|label|5"
		reserved = "relock/1|w|c6:1:pu:1250"
		fairWait = "relock/1|w|c6:2:pf:1250"
		reenter  = "relock/1|w|c6:3:ru:1250"
	)
	for _, tt := range []struct {
		name    string
		before  []string
		own     int
		earlier string
		want    []int64
	}{
		{"all are free", []string{"", "", ""}, 0, "", []int64{1}},
		{"all are ours", []string{scripttest.Plain1, scripttest.Plain1, scripttest.Plain1}, 0, "", []int64{1}},
		{"some are ours", []string{"", scripttest.Plain1, ""}, 0, "", []int64{1}},
		{"the first is held", []string{scripttest.Plain3, "", ""}, 0, "", []int64{0, 1}},
		{"the last is held", []string{"", "", scripttest.Plain3}, 0, "", []int64{0, 3}},
		{"two are held", []string{"", scripttest.Plain3, scripttest.Plain3}, 0, "", []int64{0, 2}},
		{"held and ours", []string{scripttest.Plain1, scripttest.Plain3, ""}, 0, "", []int64{0, 2}},
		{"kept", []string{"", kept, ""}, 0, "", []int64{0, 2}},
		{"reserved", []string{reserved, "", ""}, 0, "", []int64{0, 1}},
		{"fair", []string{"", "", fair}, 0, "", []int64{-1, 3}},
		{"reserved for a fair one", []string{fairWait, "", ""}, 0, "", []int64{-1, 1}},
		{"reserved for a reentrant one", []string{"", reenter, ""}, 0, "", []int64{-1, 2}},
		{"something else", []string{"", "text", ""}, 0, "", []int64{-1, 2}},
		{"another type", []string{"", "hash", scripttest.Plain3}, 0, "", []int64{-1, 2}},
		{"ours, and another type", []string{scripttest.Plain1, "", "hash"}, 0, "", []int64{-1, 3}},
		{"the call has one by itself", []string{"", scripttest.Plain2, ""}, 2, scripttest.Plain2, []int64{1}},
		{"that one has ended", []string{"", "", ""}, 2, scripttest.Plain2, []int64{1}},
		{"that one is another's now", []string{"", scripttest.Plain3, ""}, 2, scripttest.Plain2, []int64{0, 2}},
		{"it is on another key", []string{"", scripttest.Plain2, ""}, 3, scripttest.Plain2, []int64{0, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := scripttest.NewMulti(t, s, 3)
			b.Put(tt.before...)
			require.Equal(t, tt.want, b.Acquire(scripttest.Plain1, scripttest.LongLease, tt.own, tt.earlier))
			if tt.want[0] != 1 {
				require.Equal(t, tt.before, b.Holds())
				return
			}
			require.Equal(t, []string{scripttest.Plain1, scripttest.Plain1, scripttest.Plain1}, b.Holds())
			for n := range b.Keys {
				scripttest.RequireExpiry(t, scripttest.LongLease, b.Left(n))
			}
			require.Equal(t, []int64{1}, b.Acquire(scripttest.Plain1, scripttest.LongLease, tt.own, tt.earlier), "sent twice")
		})
	}
}

// A copy that comes late shortens nothing and takes nothing away.
func TestMultiScriptLateCopies(t *testing.T) {
	b := scripttest.NewMulti(t, redistest.Shared(t), 2)
	require.Equal(t, []int64{1}, b.Acquire(scripttest.Plain1, scripttest.LongLease, 0, ""))
	require.Equal(t, []int64{1}, b.Acquire(scripttest.Plain1, scripttest.Lease, 0, ""))
	scripttest.RequireExpiry(t, scripttest.LongLease, b.Left(0))
	scripttest.RequireExpiry(t, scripttest.LongLease, b.Left(1))
	b.Put("", scripttest.Plain3)
	require.Equal(t, []int64{0, 2}, b.Acquire(scripttest.Plain1, scripttest.LongLease, 0, ""), "another one is there")
	require.Equal(t, []string{"", scripttest.Plain3}, b.Holds())
	scripttest.RequireExpiry(t, scripttest.Lease, b.Left(1))
}

// A bad argument is refused before anything is written.
func TestMultiScriptRefusesBadArguments(t *testing.T) {
	b := scripttest.NewMulti(t, redistest.Shared(t), 2)
	good := []any{scripttest.Plain1, 60_000, 1, scripttest.Plain2, 2, scripttest.Plain3, 1000}
	keys := append([]string{b.Keys[0], b.Keys[0] + script.QueueSuffix, b.Keys[0] + script.HeartbeatSuffix}, b.Keys...)
	for i, bad := range [][]any{
		{},
		good[:1],
		good[:2],
		good[:3],
		good[:4],
		good[:5],
		good[:6],
		{"", 60_000, 0, "", 2, "", 0},
		{scripttest.Plain1, "x", 0, "", 2, "", 0},
		{scripttest.Plain1, 9, 0, "", 2, "", 0},
		{scripttest.Plain1, "1.5", 0, "", 2, "", 0},
		{scripttest.Plain1, 60_000, -1, "", 2, "", 0},
		{scripttest.Plain1, 60_000, "x", "", 2, "", 0},
		{scripttest.Plain1, 60_000, 3, scripttest.Plain2, 2, "", 0},
		{scripttest.Plain1, 60_000, 1, "", 2, "", 0},
		{scripttest.Plain1, 60_000, 0, "", 0, "", 0},
		{scripttest.Plain1, 60_000, 0, "", "x", "", 0},
		{scripttest.Plain1, 60_000, 1, scripttest.Plain2, 3, "", 0},
		{scripttest.Plain1, 60_000, 1, scripttest.Plain2, 2, "", -1},
		{scripttest.Plain1, 60_000, 1, scripttest.Plain2, 2, "", "x"},
	} {
		_, err := b.Try(keys, bad...)
		var line redis.Error
		require.ErrorAs(t, err, &line, "%d", i)
		require.Equal(t, []string{"", ""}, b.Holds(), "%d", i)
	}
	_, err := b.Try(nil, good...)
	require.ErrorContains(t, err, "bad keys")
	many := scripttest.NewMulti(t, redistest.Shared(t), 101)
	_, err = many.Try(many.Keys[:3], good...)
	require.ErrorContains(t, err, "bad keys")
	_, err = many.Try(many.Keys, scripttest.Plain1, 60_000, 0, "", 101, "", 0)
	require.ErrorContains(t, err, "bad arguments")
	answer, err := redis.Int64s(many.Try(many.Keys[:100], scripttest.Plain1, 60_000, 0, "", 100, "", 0))
	require.NoError(t, err)
	require.Equal(t, []int64{1}, answer)
}

// Without a permission, and without memory, nothing is taken.
func TestMultiScriptWithoutPermissionOrMemory(t *testing.T) {
	s := redistest.Start(t)
	for _, denied := range []string{"-mget", "-exists", "-set"} {
		b := scripttest.NewMulti(t, s, 2)
		b.Do("ACL", "SETUSER", "less", "reset", "on", "nopass", "~*", "&*", "+@all", denied)
		_, err := b.Conn.Do("AUTH", "less", "any")
		require.NoError(t, err)
		_, err = b.Try(b.Keys, scripttest.Plain1, 60_000, 0, "", 2, "", 0)
		var line redis.Error
		require.ErrorAs(t, err, &line)
		require.True(t, driver.IsDenied(line), "%v", err)
		require.Equal(t, []string{"", ""}, b.Holds())
	}
	b := scripttest.NewMulti(t, s, 2)
	s.Do(t, "CONFIG", "SET", "maxmemory", 1)
	_, err := b.Try(b.Keys, scripttest.Plain1, 60_000, 0, "", 2, "", 0)
	require.ErrorContains(t, err, "OOM")
	s.Do(t, "CONFIG", "SET", "maxmemory", 0)
	require.Equal(t, []string{"", ""}, b.Holds())
}
