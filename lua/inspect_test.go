package lua_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// The scripts of inspection by themselves: what they may not read is an error,
// and what a hold does not name is nobody's.
func TestInspectionScripts(t *testing.T) {
	s := redistest.Start(t)
	inspection, force := script.Call{Script: script.Inspect}, script.Call{Script: script.Force, Args: []any{"why"}}
	t.Run("denied", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		b.Deny(s, "-get")
		for _, script := range []script.Call{inspection, force} {
			_, err := b.Send(script)
			require.Error(t, err)
		}
	})
	t.Run("free, and something else", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		require.Equal(t, "free", b.Ask(inspection)[0])
		require.Equal(t, "0", b.Code(force))
		b.Do("LPUSH", b.Key, "a")
		b.Do("PEXPIRE", b.Key, 60_000)
		require.Equal(t, "alien", b.Ask(inspection)[0])
		require.Equal(t, "-1", b.Code(force))
	})
	for _, letters := range allLetters {
		t.Run("held "+letters, func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			holder := scripttest.WaitNamed("c9", 1, letters)
			require.Equal(t, "1", b.Code(holder.Try()))
			require.Equal(t, "held", b.Ask(inspection)[0])
			require.Equal(t, "1", b.Code(force))
			require.Empty(t, b.Lock())
			require.Equal(t, []byte(holder.Hold()+" why"), b.Do("GET", b.Key+script.NoticeSuffix))
		})
		t.Run("handed over "+letters, func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			holder, w := scripttest.WaitNamed("c9", 1, letters), scripttest.WaitNamed("c1", 1, letters)
			require.Equal(t, "1", b.Code(holder.Try()))
			b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}})
			b.Line(time.Minute, w)
			require.Equal(t, "1", b.Code(force))
			require.Equal(t, w.Reserved(), b.Lock())
			require.Equal(t, "reserved", b.Ask(inspection)[0])
			require.Equal(t, "1", b.Code(force))
			require.Empty(t, b.Lock())
		})
	}
	t.Run("more are gone than one script looks at", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		require.Equal(t, "1", b.Code(scripttest.WaitNamed("c9", 1, "pf").Try()))
		b.Line(time.Minute, scripttest.StaleWaits(130)...)
		require.Equal(t, "4", b.Code(force))
	})
	t.Run("a hold that names no client", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		b.Do("HSET", b.Key, "hold", "h")
		b.Do("PEXPIRE", b.Key, 60_000)
		require.Equal(t, "1", b.Code(force))
		require.Empty(t, b.Lock())
	})
	t.Run("kept", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		b.Do("SET", b.Key, "relock/1|k|h|c|h|1|l|2", "PX", 60_000)
		require.Equal(t, "1", b.Code(force))
		require.Empty(t, b.Lock())
		require.Equal(t, int64(0), b.Do("EXISTS", b.Key+script.NoticeSuffix))
	})
}
