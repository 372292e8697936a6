package lua_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/script"
)

var (
	inspect   = script.Call{Script: script.Inspect}
	rwInspect = script.Call{Script: script.RWInspect}
)

// noticeFor returns the request for the reason why one of these has ended.
func noticeFor(names ...any) script.Call { return script.Call{Script: script.Notice, Args: names} }

// A lock of any kind is inspected: whether it is free, held, also by a hold
// that is marked, or reserved, and how many wait. A writer waits for readers,
// and a reader for a writer.
func TestInspectScripts(t *testing.T) {
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
			inspect, foreign, counts := inspect, "LPUSH", 5
			if tt.held != "held" {
				inspect, foreign, counts = rwInspect, "SADD", 4
			}
			require.Equal(t, "free", b.Ask(inspect)[0])
			require.Equal(t, "0", b.Code(holder.End("look", "")))
			b.Do(foreign, b.Key, "a")
			b.Do("PEXPIRE", b.Key, 60_000)
			require.Equal(t, "alien", b.Ask(inspect)[0])
			b.Clear()

			b.RequireDone(holder.Try())
			require.Equal(t, tt.held, b.Ask(inspect)[0])
			before := b.Ask(inspect)[7:]
			require.Equal(t, "1", b.Code(holder.End("end", "why", holder.Hold())))
			after := b.Ask(inspect)
			require.Equal(t, tt.held, after[0])
			if tt.held != "held" {
				require.Equal(t, before[len(before)-1], after[len(after)-1], "the note of the hold")
			}
			b.Queued(w)
			require.Equal(t, "1", b.Ask(inspect)[counts], "how many wait")
			require.Equal(t, "0", b.Code(frees(holder)))
			require.Equal(t, tt.reserved, b.Ask(inspect)[0])
		})
	}
}

// The notice has the reason for each hold. It is nobody else's.
func TestNoticeScript(t *testing.T) {
	b := NewQueue(t, server)
	b.Do("HSET", b.Key+script.NoticeSuffix, "a", "it hangs", "b", "it hangs")
	at := func(names ...any) any {
		call := noticeFor(names...)
		r := call.Script.BySource([]string{b.Key + script.NoticeSuffix}, call.Args)
		return b.Do(r.Cmd, r.Args...)
	}
	for _, names := range [][]any{{"a"}, {"b"}, {"x", "b"}} {
		require.Equal(t, []byte("it hangs"), at(names...))
	}
	require.Nil(t, at("x"))
	b.Do("DEL", b.Key+script.NoticeSuffix)
	require.Nil(t, at("a"))
}
