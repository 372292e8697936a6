package lua_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/script"
	"github.com/relock-go/relock/internal/scripttest"
)

// An unfair wait that is young is woken, and the lock is free meanwhile. One
// that is older, or fair, or from the future gets it reserved.
func TestQueueScriptShortWaits(t *testing.T) {
	s := redistest.Shared(t)
	holder := scripttest.WaitNamed("c9", 1, "pu")
	release := func(b *scripttest.Queue, ago time.Duration, letters string) scripttest.Wait {
		w := scripttest.WaitNamed("c1", 1, letters)
		b.Do("DEL", b.Key, b.QueueKey(), b.BeatsKey())
		require.Equal(t, "1", b.Code(holder.Try()))
		b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 1}})
		b.Line(time.Minute, scripttest.StaleWaits(2)...)
		r := holder.Release()
		r.Key = b.Key
		args := r.BySource().Args
		// Both at once, so that a busy machine is not between them.
		b.Do("MULTI")
		b.Do("EVAL", "local t = redis.call('TIME') return redis.call('ZADD', KEYS[1], t[1] * 1000000 + t[2] - ARGV[1], ARGV[2])",
			1, b.QueueKey(), ago.Microseconds(), string(w))
		b.Do("EVAL", args...)
		replies, err := redis.Values(b.Do("EXEC"), nil)
		require.NoError(t, err)
		require.Equal(t, []any{int64(1), int64(1)}, replies)
		return w
	}
	for _, letters := range []string{"pu", "ru"} {
		t.Run(letters, func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			l := b.Listen(s, "c1")
			w := scripttest.WaitNamed("c1", 1, letters)
			b.Until(func() bool {
				release(b, 0, letters)
				require.Equal(t, []string{string(w) + " " + b.Key}, l.Heard(), "woken")
				return b.Lock() == ""
			}, "it is only woken")
			b.RequireHandedTo(scripttest.Nobody, []scripttest.Wait{w})
			require.Equal(t, "1", b.Code(w.Claim()))
			require.Equal(t, w.Held(), b.Lock())
			require.Empty(t, b.Waits())

			for _, ago := range []time.Duration{10*time.Millisecond + time.Microsecond, time.Minute, -time.Minute} {
				b.RequireHandedTo(release(b, ago, letters), nil)
			}
		})
	}
	for _, letters := range []string{"pf", "rf"} {
		b := scripttest.NewQueue(t, s)
		b.Listen(s, "c1")
		b.RequireHandedTo(release(b, 0, letters), nil)
	}
	t.Run("the first", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		w := scripttest.WaitNamed("c1", 1, "pu")
		b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}})
		b.Until(func() bool {
			b.Do("DEL", b.Key, b.QueueKey())
			b.Line(0, w)
			return b.Ask(scripttest.PollAs("c1"))[1] == string(w) && b.Lock() == ""
		}, "the poll that wakes it names it")
		require.Equal(t, []string{string(w)}, b.Waits())
	})
}

// No script looks at more than 128 waits. Whoever finds that there are more
// says so, and a cancel for nobody goes on.
func TestQueueScriptHandOverLimit(t *testing.T) {
	s := redistest.Shared(t)
	live, other, holder := scripttest.WaitNamed("c1", 1, "pf"), scripttest.WaitNamed("c2", 1, "pf"), scripttest.WaitNamed("c9", 1, "pf")
	reentrant := scripttest.WaitNamed("c9", 1, "rf")
	for _, tt := range []struct {
		name   string
		script script.Call
		held   scripttest.Wait
	}{
		{"release", holder.Release(), holder},
		{"reentrant_release", reentrant.Release(), reentrant},
		{"cancel", holder.Cancel(1), holder},
		{"cancel for nobody", scripttest.Nobody.Cancel(0), scripttest.Nobody},
		{"try", other.Try(), scripttest.Nobody},
		{"enqueue", other.Enqueue(), scripttest.Nobody},
		{"claim", live.Claim(), scripttest.Nobody},
		{"poll", scripttest.PollAs("c2"), scripttest.Nobody},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			if tt.held != scripttest.Nobody {
				require.Equal(t, "1", b.Code(tt.held.Try()))
			}
			b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}})
			b.Line(time.Minute, append(scripttest.StaleWaits(300), live)...)
			answer := b.Ask(tt.script)
			require.Equal(t, "4", answer[0])
			require.Empty(t, b.Lock())
			require.Equal(t, string(scripttest.StaleWaits(129)[128]), b.Waits()[0])
			if tt.script.Script == script.Claim || tt.script.Script == script.Enqueue {
				require.Len(t, answer, 4)
				require.Equal(t, string(b.Do("ZSCORE", b.QueueKey(), tt.script.Args[0].(string)).([]byte)), answer[1])
				require.Equal(t, "-2", answer[2], "the lock is free")
			}
			require.Equal(t, "4", b.Code(scripttest.Nobody.Cancel(0)))
			require.Equal(t, string(scripttest.StaleWaits(257)[256]), b.Waits()[0])
			require.Equal(t, "1", b.Code(scripttest.Nobody.Cancel(0)))
			require.Equal(t, live.Reserved(), b.Lock())
		})
	}
	for n, want := range map[int]string{127: live.Reserved(), 128: "", 129: ""} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			b := scripttest.NewQueue(t, s)
			require.Equal(t, "1", b.Code(holder.Try()))
			b.Show(map[string]scripttest.Beat{"c1": {Age: 0, Counted: 0}})
			b.Line(time.Minute, append(scripttest.StaleWaits(n), live)...)
			require.Equal(t, want == "", b.Code(holder.Release()) == "4")
			require.Equal(t, want, b.Lock())
			require.Equal(t, want == "", slices.Contains(b.Waits(), string(live)))
		})
	}
	t.Run("128 and no more", func(t *testing.T) {
		b := scripttest.NewQueue(t, s)
		require.Equal(t, "1", b.Code(holder.Try()))
		b.Show(nil)
		b.Line(time.Minute, scripttest.StaleWaits(128)...)
		require.Equal(t, "1", b.Code(holder.Release()))
		b.RequireHandedTo(scripttest.Nobody, nil)
	})
}
