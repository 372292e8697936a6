package relock

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
)

// The scripts of inspection by themselves: what they may not read is an error, and what a hold does not name is nobody's.
func TestInspectionScripts(t *testing.T) {
	s := redistest.Start(t)
	inspection, force := script.Call{Script: script.Inspect}, script.Call{Script: script.Force, Args: []any{"why"}}
	t.Run("denied", func(t *testing.T) {
		b := newQueueScripts(t, s)
		b.deny(s, "-get")
		for _, script := range []script.Call{inspection, force} {
			_, err := b.send(script)
			require.Error(t, err)
		}
	})
	t.Run("free, and something else", func(t *testing.T) {
		b := newQueueScripts(t, s)
		require.Equal(t, "free", b.ask(inspection)[0])
		require.Equal(t, "0", b.code(force))
		b.do("LPUSH", b.key, "a")
		b.do("PEXPIRE", b.key, 60_000)
		require.Equal(t, "alien", b.ask(inspection)[0])
		require.Equal(t, "-1", b.code(force))
	})
	for _, letters := range allLetters {
		t.Run("held "+letters, func(t *testing.T) {
			b := newQueueScripts(t, s)
			holder := waitNamed("c9", 1, letters)
			require.Equal(t, "1", b.code(holder.try()))
			require.Equal(t, "held", b.ask(inspection)[0])
			require.Equal(t, "1", b.code(force))
			require.Empty(t, b.lock())
			require.Equal(t, []byte(holder.hold()+" why"), b.do("GET", b.key+script.NoticeSuffix))
		})
		t.Run("handed over "+letters, func(t *testing.T) {
			b := newQueueScripts(t, s)
			holder, w := waitNamed("c9", 1, letters), waitNamed("c1", 1, letters)
			require.Equal(t, "1", b.code(holder.try()))
			b.show(map[string]shownBeat{"c1": {0, 0}})
			b.line(time.Minute, w)
			require.Equal(t, "1", b.code(force))
			require.Equal(t, w.reserved(), b.lock())
			require.Equal(t, "reserved", b.ask(inspection)[0])
			require.Equal(t, "1", b.code(force))
			require.Empty(t, b.lock())
		})
	}
	t.Run("more are gone than one script looks at", func(t *testing.T) {
		b := newQueueScripts(t, s)
		require.Equal(t, "1", b.code(waitNamed("c9", 1, "pf").try()))
		b.line(time.Minute, staleWaits(130)...)
		require.Equal(t, "4", b.code(force))
	})
	t.Run("a hold that names no client", func(t *testing.T) {
		b := newQueueScripts(t, s)
		b.do("HSET", b.key, "hold", "h")
		b.do("PEXPIRE", b.key, 60_000)
		require.Equal(t, "1", b.code(force))
		require.Empty(t, b.lock())
	})
	t.Run("kept", func(t *testing.T) {
		b := newQueueScripts(t, s)
		b.do("SET", b.key, "relock/1|k|h|c|h|1|l|2", "PX", 60_000)
		require.Equal(t, "1", b.code(force))
		require.Empty(t, b.lock())
		require.Equal(t, int64(0), b.do("EXISTS", b.key+script.NoticeSuffix))
	})
}
