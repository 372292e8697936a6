package lua_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// The scripts of inspection of read/write locks by themselves.
func TestRWInspectionScripts(t *testing.T) {
	s := redistest.Start(t)
	inspection, force := script.Call{Script: script.RWInspect}, script.Call{Script: script.RWForce, Args: []any{"why"}}
	x, y := scripttest.RWWaitNamed("c1", 1, "sf"), scripttest.RWWaitNamed("c2", 1, "wf")
	t.Run("denied", func(t *testing.T) {
		b := scripttest.NewReadWrite(t, s)
		b.Deny(s, "-zrange")
		for _, script := range []script.Call{inspection, force} {
			_, err := b.Send(script)
			require.Error(t, err)
		}
	})
	t.Run("free, and something else", func(t *testing.T) {
		b := scripttest.NewReadWrite(t, s)
		require.Equal(t, "free", b.Ask(inspection)[0])
		require.Equal(t, "0", b.Code(force))
		b.Do("SET", b.Key, "x", "PX", 60_000)
		require.Equal(t, "alien", b.Ask(inspection)[0])
		require.Equal(t, "-1", b.Code(force))
	})
	t.Run("read", func(t *testing.T) {
		b := scripttest.NewReadWrite(t, s)
		require.Equal(t, "1", b.Code(x.Try()))
		require.Equal(t, "read", b.Ask(inspection)[0])
		b.Show(map[string]scripttest.Heartbeat{"c2": {Age: 0, Counted: 0}})
		b.Stand(time.Minute, y)
		require.Equal(t, "1", b.Code(force))
		require.Equal(t, []string{y.Reserved()}, b.Lock())
		require.Equal(t, []byte(x.Hold()+" why"), b.Do("GET", b.Key+script.NoticeSuffix))
		require.Equal(t, "write", b.Ask(inspection)[0])
		require.Equal(t, "1", b.Code(force), "reserved")
		require.Empty(t, b.Lock())
	})
	t.Run("more are gone than one script looks at", func(t *testing.T) {
		b := scripttest.NewReadWrite(t, s)
		require.Equal(t, "1", b.Code(x.Try()))
		b.Stand(time.Minute, scripttest.RWGone(130, "wf")...)
		require.Equal(t, "4", b.Code(force))
	})
}
