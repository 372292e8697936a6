package lua_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
)

var (
	inspect   = script.Call{Script: script.Inspect}
	rwInspect = script.Call{Script: script.RWInspect}
	force     = script.Call{Script: script.Force, Args: []any{"why"}}
	rwForce   = script.Call{Script: script.RWForce, Args: []any{"why"}}
)

// A lock of any kind is inspected, and ended by force: it is handed off, and
// its holder is notified. A writer waits for readers, and a reader for a
// writer.
func TestForceAndInspectScripts(t *testing.T) {
	for letters, tt := range map[string]struct{ held, waits, reserved string }{
		"pu": {"held", "pf", "reserved"},
		"pf": {"held", "pf", "reserved"},
		"ru": {"held", "rf", "reserved"},
		"rf": {"held", "rf", "reserved"},
		"su": {"read", "wf", "write"},
		"wf": {"write", "sf", "read"},
	} {
		t.Run(letters, func(t *testing.T) {
			holder, w := WaitNamed("c9", 1, letters), WaitNamed("c1", 1, tt.waits)
			b := NewQueue(t, server)
			inspect, force, foreign, counts := inspect, force, "LPUSH", 5
			if tt.held != "held" {
				inspect, force, foreign, counts = rwInspect, rwForce, "SADD", 4
			}
			requireForced := func(next ...Wait) {
				b.RequireDone(force)
				lock := []string{}
				for _, w := range next {
					lock = append(lock, w.Reserved())
				}
				b.Require("forced", lock)
			}
			require.Equal(t, "free", b.Ask(inspect)[0])
			require.Equal(t, "0", b.Code(force))
			b.Do(foreign, b.Key, "a")
			b.Do("PEXPIRE", b.Key, 60_000)
			require.Equal(t, "alien", b.Ask(inspect)[0])
			require.Equal(t, "-1", b.Code(force))
			b.Clear()

			l := b.Listen("c9")
			b.RequireDone(holder.Try())
			require.Equal(t, tt.held, b.Ask(inspect)[0])
			requireForced()
			require.Equal(t, []byte(holder.Hold()+" why"), b.Do("GET", b.Key+script.NoticeSuffix))
			notice := script.Call{Script: script.Notice}
			r := notice.Script.BySource([]string{b.Key + script.NoticeSuffix}, nil)
			require.Equal(t, []byte(holder.Hold()+" why"), b.Do(r.Cmd, r.Args...))
			require.Equal(t, []string{"forced:" + holder.Hold() + " " + b.Key}, l.Heard())

			b.Do("DEL", b.Key+script.NoticeSuffix)
			b.RequireDone(holder.Try())
			b.Queued(w)
			require.Equal(t, "1", b.Ask(inspect)[counts], "how many wait")
			requireForced(w)
			require.Equal(t, tt.reserved, b.Ask(inspect)[0])
			requireForced()
			require.Equal(t, []byte(holder.Hold()+" why"), b.Do("GET", b.Key+script.NoticeSuffix), "a reservation has no notice")
		})
	}
	t.Run("granted by message", func(t *testing.T) {
		b := NewQueue(t, server)
		holder, w := WaitNamed("c9", 1, "pu"), nonced("c1", 1, "pu")
		b.RequireDone(holder.Try())
		b.Queued(w)
		b.RequireDone(force)
		l := b.Listen("c1")
		b.RequireDone(force)
		b.Require("forced", nil)
		require.Equal(t, []byte(string(w)+" why"), b.Do("GET", b.Key+script.NoticeSuffix), "the waiter may hold it already")
		require.Equal(t, []string{"forced:" + string(w) + " " + b.Key}, l.Heard())
	})
	for _, held := range []string{"relock/1|k|h|c|h|1|l|2", "hash c9:g:1=1 c9:1 #1 info"} {
		b := NewQueue(t, server)
		b.Store(held)
		b.RequireDone(force)
		b.Require(held, nil)
		require.Equal(t, held[:4] == "hash", b.Do("EXISTS", b.Key+script.NoticeSuffix) == int64(1), "only a holder has a notice")
	}
}
